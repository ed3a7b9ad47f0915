"""Programs made statement by statement: what is offered, what is made of answers, how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest

from evolve.agents.base import Context, Parent, Waiting
from evolve.agents.llm.hold import Hold, by_steps, hold_of
from evolve.agents.llm.steps import MOST_ASKED, MOST_STATEMENTS, Steps, is_launched, start_of
from evolve.dsl.grammar import DONE
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.kernel import Kernel
from evolve.llm.faults import Fault
from evolve.llm.probe import Probe
from evolve.llm.prompts import Prompts
from evolve.llm.request import Request
from evolve.llm.window import Window
from evolve.target.data import data_dir
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import legal_moves

Choose = Callable[[Sequence[str]], str]
GAP = {"limiter": "memory", "causes": [{"name": "idle", "share": 0.5, "primitives": ["vectorize", "unroll"]}]}
BASELINE = Parent(0, "", 0.1, 1000.0, GAP)
LAUNCHED = "split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"


@cache
def kernel() -> Kernel:
    return lift(data_dir("kernels") / "vecadd.cu").kernel


class Desk:
    """Refuses programs that end in one of these lines."""

    def __init__(self, refused: Sequence[str] = ()) -> None:
        self.refused, self.checked = refused, list[str]()

    def tend(self) -> None: ...

    def check(self, program: str) -> Sequence[Mapping[str, Any]]:
        self.checked.append(program)
        return [{"code": "E-RACE"}] if program.splitlines()[-1] in self.refused else ()

    def recall(self, step: int, prompt: str) -> str | None:
        return None

    def note(self, step: int, prompt: str, answer: str | None, **told: Any) -> None: ...

    def send(self, step: int, prompt: str, model: str, tokens: int, usd: float | None) -> None: ...


def context(*parents: Parent, seed: int = 0) -> Context:
    def moves(text: str) -> Sequence[str]:
        applied = apply_program(kernel(), parse(text))
        return legal_moves(applied.kernel, applied.names)

    best = parents[0] if parents else BASELINE
    known = {"summary": "kernel vecadd", "features": {}, "workload": {}, "sol": {}, "numerics": "reassociate"}
    return Context(
        0, kernel(), None, baseline=BASELINE, best=best, parents=parents, recent=(), budget_left=9,
        legal_moves=moves, rng=Random(seed), **known,
    )  # fmt: skip


def made(
    choose: Choose,
    desk: Desk,
    start: Parent = BASELINE,
    hold: Hold = "grammar",
    seed: int = 0,
    size: int = 4096,
) -> tuple[str, list[Request]]:
    """The program, and what was asked. `choose` is given what the grammar, else the prompt allows."""
    asked: list[Request] = []

    def said(step: int, request: Request) -> Waiting[str]:
        assert step == len(asked)
        asked.append(request)
        yield
        return choose(allowed(request))

    talk = Steps(Prompts(), hold, Window(size, 64)).program(context(seed=seed), start, desk, said)
    while True:
        try:
            next(talk)
        except StopIteration as end:
            return str(end.value), asked


def allowed(request: Request) -> list[str]:
    if request.grammar is not None:
        return [json.loads(text) for text in re.findall(r'"[^"]*"', request.grammar)]
    if request.schema is not None:
        return list(request.schema["properties"]["move"]["enum"])
    return []


def first(said: Sequence[str]) -> str:
    return said[0]


def launching(said: Sequence[str]) -> str:
    """The statements of `LAUNCHED` as far as they are offered, then the end."""
    return next(line for line in (DONE, *reversed(LAUNCHED.splitlines())) if line in said)


def test_whatever_is_picked_the_program_applies_and_ends() -> None:
    for seed in range(3):
        program, asked = made(Random(seed).choice, Desk())
        statements = parse(program).statements
        assert 1 <= len(statements) <= MOST_STATEMENTS and apply_program(kernel(), parse(program))
        assert len(asked) in (len(statements), len(statements) + 1)


def test_it_may_end_once_it_is_launched() -> None:
    program, asked = made(first, Desk())
    assert len(parse(program).statements) == len(asked) == MOST_STATEMENTS
    program, asked = made(launching, Desk())
    ends = [DONE in allowed(one) for one in asked]
    assert is_launched(kernel(), program) and ends == [False] * (len(ends) - 1) + [True]
    assert not is_launched(kernel(), program.rsplit("\n", 2)[0])


def test_a_move_whose_proof_fails_is_taken_back_and_not_offered_again() -> None:
    desk = Desk(["bind(i, grid.x)"])
    program, asked = made(first, desk)
    assert desk.checked[0] == "bind(i, grid.x)\n" and "bind(i, grid.x)" not in program
    assert "bind(i, grid.x)" in allowed(asked[0]) and "bind(i, grid.x)" not in allowed(asked[1])
    assert "bind(i, grid.x)" not in asked[1].messages[-1]["content"]


def test_a_model_that_picks_nothing_ends_the_program() -> None:
    program, asked = made(lambda said: "Let me think about it.", Desk())
    assert (program, len(asked)) == ("", MOST_ASKED)
    wrong = iter([*("split(i, 3)",) * 2, "split(i, 4)", *("no",) * MOST_ASKED])
    assert made(lambda said: next(wrong), Desk())[0] == "split(i, 4)\n", "what is not offered is not taken"


@pytest.mark.parametrize("hold", ["grammar", "schema", ""])
def test_answers_are_held_as_the_server_can(hold: Hold) -> None:
    def choose(said: Sequence[str]) -> str:
        return json.dumps({"move": "split(i, 4)"}) if hold == "schema" else "I take\n`split( i,4 )`"

    program, asked = made(choose, Desk(), hold=hold)
    assert program == "split(i, 4)\n"
    assert [one is not None for one in (asked[0].grammar, asked[0].schema)] == [
        hold == "grammar",
        hold == "schema",
    ]
    assert "split(i, 4 | 16 | 64 | 256)" in asked[0].messages[-1]["content"]


@pytest.mark.parametrize(("answers", "program"), [(2, None), (3, LAUNCHED)])
def test_what_may_end_survives_a_fault(answers: int, program: str | None) -> None:
    told = iter(range(answers))

    def choose(said: Sequence[str]) -> str:
        if next(told, None) is None:
            raise Fault("timeout", "gone")
        return next(line for line in reversed(LAUNCHED.splitlines()) if line in said)

    if program is None:
        with pytest.raises(Fault):
            made(choose, Desk())
    else:
        assert sorted(made(choose, Desk())[0]) == sorted(program)


def test_no_more_is_offered_than_fits() -> None:
    program, asked = made(first, Desk(), size=500)
    assert all(Window(500, 64).holds(one.messages) for one in asked)
    assert program and max(len(offered_in(one)) for one in asked) < 8
    roomy = made(first, Desk(), size=100_000)[1]
    assert max(len(offered_in(one)) for one in roomy) > max(len(offered_in(one)) for one in asked)


def offered_in(request: Request) -> list[str]:
    """The lines of moves in a prompt."""
    return request.messages[-1]["content"].partition("Next, one of:\n")[2].splitlines()


def test_what_is_known_first_stays_where_it_is() -> None:
    """A server need not read it again."""
    _, asked = made(first, Desk())
    shown = [one.messages[-1]["content"] for one in asked]
    heads = [text[: text.index("Program so far")] for text in shown]
    assert len({*heads}) == 1 and heads[0].startswith("Kernel:")


def test_seeds_differ_between_requests_and_come_from_the_run() -> None:
    seeds = [[one.seed for one in made(first, Desk(), seed=seed)[1]] for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2] and len({*seeds[0]}) == len(seeds[0])
    assert made(first, Desk())[1][0].temperature == 1.0


def test_it_may_begin_with_a_program_that_is_there() -> None:
    parent = Parent(7, LAUNCHED.rstrip(), 0.5, 200.0, GAP)
    program, asked = made(first, Desk(), parent)
    assert program.startswith(LAUNCHED) and program != LAUNCHED
    assert DONE not in allowed(asked[0]) and DONE in allowed(asked[1]), "something is to be added"
    began = {start_of(context(parent, seed=seed)).proposal for seed in range(20)}
    assert began == {0, 7} and start_of(context()).proposal == 0


def test_small_contexts_are_asked_step_by_step() -> None:
    assert [by_steps("auto", size) for size in (2048, 4096, 8192)] == [True, True, False]
    assert by_steps("steps", 100_000) and not by_steps("programs", 1024)


def test_a_grammar_is_preferred_to_a_schema() -> None:
    def hold(grammar: str, schema: bool) -> Hold:
        return hold_of(Probe("m", 0.1, 4096, "", 1.0, "", grammar, schema))

    assert [hold("grammar", True), hold("", True), hold("", False)] == ["grammar", "schema", ""]
    assert hold_of(None) == ""
