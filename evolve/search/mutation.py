"""Mutations of a program: each operator gives drafts, best hope first; `Bench.fit` makes them apply."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evolve.dsl.program import Hole, ListValue, Name, Statement, Value
from evolve.search.outline import (
    Number,
    given,
    numbers,
    references,
    referring,
    root,
    scaled_divisors,
    signature,
    with_given,
    with_number,
)

Statements = tuple[Statement, ...]

_TOGETHER = ("everywhere", "primitive", "alone", "balanced")
_WEIGHTS = (4, 2, 2, 2)
_NEAR = 2
"""The nearest neighbours, doubled and halved; those beyond are drawn half as often."""


def neighbours(n: Number) -> list[int]:
    """Other plausible values, nearest first: powers of two times the value; from 0 and 1 the first few."""
    if n.value <= 1:
        near = [1, 2, 4, 0]
    else:
        near = [n.value * 2, *(n.value // d for d in (2,) if n.value % d == 0), n.value * 4]
        near += [n.value // 4] if n.value % 4 == 0 else []
    return [v for v in near if v >= n.minimum and v != n.value]


def renumber(program: Statements, rng: Random) -> Iterator[Statements]:
    """A number doubled or halved: with all that equal it, those of its primitive, or alone; or one doubled
    and another about the same loop halved, so that their product stays.

    A second draft lets the conditions ask for as much more divisibility.
    """
    found = [n for n in numbers(program) if neighbours(n)]
    if not found:
        return
    chosen = found[rng.randrange(len(found))]
    near = neighbours(chosen)
    new = near[rng.randrange(min(len(near), _NEAR) if rng.random() < 0.7 else len(near))]
    how = rng.choices(_TOGETHER, _WEIGHTS)[0]
    if how == "balanced":
        child = _balanced(program, found, rng)
        if child is not None:
            yield child
            return
    together = [
        n
        for n in numbers(program)
        if n == chosen
        or (n.value == chosen.value and n.minimum <= new and how == "everywhere")
        or (
            n.value == chosen.value
            and how == "primitive"
            and (program[n.statement].primitive, n.parameter)
            == (program[chosen.statement].primitive, chosen.parameter)
        )
    ]
    child = program
    for n in together:
        child = with_number(child, n, new)
    yield child
    if chosen.value and new > chosen.value:
        yield scaled_divisors(child, new // chosen.value)


def _balanced(program: Statements, found: list[Number], rng: Random) -> Statements | None:
    """One number doubled and one halved, both about loops with a common root."""

    def roots(n: Number) -> set[str]:
        return {root(name) for name in references(program[n.statement])}

    pairs = [
        (a, b)
        for a in found
        for b in found
        if a != b and a.value > 1 and b.value % 2 == 0 and b.value // 2 >= max(b.minimum, 1)
        if roots(a) & roots(b) and a.value * 2 != b.value
    ]
    if not pairs:
        return None
    a, b = pairs[rng.randrange(len(pairs))]
    return with_number(with_number(program, a, a.value * 2), b, b.value // 2)


def reopen(program: Statements, rng: Random) -> Iterator[Statements]:
    """A number turned into a hole over its neighbours, itself left out: it has been tried.

    Each draft starts from another neighbour.
    """
    found = [n for n in numbers(program) if neighbours(n)]
    if not found:
        return
    chosen = found[rng.randrange(len(found))]
    near = neighbours(chosen)
    rng.shuffle(near)
    for at in range(len(near)):
        turned = tuple(near[at:] + near[:at])
        yield with_number(program, chosen, Hole(turned) if len(turned) > 1 else turned[0])


def rechoose(program: Statements, rng: Random) -> Iterator[Statements]:
    """Another choice for an argument that has some, or two choices exchanged throughout a primitive."""
    found: list[tuple[int, str, str, tuple[str, ...]]] = []
    for at, s in enumerate(program):
        for p in signature(s):
            if p.type == "choice":
                choice = given(s).get(p.name, Name(str(p.default)))
                others = tuple(c for c in p.choices if isinstance(choice, Name) and c != choice.text)
                if isinstance(choice, Name) and others:
                    found.append((at, p.name, choice.text, others))
    if not found:
        return
    at, parameter, old, others = found[rng.randrange(len(found))]
    new = others[rng.randrange(len(others))]
    alone = rng.random() < 0.5
    child = list(program)
    for i, name, held, _ in found:
        if i == at or (not alone and name == parameter and program[i].primitive == program[at].primitive):
            instead = {old: new, new: old}.get(held, held)
            child[i] = with_given(child[i], given(child[i]) | {name: Name(instead)})
    yield tuple(child)


def permute(program: Statements, rng: Random) -> Iterator[Statements]:
    """Two items of a list exchanged: an order of loops, the sizes of a tile."""
    found: list[tuple[int, str, tuple[Value, ...]]] = []
    for at, s in enumerate(program):
        for name, value in given(s).items():
            if isinstance(value, ListValue) and len(set(value.items)) > 1:
                found.append((at, name, value.items))
    if not found:
        return
    at, name, items = found[rng.randrange(len(found))]
    i, j = rng.sample(range(len(items)), 2)
    moved = list(items)
    moved[i], moved[j] = moved[j], moved[i]
    s = program[at]
    yield (*program[:at], with_given(s, given(s) | {name: ListValue(tuple(moved))}), *program[at + 1 :])


def delete(program: Statements, rng: Random) -> Iterator[Statements]:
    """Without one statement, or one loop of its group; what depended on it is fitted to what is left."""
    if not program:
        return
    at = rng.randrange(len(program))
    s = program[at]
    members = references(s)
    fewer = None
    if len(members) > 1 and rng.random() < 0.5:
        out = members[rng.randrange(len(members))]
        fewer = referring(s, lambda n: () if n == out else (n,))
    yield (*program[:at], *(() if fewer is None else (fewer,)), *program[at + 1 :])
