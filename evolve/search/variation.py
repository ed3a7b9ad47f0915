"""Mutation and crossover of programs: draws an operator, makes its child apply, and draws again until
the child is new.

`mutation` and `crossover` have the operators, `outline` what they know of statements, `bench` applies
what they made. A child that no longer applies, or is its parent, costs nothing here; it would cost a
proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from evolve.agents.base import Proposal
from evolve.dsl.program import Program, Statement, print_program
from evolve.population.archive import Elite
from evolve.search import crossover, mutation
from evolve.search.bench import Bench, Fitted
from evolve.search.outline import filled, read

Statements = tuple[Statement, ...]

DRAWS = 8
"""Times that a child is drawn before the parents are given up."""

MOST_DROPPED = 1 / 3
"""Share of the statements that `delete` may take with the one it removes; no other operator loses any."""

MUTATIONS: tuple[tuple[str, Callable[[Statements, Random], Iterator[Statements]] | None, float], ...] = (
    ("renumber", mutation.renumber, 3.0),
    ("reopen", mutation.reopen, 2.0),
    ("extend", None, 3.0),  # by `_extensions`, which knows the legal moves
    ("delete", mutation.delete, 1.0),
    ("rechoose", mutation.rechoose, 1.0),
    ("permute", mutation.permute, 0.5),
)
CROSSOVERS: tuple[
    tuple[str, Callable[[Statements, Statements, Random], Iterator[Statements]], float], ...
] = (
    ("blend", crossover.blend, 1.0),
    ("exchange", crossover.exchange, 1.0),
    ("graft", crossover.graft, 1.0),
)


@dataclass(frozen=True)
class Workshop:
    """What making children needs: the kernel's bench, the statements that may follow a program, and
    whether a program (its canonical text) has been proposed."""

    bench: Bench
    moves: Callable[[str], Sequence[str]]
    is_known: Callable[[str], bool]


def mutate(parent: Elite, shop: Workshop, rng: Random) -> Proposal | None:
    """One mutation of a program, drawn by weight; None if no draw gave a new program that applies."""
    program = read(parent.program)
    if program is None:
        return _appended(parent, shop, rng)
    for _ in range(DRAWS):
        name, operator, _ = rng.choices(MUTATIONS, [weight for *_, weight in MUTATIONS])[0]
        drafts = (
            _extensions(program.statements, shop, rng)
            if operator is None
            else operator(program.statements, rng)
        )
        child = _fitted(drafts, (program.statements,), name, shop)
        if child is not None:
            return Proposal(child, (parent.proposal,), name)
    return None


def cross(first: Elite, second: Elite, shop: Workshop, rng: Random) -> Proposal | None:
    """The first program with something of the second; None if no draw gave a new program that applies."""
    programs = read(first.program), read(second.program)
    if programs[0] is None or programs[1] is None:
        return None
    left, right = (shop.bench.plain(p.statements) for p in programs if p is not None)
    right = crossover.alike(left, right)
    for _ in range(DRAWS):
        name, operator, _ = rng.choices(CROSSOVERS, [weight for *_, weight in CROSSOVERS])[0]
        child = _fitted(operator(left, right, rng), (left, right), name, shop)
        if child is not None:
            return Proposal(child, (first.proposal, second.proposal), name)
    return None


def _fitted(
    drafts: Iterator[Statements], parents: Sequence[Statements], operator: str, shop: Workshop
) -> str | None:
    """The text of the draft that loses least in fitting; None if it loses too much or is nothing new."""
    best: Fitted | None = None
    for draft in drafts:
        most = int(MOST_DROPPED * len(draft)) if operator == "delete" else 0
        child = shop.bench.fit(draft, most if best is None else best.dropped - 1)
        best = child or best
        if best is not None and not best.dropped:
            break
    if best is None:
        return None
    kernels = [None if same is None else same.kernel for same in map(shop.bench.fit, parents)]
    plain = _text(tuple(map(filled, best.statements)))
    unchanged = best.kernel is not None and best.kernel in kernels
    if unchanged or shop.is_known(plain) or any(plain == _text(parent) for parent in parents):
        return None
    return _text(best.statements)


def _extensions(program: Statements, shop: Workshop, rng: Random) -> Iterator[Statements]:
    """A legal statement put in somewhere, half of the time at the end."""
    at = len(program) if rng.random() < 0.5 else rng.randint(0, len(program))
    moves = shop.moves(_text(program[:at]))
    added = read(moves[rng.randrange(len(moves))]) if moves else None
    if added is not None:
        yield (*program[:at], *added.statements, *program[at:])


def _appended(parent: Elite, shop: Workshop, rng: Random) -> Proposal | None:
    """A legal move after a program that is not in the language of `dsl_spec/`."""
    moves = shop.moves(parent.program)
    if not moves:
        return None
    text = parent.program if not parent.program or parent.program.endswith("\n") else f"{parent.program}\n"
    return Proposal(f"{text}{moves[rng.randrange(len(moves))]}\n", (parent.proposal,), "extend")


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The canonical form of a program text; of one that is not in the language, the text."""
    program = read(text)
    return text if program is None else print_program(program)


def _text(statements: Statements) -> str:
    return print_program(Program(statements))
