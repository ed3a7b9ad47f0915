"""Mutation and crossover of programs, as operations on their statements.

They know lines and numbers, not primitives: what they break, the compiler refuses before anything
is built, at no cost to the budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from evolve.agents.base import Proposal
from evolve.population.archive import Elite

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def statements(program: str) -> list[str]:
    """The statements of a program text, without blank and comment lines."""
    lines = (line.rstrip() for line in program.splitlines())
    return [line for line in lines if line and not line.lstrip().startswith("#")]


def join(lines: Sequence[str]) -> str:
    """A program text of these statements."""
    return "".join(f"{line}\n" for line in lines)


def delete(lines: list[str], rng: Random) -> list[str] | None:
    """Without one statement."""
    if not lines:
        return None
    at = rng.randrange(len(lines))
    return lines[:at] + lines[at + 1 :]


def truncate(lines: list[str], rng: Random) -> list[str] | None:
    """Only a proper prefix, at least one statement long."""
    return lines[: rng.randrange(1, len(lines))] if len(lines) > 1 else None


def swap(lines: list[str], rng: Random) -> list[str] | None:
    """Two neighbouring statements exchanged."""
    if len(lines) < 2:
        return None
    at = rng.randrange(len(lines) - 1)
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def _numbers(lines: list[str]) -> list[tuple[int, re.Match[str]]]:
    code = [line.split("#", 1)[0] for line in lines]
    return [(at, match) for at, line in enumerate(code) for match in _NUMBER.finditer(line)]


def _rewrite(lines: list[str], at: int, match: re.Match[str], text: str) -> list[str]:
    line = lines[at]
    return [*lines[:at], line[: match.start()] + text + line[match.end() :], *lines[at + 1 :]]


def renumber(lines: list[str], rng: Random) -> list[str] | None:
    """One number doubled or halved (0 becomes 1)."""
    found = _numbers(lines)
    if not found:
        return None
    at, match = found[rng.randrange(len(found))]
    value = int(match[0])
    near = [value * 2, value // 2] if value > 1 else [value + 1]
    return _rewrite(lines, at, match, str(near[rng.randrange(len(near))]))


def reopen(lines: list[str], rng: Random) -> list[str] | None:
    """One number turned into a hole over its neighbours, its own value first."""
    found = [(at, match) for at, match in _numbers(lines) if int(match[0]) > 0]
    if not found:
        return None
    at, match = found[rng.randrange(len(found))]
    value = int(match[0])
    near = dict.fromkeys([value, value * 2, max(1, value // 2), value * 4, max(1, value // 4)])
    return _rewrite(lines, at, match, f"?[{', '.join(map(str, near))}]")


MUTATIONS: tuple[tuple[str, Callable[[list[str], Random], list[str] | None], float], ...] = (
    ("renumber", renumber, 3.0),
    ("reopen", reopen, 2.0),
    ("append", lambda lines, rng: None, 3.0),  # drawn here, done by `mutate`, which knows the legal moves
    ("delete", delete, 1.5),
    ("truncate", truncate, 0.5),
    ("swap", swap, 1.0),
)


def mutate(parent: Elite, legal_moves: Callable[[str], Sequence[str]], rng: Random) -> Proposal:
    """One mutation of a program, drawn by weight; one that does not apply becomes `append`."""
    lines = statements(parent.program)
    name, operator, _ = rng.choices(MUTATIONS, [weight for *_, weight in MUTATIONS])[0]
    changed = operator(lines, rng)
    if changed is None:
        name, changed = "append", lines
        moves = legal_moves(join(lines))
        if moves:
            changed = [*lines, *statements(moves[rng.randrange(len(moves))])]
    return Proposal(join(changed), (parent.proposal,), name)


def cross(first: Elite, second: Elite, rng: Random) -> Proposal:
    """A prefix of one program with a suffix of another, or one statement of the second put into the first."""
    left, right = statements(first.program), statements(second.program)
    parents = (first.proposal, second.proposal)
    if right and rng.random() < 0.4:
        at = rng.randint(0, len(left))
        return Proposal(join([*left[:at], right[rng.randrange(len(right))], *left[at:]]), parents, "insert")
    cut_left, cut_right = rng.randint(0, len(left)), rng.randint(0, len(right))
    return Proposal(join(left[:cut_left] + right[cut_right:]), parents, "splice")
