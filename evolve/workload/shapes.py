"""Sizes at which a guarded variant is checked: the smallest inside its guard and some one step outside."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod

from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var, compare
from evolve.ir.types import DType
from evolve.ir.visit import subexpressions, variables
from evolve.workload.model import Sizes, Workload

_FREE = (1, 3)
_MAX_CANDIDATES = 14
_MAX_TRIED = 20_000
_INSIDE = 4
_OUTSIDE = 3
_GROWN_VOLUME = 2**16
_LARGEST_VOLUME = 2**20
_SCANNED = 1024
_A_ROW = (37, 601, 2)
"""More than a warp, more than a block of usual size, and so few that many rows are empty."""


def check_shapes_for(guard: Iterable[Expr], workload: Workload, sizes: Iterable[str] = ()) -> list[Sizes]:
    """Scalar values at which to check a variant that runs when all of `guard` hold.

    The smallest sizes inside the guard first (a size that the guard leaves free is 1 and 3), then
    some of several blocks or tiles along each size that the guard lets grow, then some just outside,
    which reach the next variant or the original. `sizes` names the scalars that are sizes; without
    it, the integer ones of the workload. Where no small sizes satisfy the guard, the workload's own
    sizes that do are returned.
    """
    asked = tuple(guard)
    base = workload.timed[0]
    there = _there(workload, base)
    conditions = (*asked, *there)
    names = list(sizes) or [n for n, v in base.items() if isinstance(v, int)]
    constrained = {n for c in conditions for n in variables(c) if n in names}
    options = {n: _candidates(n, conditions) if n in constrained else list(_FREE) for n in names}
    found: list[Sizes] = []
    for chosen in _smallest_first(names, options):
        made = {**base, **chosen}
        if _all(conditions, made):
            found.append(made)
            if len(found) >= _INSIDE:
                break
    if not found:
        return [s for s in (*workload.check, *workload.timed) if _all(conditions, s)]
    grown = [s for s in _grown(found[0], conditions, names) if s not in found]
    outside = _outside(found, asked, {n for c in asked for n in variables(c) if n in names})
    return found + grown + [s for s in outside if _all(there, s)]


def _there(workload: Workload, sizes: Sizes) -> tuple[Expr, ...]:
    """That no array is empty, or less, such as one of n - taps + 1 elements: nothing would be launched."""
    extents = dict.fromkeys(e for a in workload.arrays for e in a.extents if variables(e) <= sizes.keys())
    return tuple(compare(BinaryOp.GE, e, 1) for e in extents if any(map(_takes_away, subexpressions(e))))


def _takes_away(e: Expr) -> bool:
    match e:
        case Binary(op=BinaryOp.SUB):
            return True
        case Binary(op=BinaryOp.ADD | BinaryOp.MUL, rhs=Const(value=v)):
            return v < 0
    return False


def with_lengths(sizes: Sizes, number: int, workload: Workload, implied: Iterable[str], most: int) -> Sizes:
    """Sizes with lengths that no parameter gives, such as the entries of a sparse matrix: some for each row.

    What row pointers end with is that many for each row, by turns with `number` _A_ROW, so that loops over
    data have several trips whatever they are split by; other lengths are that many themselves. Halved until
    all arrays have at most `most` bytes, where they can be.
    """
    made = {**sizes, **dict.fromkeys(implied, 1)}
    for name in sorted(implied):
        ends = [
            prod(a.shape(made)) - 1
            for a in workload.arrays
            if a.values is not None and a.values.nondecreasing and name in variables(a.values.high)
        ]
        made[name] = max([1, *ends]) * _A_ROW[number % len(_A_ROW)]
        while made[name] > 1 and workload.bytes_at(made) > most:
            made[name] //= 2
    return made


def _grown(start: Sizes, conditions: tuple[Expr, ...], names: list[str]) -> list[Sizes]:
    """Sizes inside the guard at which tiles and grids of usual extents are several, the last one partial.

    All sizes grown together and, where that leaves each small, two at a time.
    """
    out: list[Sizes] = []
    groups = [names] if len(names) < 3 else [names, names[:2], names[-2:]]
    for group in groups:
        made = dict(start)
        fixed = _volume({n: int(start[n]) for n in names if n not in group})
        side = int((_GROWN_VOLUME / fixed) ** (1 / len(group)) if group else 0)
        for at, name in enumerate(group):
            made[name] = _next_inside(made, name, min(side, 4096) // 2 * 2 + 1 + 2 * at, conditions, names)
        if made not in out:
            out.append(made)
    return out


def _next_inside(at: Sizes, name: str, target: int, conditions: tuple[Expr, ...], names: list[str]) -> int:
    """A value near the target, larger than the one at hand, that stays inside; else the one at hand."""
    least = int(at[name])
    first = max(target, least + 1)
    room = _LARGEST_VOLUME // max(1, _volume({n: int(at[n]) for n in names if n != name}))
    up, down = (
        range(first, min(first + _SCANNED, room + 1)),
        range(first - 1, max(least, first - _SCANNED), -1),
    )
    return next((v for v in (*up, *down) if v <= room and _all(conditions, {**at, name: v})), least)


def _smallest_first(names: list[str], options: dict[str, list[int]]) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = []
    for at, chosen in enumerate(product(*(options[n] for n in names))):
        if at >= _MAX_TRIED:
            break
        rows.append(dict(zip(names, chosen, strict=True)))
    return sorted(rows, key=lambda r: (_volume(r), sum(r.values()), tuple(r.values())))


def _volume(row: dict[str, int]) -> int:
    total = 1
    for v in row.values():
        total *= v
    return total


def _all(conditions: tuple[Expr, ...], sizes: Sizes) -> bool:
    return all(bool(evaluate(c, sizes)) for c in conditions)


def _outside(inside: list[Sizes], conditions: tuple[Expr, ...], constrained: set[str]) -> list[Sizes]:
    """One scalar of a size set that is inside moved by one, where that leaves the guard."""
    out: list[Sizes] = []
    for start in inside:
        for name in sorted(constrained):
            for step in (1, -1):
                value = start[name] + step
                made = {**start, name: value}
                if value >= 1 and not _all(conditions, made) and made not in out:
                    out.append(made)
                    if len(out) >= _OUTSIDE:
                        return out
    return out


def _candidates(name: str, conditions: tuple[Expr, ...]) -> list[int]:
    """Values near the constants that the guard compares the size with, and multiples of its divisors."""
    found: set[int] = set(_FREE)
    for c in conditions:
        if name not in variables(c):
            continue
        for e in subexpressions(c):
            if isinstance(e, Const) and e.dtype is DType.INDEX:
                k = int(e.value)
                found |= {k - 1, k, k + 1}
            if isinstance(e, Binary) and e.op is BinaryOp.MOD and isinstance(e.rhs, Const):
                d = int(e.rhs.value)
                found |= {d, 2 * d, 3 * d, d + 1, *_near_bounds(name, conditions, d)}
    return sorted(v for v in found if 1 <= v < 2**31)[:_MAX_CANDIDATES]


def _near_bounds(name: str, conditions: tuple[Expr, ...], d: int) -> list[int]:
    """Multiples of d next to the constants that the size is compared with, or one beside it in a condition,
    as that of n - taps + 1 elements.
    """
    beside = {name}.union(*(v for v in map(variables, conditions) if name in v))
    out: list[int] = []
    for c in conditions:
        for e in subexpressions(c):
            if not isinstance(e, Binary) or not e.op.is_comparison or d <= 0:
                continue
            if isinstance(e.lhs, Var) and e.lhs.name in beside and isinstance(e.rhs, Const):
                k = int(e.rhs.value)
                out += [k // d * d, (k // d + 1) * d]
    return out
