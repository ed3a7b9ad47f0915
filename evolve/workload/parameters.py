"""Values of parameters that are no sizes: flags, modes, factors. A check at one says nothing of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Expr
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.settled import compared, evaluated, held
from evolve.ir.types import DType
from evolve.ir.visit import variables
from evolve.workload.model import Sizes

_PARTIAL = (BinaryOp.DIV, BinaryOp.REM, BinaryOp.SHL, BinaryOp.SHR)
MOST = 6
"""Settings that are taken in turns: about as many as there are shapes to check."""


def settings(kernel: Kernel, timed: Sequence[Sizes], conditions: Sequence[Expr] = ()) -> list[Sizes]:
    """Settings of the parameters that are no sizes: those that are timed, then others, up to MOST.

    Of the others all combinations of `values` if these are so few; else each value at least once, as far as
    MOST allows. All satisfy the conditions on such parameters alone; where none does, those that are timed.
    """
    scalars = [s for s in kernel.scalars if not s.is_size]
    first = [{s.name: t[s.name] for s in scalars} for t in timed]
    options = [values(kernel, s, first[0][s.name]) for s in scalars]
    if prod(map(len, options)) <= MOST:
        rows = list(product(*options))
    else:
        rows = [tuple(found[k % len(found)] for found in options) for k in range(max(map(len, options)))]
    names = [s.name for s in scalars]
    every = _distinct([*first, *(dict(zip(names, row, strict=True)) for row in rows)])
    own = [c for c in conditions if variables(c) <= set(names)]
    return [s for s in every if holds(own, s)][:MOST] or _distinct(first)


def in_turns(shapes: Sequence[Sizes], rows: Sequence[Sizes], conditions: Sequence[Expr]) -> list[Sizes]:
    """The shapes, those inside the conditions with the next of the settings each, as far as they stay inside;
    then the last of them with the settings that had no turn."""
    out: list[Sizes] = []
    inside = [s for s in shapes if holds(conditions, s)]
    for number, s in enumerate(inside):
        made = {**s, **rows[number % len(rows)]}
        out.append(made if holds(conditions, made) else s)
    more = ({**inside[-1], **row} for row in rows[len(inside) :]) if inside else ()
    out += [s for s in more if holds(conditions, s)]
    return _distinct([*out, *(s for s in shapes if s not in inside)])


def holds(conditions: Iterable[Expr], at: Sizes) -> bool:
    """Whether all conditions hold at these values."""
    return all(bool(evaluate(c, at)) for c in conditions)


def _distinct(found: Iterable[Sizes]) -> list[Sizes]:
    return list({tuple(sorted(s.items())): s for s in found}.values())


def values(kernel: Kernel, scalar: Scalar, now: int | float) -> Sequence[int | float]:
    """The value now, then others: those around each number that the kernel compares the parameter with; where
    there is none, another one near to it.

    Integers that something is divided or shifted by only grow.
    """
    dtype = scalar.dtype
    if dtype is DType.BOOL:
        return (now, 1 - int(now))
    numbers = [n for name, _, n in compared(kernel) if name == scalar.name]
    near = [n + d for n in numbers for d in (0, 1, -1)] or [_beside(now)]
    low, high = (float("-inf"), float("inf")) if dtype.is_float else dtype.limits
    if not dtype.is_float and scalar.name in _divisors(kernel):
        low = now
    return tuple(dict.fromkeys((now, *(held(v, dtype) for v in near if low <= v <= high))))


def _beside(now: int | float) -> int | float:
    """Another value, on the same side of 0: who divides by a parameter or takes its root still can."""
    if isinstance(now, float):
        return now / 2 if now else 1.0
    return now + (1 if now >= 0 else -1)


def _divisors(kernel: Kernel) -> set[str]:
    """Scalars in what integers are divided and shifted by, where not every value has a meaning."""
    parts = (e for e in evaluated(kernel) if isinstance(e, Binary) and e.op in _PARTIAL)
    return {name for e in parts for name in variables(e.rhs)}
