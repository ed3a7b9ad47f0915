"""A program made statement by statement: the compiler's next moves are offered, the model picks one.

So a model needs to know no language, and no more of the kernel than fits a small context. A move whose proof
fails is taken back and not offered again. The program ends when the model says so, which it may once the
kernel is launched on blocks of threads, or at a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolve.agents.base import Context, Desk, Parent
from evolve.agents.llm.families import Family, offered, without
from evolve.agents.llm.hold import Answers, Hold, by_steps, hold_step
from evolve.agents.llm.lines import addressed
from evolve.agents.llm.question import message
from evolve.agents.llm.view import parent_of, step_view
from evolve.dsl.grammar import DONE
from evolve.dsl.parser import parse
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For
from evolve.ir.types import LoopKind
from evolve.ir.visit import walk
from evolve.llm.answers import read_step
from evolve.llm.faults import Fault
from evolve.llm.prompts import Prompts
from evolve.llm.request import Messages, Request, Waiting
from evolve.llm.window import Window
from evolve.transforms.apply import apply_program

MOST_STATEMENTS = 8
"""Of one program, beyond those of the one that it begins with."""
MOST_ASKED = 3
"""Times that a model is asked for one statement: its move may be refused, or be none."""
TEMPERATURE = 1.0
"""So that programs differ; each request has a seed of its own, drawn from the run's."""
_FEW, _MANY = 8, 24
_ROOMY = 8000
"""Lines of moves for models with a context of fewer tokens than that, and for others."""
_ANEW = 0.5
_SEEDS = 1 << 31
_MORE_TOKENS = 16
"""Of an answer, beyond one for each character of the longest move."""
_BLOCKS = frozenset((LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z))
_THREADS = frozenset((LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z))

Said = Callable[[int, Request], Waiting[str]]
"""Has a request answered, as the exchange of that number of this ask. Raises Fault."""


@dataclass(frozen=True)
class Steps:
    """Asks for programs statement by statement, with so many lines of moves at most, fewer where the model's
    window does not hold them."""

    prompts: Prompts
    hold: Hold
    window: Window

    @property
    def most_lines(self) -> int:
        """Lines of moves that are offered at a time."""
        return _FEW if self.window.context < _ROOMY else _MANY

    def program(self, context: Context, start: Parent, desk: Desk, said: Said) -> Waiting[str]:
        """A program that begins with that of `start`; the same where the model adds nothing.

        Raises Fault where one comes before the program could end.
        """
        program = begun = f"{start.program.rstrip()}\n".lstrip()
        exchange = 0
        for _ in range(MOST_STATEMENTS):
            launched, moves = is_launched(context.kernel, program), context.legal_moves(program)
            choices: Sequence[Family] = offered(
                moves, program, addressed(start.gap), launched, self.most_lines
            )
            ends = launched and program != begun
            for _ in range(MOST_ASKED):
                if not choices:
                    return program
                choices, messages = self._shown(context, program, choices, ends)
                request = self._request(context, messages, choices, ends)
                try:
                    move = read_step((yield from said(exchange, request)))
                except Fault:
                    if ends:
                        return program
                    raise
                exchange += 1
                if move == DONE and ends:
                    return program
                if not any(move in family.moves for family in choices):
                    continue
                if not desk.check(f"{program}{move}\n"):
                    program += f"{move}\n"
                    break
                choices = without(choices, move)
            else:
                return program
        return program

    def _shown(
        self, context: Context, program: str, choices: Sequence[Family], ends: bool
    ) -> tuple[Sequence[Family], Messages]:
        """The question, with as many of the choices as the window holds, one at least."""
        values = step_view(context, program, list(map(str, choices)), ends)
        messages = [
            message("system", self.prompts.render("steps")),
            message("user", self.prompts.render("step", **values)),
        ]
        if len(choices) > 1 and not self.window.holds(messages):
            return self._shown(context, program, choices[:-1], ends)
        return choices, messages

    def _request(
        self, context: Context, messages: Messages, choices: Sequence[Family], ends: bool
    ) -> Request:
        moves = [move for family in choices for move in family.moves]
        return Request(
            messages,
            most_tokens=max(map(len, moves)) + _MORE_TOKENS,
            temperature=TEMPERATURE,
            seed=context.rng.randrange(_SEEDS),
            **hold_step(self.hold, moves, ends),
        )


def steps_for(prompts: Prompts, hold: Hold, window: Window, answers: Answers) -> Steps | None:
    """For a model with this context; None where it is asked for whole programs."""
    return Steps(prompts, hold, window) if by_steps(answers, window.context) else None


def start_of(context: Context) -> Parent:
    """What a program begins with: as often as not, once there is one, the program that is to be improved."""
    parent = parent_of(context)
    return context.baseline if context.rng.random() < _ANEW else parent


def is_launched(kernel: Kernel, program: str) -> bool:
    """Whether a program that applies puts loops on blocks and on threads."""
    changed = apply_program(kernel, parse(program)).kernel
    kinds = {s.stmt.kind for s in walk(changed.body) if isinstance(s.stmt, For)}
    return bool(kinds & _BLOCKS and kinds & _THREADS)
