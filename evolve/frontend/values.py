"""What a C expression is worth in one thread: an integer polynomial, data, a pointer or an array.

Integers made of indices and sizes are kept as mathematical polynomials. Each C operation that
could leave its type's range leaves a `Duty`; duties are settled where the value is used, under
the guards that hold there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from evolve.frontend.ctree import CType
from evolve.frontend.polynomial import Poly, constant, expression, variable
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, compare
from evolve.ir.types import DType

INTEGERS = (DType.I32, DType.U32, DType.I64, DType.U64)
AXES = "xyz"


@dataclass(frozen=True)
class Duty:
    """`low <= poly <= high` must hold for the C arithmetic to be that of integers.

    `must`: it cannot be left to undefined behaviour (unsigned wrap-around, narrowing, division).
    `proved`: nor may it become a fact about the scalars that the user's sizes have to satisfy.
    `given`: conditions without which the operation does not happen.
    """

    poly: Poly
    low: int | None
    high: int | None
    must: bool
    line: int
    what: str
    proved: bool = False
    given: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Int:
    poly: Poly
    type: DType
    duties: frozenset[Duty] = frozenset()


@dataclass(frozen=True)
class Data:
    expr: Expr
    duties: frozenset[Duty] = frozenset()

    @property
    def type(self) -> DType:
        return self.expr.dtype


@dataclass(frozen=True)
class Ptr:
    buffer: str
    offset: Int
    element: DType


@dataclass(frozen=True)
class Arr:
    """A local array, with the subscripts given so far."""

    buffer: str
    element: DType
    extents: tuple[int, ...]
    indices: tuple[Int, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """A value that no expression gives; using it is refused with this reason."""

    reason: str


@dataclass(frozen=True)
class Either:
    """An integer or pointer that a condition on indices and sizes chooses, before it is used."""

    cond: Data
    then: Value
    orelse: Value


Value: TypeAlias = Int | Data | Ptr | Arr | Unknown | Either


def thread(what: str, axis: int) -> Poly:
    """A thread built-in as a variable: $threadIdx.x and so on. `grid_index` is their useful combination."""
    return variable(f"${what}.{AXES[axis]}")


def grid_index(axis: int) -> Poly:
    """blockIdx * blockDim + threadIdx along an axis."""
    return variable(f"$global.{AXES[axis]}")


def thread_names(axis: int) -> frozenset[str]:
    """The variables that say which thread or block it is along an axis."""
    return frozenset(f"${what}.{AXES[axis]}" for what in ("threadIdx", "blockIdx", "global"))


@dataclass
class Threads:
    """Rewrites blockIdx*blockDim + threadIdx to the grid-wide index.

    `block` is the block size of each axis where the source fixes it, by writing a literal in place of
    blockDim; `tiled` are axes where that literal is what blockIdx is multiplied with, which may as well be a
    tile that is larger than the block: `launched` is the block's size where the launch is known.
    """

    block: dict[int, int] = field(default_factory=dict)
    tiled: set[int] = field(default_factory=set)
    launched: dict[int, int] = field(default_factory=dict)

    def normal(self, p: Poly) -> Poly:
        for axis in range(3):
            b, d, t = (thread(w, axis) for w in ("blockIdx", "blockDim", "threadIdx"))
            whole = (b * d).terms[0][0]
            (b_atom,), (t_atom,) = b.terms[0][0], t.terms[0][0]
            if b_atom not in p.atoms():
                continue
            out = Poly(())
            for m, c in p.terms:
                rest = list(m)
                if all(x in rest for x in whole):
                    for x in whole:
                        rest.remove(x)
                    out = out + Poly(((tuple(rest), c),)) * (grid_index(axis) - t)
                else:
                    out = out + Poly(((m, c),))
            p = self._literal(out, b_atom, t_atom, axis)
        return self._apart(p)

    def _apart(self, p: Poly) -> Poly:
        """`p` with the grid-wide index in its two parts again where a thread's own index stands beside it.

        As in blockIdx * blockDim * 4 + threadIdx, tiles of several blocks; where the launch tells their size.
        """
        for axis, size in self.launched.items():
            b, t = thread("blockIdx", axis), thread("threadIdx", axis)
            whole = p.coefficient(grid_index(axis).terms[0][0][0])
            if whole is not None and whole[0].terms and t.terms[0][0][0] in whole[1].atoms():
                p = whole[1] + whole[0] * (b * constant(size) + t)
        return p

    def sized(self, p: Poly) -> Poly:
        """`p` with the sizes of blocks that the launch tells."""
        for axis, size in self.launched.items():
            parts = p.coefficient(thread("blockDim", axis).terms[0][0][0])
            if parts is not None:
                p = parts[1] + parts[0] * constant(size)
        return p

    def _literal(self, p: Poly, block: Expr, lane: Expr, axis: int) -> Poly:
        blocks, lanes = p.coefficient(block), p.coefficient(lane)
        if blocks is None or lanes is None:
            return p
        k, t = blocks[0].constant, lanes[0].constant
        if not k or not t or k % t or k // t < 2:
            return p
        size = k // t
        if self.launched.get(axis, size) != size or self.block.setdefault(axis, size) != size:
            return p
        self.tiled.add(axis)
        return blocks[1] + constant(t) * (grid_index(axis) - thread("threadIdx", axis))


def convert(v: Value, to: CType, line: int) -> Value:
    """A C conversion."""
    if isinstance(v, Unknown):
        raise RefusalError(line, "value", v.reason)
    if isinstance(v, Either):
        return distribute(v, lambda x: convert(x, to, line))
    if not isinstance(to, DType) or isinstance(v, Ptr | Arr):
        return v
    if v.type is to:
        return v
    if to is DType.U8:
        raise RefusalError(line, "conversion to unsigned char", "bytes are only read and copied")
    if isinstance(v, Int):
        return _convert_int(v, to, line)
    if to is DType.BOOL:
        zero = Const(0.0 if v.type.is_float else 0, v.type)
        return Data(Binary(BinaryOp.NE, v.expr, zero, DType.BOOL), v.duties)
    if isinstance(v.expr, Const) and v.type.is_float and to.is_float:
        value = float(np.float32(v.expr.value)) if to is DType.F32 else float(v.expr.value)
        return Data(Const(value, to), v.duties)
    return Data(Cast(v.expr, to), v.duties)


def _convert_int(v: Int, to: DType, line: int) -> Value:
    if to is DType.BOOL:
        return Data(compare(BinaryOp.NE, expression(v.poly), 0), v.duties)
    if to.is_float:
        value = v.poly.constant
        if value is not None and abs(value) <= 2**24:
            return Data(Const(float(value), to), v.duties)
        return Data(Cast(expression(v.poly), to), v.duties)
    low, high = to.limits
    have_low, have_high = v.type.limits
    if low <= have_low and have_high <= high:
        return Int(v.poly, to, v.duties)
    duty = Duty(v.poly, low if low > have_low else None, high if high < have_high else None, True, line,
                f"conversion to {to.c_name}")  # fmt: skip
    return Int(v.poly, to, v.duties | {duty})


def as_data(v: Value, line: int) -> Data:
    """A value as data: integers become casts of INDEX expressions."""
    if isinstance(v, Data):
        return v
    if isinstance(v, Int):
        value = v.poly.constant
        expr: Expr = Const(value, v.type) if value is not None else Cast(expression(v.poly), v.type)
        return Data(expr, v.duties)
    if isinstance(v, Unknown):
        raise RefusalError(line, "value", v.reason)
    if isinstance(v, Either):
        return selected(v.cond, as_data(v.then, line), as_data(v.orelse, line))
    raise RefusalError(line, "pointer", "pointers cannot be used as data")


def distribute(v: Either, f: Callable[[Value], Value]) -> Either:
    """The choice between what a function makes of the two values."""
    return Either(v.cond, guarded(f(v.then), v.cond.expr), guarded(f(v.orelse), negate(v.cond.expr)))


def guarded(v: Value, cond: Expr) -> Value:
    """A value that is used where a condition holds: what it owes, it owes there."""
    match v:
        case Int() | Data():
            return replace(v, duties=given(v.duties, cond))
        case Ptr():
            return replace(v, offset=replace(v.offset, duties=given(v.offset.duties, cond)))
        case Either():
            return replace(v, then=guarded(v.then, cond), orelse=guarded(v.orelse, cond))
        case _:
            return v


def given(duties: frozenset[Duty], cond: Expr) -> frozenset[Duty]:
    """Duties that exist only where a condition holds."""
    return frozenset(d if cond in d.given else replace(d, given=(*d.given, cond)) for d in duties)


def selected(cond: Data, x: Data, y: Data) -> Data:
    """`cond ? x : y` as data."""
    duties = cond.duties | x.duties | y.duties
    if x.type is DType.BOOL:
        first = Binary(BinaryOp.AND, cond.expr, x.expr, DType.BOOL)
        second = Binary(BinaryOp.AND, negate(cond.expr), y.expr, DType.BOOL)
        return Data(Binary(BinaryOp.OR, first, second, DType.BOOL), duties)
    return Data(Select(cond.expr, x.expr, y.expr, x.type), duties)
