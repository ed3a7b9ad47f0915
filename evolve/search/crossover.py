"""Crossover: what one program says about a part of the kernel, or with which values, put into another.

Both programs are in plain form (`Bench.plain`), so that the same loop has the same name in both. The
operators give drafts, best hope first; `Bench.fit` makes them apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from evolve.dsl.program import ListValue, Name, Statement, Value, print_value
from evolve.search.outline import (
    LOOPS,
    given,
    is_knowledge,
    references,
    referring,
    root,
    settings,
    slot,
    subjects,
    with_given,
)

Statements = tuple[Statement, ...]
Pairs = list[tuple[int, int]]


def alike(left: Statements, right: Statements) -> Statements:
    """The right program with its results named as the left one names the like; with names of their own else.

    Alike are results of one primitive about the same loops and buffers, else about the same buffer.
    """
    names: dict[str, str] = {}
    free = [s for s in left if s.targets]
    taken = {t for s in (*left, *right) for t in s.targets}
    out = []
    for s in right:
        s = referring(s, partial(_respelled, names)) or s
        if s.targets:
            called = next((x for x in free if slot(x) == slot(s)), None) or next(
                (x for x in free if _makes(x) == _makes(s) and len(x.targets) == len(s.targets)), None
            )
            if called is not None:
                free.remove(called)
            targets = called.targets if called else tuple(_fresh(t, left, taken) for t in s.targets)
            names |= zip(s.targets, targets, strict=True)
            s = replace(s, targets=targets)
        out.append(s)
    return tuple(out)


def _respelled(names: Mapping[str, str], name: str) -> tuple[str]:
    return (names.get(root(name), root(name)) + name[len(root(name)) :],)


def _makes(s: Statement) -> tuple[str, tuple[str, ...]]:
    return s.primitive, references(s, ("buffer",))


def _fresh(name: str, left: Statements, taken: set[str]) -> str:
    """A name that no result of the left program has."""
    new, number = name, 2
    while any(new in s.targets for s in left) or (new != name and new in taken):
        new, number = f"{name}_{number}", number + 1
    taken.add(new)
    return new


def align(left: Statements, right: Statements) -> Pairs:
    """Which statements of two programs correspond: in order, of one primitive, about the same loops.

    The pairs, as positions, maximise the sum of likenesses (Needleman and Wunsch 1970, gaps are free).
    """
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            paired = likeness(left[i], right[j])
            both = paired + best[i + 1][j + 1] if paired else 0.0
            best[i][j] = max(both, best[i + 1][j], best[i][j + 1])
    pairs: Pairs = []
    i = j = 0
    while i < len(left) and j < len(right):
        paired = likeness(left[i], right[j])
        if paired and best[i][j] == paired + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def likeness(a: Statement, b: Statement) -> float:
    """0 if the statements have nothing to do with each other, 1 if they differ in values at most."""
    if a.primitive != b.primitive:
        return 0.0
    mine, other = set(references(a)), set(references(b))
    roots = {root(n) for n in mine}, {root(n) for n in other}
    if not mine and not other:
        return 1.0
    return 0.75 * _overlap(mine, other) + 0.25 * _overlap(*roots)


def _overlap(a: Set[Any], b: Set[Any]) -> float:
    return len(a & b) / len(a | b)


def blend(left: Statements, right: Statements, rng: Random) -> Iterator[Statements]:
    """The left program with some values of the right one's corresponding statements.

    Places that change from and to the same value change together: two loops of 256 iterations that
    the same threads run stay equal.
    """
    changes: dict[tuple[str, str], list[tuple[int, str, Value]]] = {}
    for i, j in align(left, right):
        theirs = settings(right[j])
        for name, old in settings(left[i]).items():
            new = theirs.get(name)
            if new is not None and new != old and _same_shape(old, new):
                changes.setdefault((print_value(old), print_value(new)), []).append((i, name, new))
    if not changes:
        return
    kinds = list(changes)
    taken = rng.sample(kinds, rng.randint(1, max(1, len(kinds) - 1)))
    child = list(left)
    for kind in taken:
        for i, name, new in changes[kind]:
            child[i] = with_given(child[i], given(child[i]) | {name: new})
    yield tuple(child)
    yield _informed(tuple(child), right)


def _same_shape(a: Value, b: Value) -> bool:
    return not (isinstance(a, ListValue) and isinstance(b, ListValue)) or len(a.items) == len(b.items)


def exchange(left: Statements, right: Statements, rng: Random) -> Iterator[Statements]:
    """The left program, but what is said about some loops or arrays is what the right one says."""
    about = {s for one in (*subjects(left), *subjects(right)) for s in one}
    if not about:
        return
    taken = _drawn(sorted(about), subjects(right), rng)
    child = merge(restricted(left, about - taken), restricted(right, taken, whole=False), align(left, right))
    yield child
    yield _informed(child, right)


def _drawn(about: list[str], groups: Sequence[frozenset[str]], rng: Random) -> frozenset[str]:
    """One subject, or all that are tied to it by statements about several, or any."""
    how = rng.random()
    if how > 0.8:
        return frozenset(rng.sample(about, rng.randint(1, max(1, len(about) - 1))))
    taken = frozenset([about[rng.randrange(len(about))]])
    if how > 0.35:
        while more := [g for g in groups if g & taken and not g <= taken]:
            taken = taken.union(*more)
    return taken


def restricted(program: Statements, keep: Set[str], *, whole: bool = True) -> list[Statement | None]:
    """Each statement as far as it is about `keep`; None where it is not.

    Statements about the whole kernel stay if `whole`.
    """
    out: list[Statement | None] = []
    families = _families(program)
    for s, about in zip(program, subjects(program), strict=True):
        if not about:
            out.append(s if whole else None)
        elif about <= keep:
            out.append(s)
        elif not about & keep:
            out.append(None)
        else:
            out.append(referring(s, lambda n: (n,) if families.get(root(n), root(n)) in keep else ()))
    return out


def _families(program: Statements) -> dict[str, str]:
    """The subject of each buffer that the program makes."""
    return {
        t: min(about) for s, about in zip(program, subjects(program), strict=True) for t in s.targets if about
    }


def merge(left: list[Statement | None], right: list[Statement | None], pairs: Pairs) -> Statements:
    """Two programs as one, corresponding statements at one place; joined where only the group differs."""
    out: list[Statement] = []
    i = j = 0
    for a, b in [*pairs, (len(left), len(right))]:
        out += [s for s in (*left[i:a], *right[j:b]) if s is not None]
        if a < len(left) and b < len(right):
            out += _joined(left[a], right[b])
        i, j = a + 1, b + 1
    return tuple(out)


def _joined(a: Statement | None, b: Statement | None) -> list[Statement]:
    if a is None or b is None or a == b:
        return [s for s in (a, b) if s is not None][:1]
    mine, other = given(a), given(b)
    groups = [n for n in mine if n in other and mine[n] != other[n]]
    if settings(a) == settings(b) and len(groups) == 1:
        items = (*_items(mine[groups[0]]), *_items(other[groups[0]]))
        joined = referring(a, lambda n: tuple(dict.fromkeys(items)) if n == items[0] else (n,))
        if joined is not None:
            return [joined]
    return [a, b]


def _items(v: Value) -> tuple[str, ...]:
    if isinstance(v, Name):
        return (v.text,)
    return tuple(x.text for x in v.items if isinstance(x, Name)) if isinstance(v, ListValue) else ()


def graft(left: Statements, right: Statements, rng: Random) -> Iterator[Statements]:
    """The left program with one statement of the right one that it lacks, and those that this needs.

    Of a group come the loops about which the left program says nothing of the kind. A copy comes with
    what is said about its loops: where the right program treats them like loops that the left one
    knows, as the left one treats those.
    """
    present = {slot(s) for s in left}
    lacking = [j for j, s in enumerate(right) if slot(s) not in present and not is_knowledge(s)]
    if not lacking:
        return
    wanted = needed(right, lacking[rng.randrange(len(lacking))]) & set(lacking)
    copies = frozenset(t for j in wanted for t in right[j].targets)
    twins = {loop: like for loop in _loops_of(right, copies) if (like := _twin(loop, right, left, copies))}
    said = {(s.primitive, n) for s in left for n in references(s)}

    def comes(j: int, name: str) -> bool:
        if root(name) in copies and name not in copies:
            return all(_path_below(loop, name) is None for loop in twins)
        return j in wanted and (right[j].primitive, name) not in said

    taken: list[Statement | None] = []
    for j, s in enumerate(right):
        if s.targets or not references(s):
            taken.append(s if j in wanted else None)
        else:
            taken.append(referring(s, lambda n, j=j: (n,) if comes(j, n) else ()))  # type: ignore[misc]
    treated: list[Statement | None] = [_with_twins(s, twins) for s in left]
    child = merge(treated, taken, [(i, j) for i, j in align(left, right) if taken[j] is None])
    yield child
    yield _informed(child, right)


def _loops_of(program: Statements, copies: frozenset[str]) -> list[str]:
    """The loops of copies, `<copy>.<dimension>`, of which a program says something."""
    names = (n for s in program for n in references(s) if root(n) in copies and n not in copies)
    return list(dict.fromkeys(".".join(n.split(".")[:2]) for n in names))


def _path_below(loop: str, name: str) -> str | None:
    """What follows `loop` in the name of a loop made from it; None if it is not made from it."""
    return name[len(loop) :] if name == loop or name.startswith(f"{loop}.") else None


def _twin(loop: str, right: Statements, left: Statements, copies: frozenset[str]) -> str | None:
    """The loop of the kernel, used by the left program, that the right one treats most like `loop`."""

    def said(of: str) -> set[tuple[int, str]]:
        return {
            (j, path)
            for j, s in enumerate(right)
            for n in references(s, LOOPS)
            if (path := _path_below(of, n)) is not None
        }

    mine = said(loop)
    known = sorted({root(n) for s in left for n in references(s, LOOPS)} - copies)
    alike = {like: _overlap(mine, said(like)) for like in known}
    best = max(known, key=lambda n: alike[n], default=None)
    return best if best is not None and alike[best] else None


def _with_twins(s: Statement, twins: Mapping[str, str]) -> Statement:
    """The statement with each loop's twins beside it in its group."""

    def both(n: str) -> tuple[str, ...]:
        paths = ((loop, _path_below(like, n)) for loop, like in twins.items())
        return (*(loop + path for loop, path in paths if path is not None), n)

    return referring(s, both) or s


def needed(program: Statements, at: int) -> set[int]:
    """A statement and those before it that make what it and they refer to."""
    found = {at}
    for j in range(at - 1, -1, -1):
        made = {*program[j].targets, *references(program[j])}
        used = {n for k in found for n in references(program[k])}
        if any(n in program[j].targets or n.startswith(tuple(f"{m}." for m in made)) for n in used):
            found.add(j)
    return found


def _informed(child: Statements, other: Statements) -> Statements:
    """With what the other program knows about the sizes, after what this one does."""
    known = [s for s in child if is_knowledge(s)]
    more = [s for s in other if is_knowledge(s) and s not in known]
    return (*known, *more, *(s for s in child if not is_knowledge(s)))
