"""What a C expression is worth in one thread: an integer polynomial, data, a pointer or an array.

Integers made of indices and sizes are kept as mathematical polynomials. Each C operation that
could leave its type's range leaves a `Duty`; duties are settled where the value is used, under
the guards that hold there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from evolve.frontend.ctree import CType
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial, variable
from evolve.frontend.refuse import RefusalError
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Unary, UnaryOp, compare, decide
from evolve.ir.types import DType

INTEGERS = (DType.I32, DType.U32, DType.I64, DType.U64)
AXES = "xyz"
_MAX_TERMS = 400


@dataclass(frozen=True)
class Duty:
    """`low <= poly <= high` must hold for the C arithmetic to be that of integers.

    `must`: it cannot be left to undefined behaviour (unsigned wrap-around, narrowing, division).
    `proved`: nor may it become a fact about the scalars that the user's sizes have to satisfy.
    """

    poly: Poly
    low: int | None
    high: int | None
    must: bool
    line: int
    what: str
    proved: bool = False


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


Value: TypeAlias = Int | Data | Ptr | Arr | Unknown


def thread(what: str, axis: int) -> Poly:
    """A thread built-in as a variable: $threadIdx.x and so on. `grid_index` is their useful combination."""
    return variable(f"${what}.{AXES[axis]}")


def grid_index(axis: int) -> Poly:
    """blockIdx * blockDim + threadIdx along an axis."""
    return variable(f"$global.{AXES[axis]}")


@dataclass
class Threads:
    """Rewrites blockIdx*blockDim + threadIdx to the grid-wide index.

    `block` is the block size of each axis where the source fixes it, by writing a literal in place
    of blockDim.
    """

    block: dict[int, int] = field(default_factory=dict)

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
        return p

    def _literal(self, p: Poly, block: Expr, lane: Expr, axis: int) -> Poly:
        blocks, lanes = p.coefficient(block), p.coefficient(lane)
        if blocks is None or lanes is None:
            return p
        k, t = blocks[0].constant, lanes[0].constant
        if not k or not t or k % t or k // t < 2:
            return p
        size = k // t
        if self.block.setdefault(axis, size) != size:
            return p
        return blocks[1] + constant(t) * (grid_index(axis) - thread("threadIdx", axis))


def convert(v: Value, to: CType, line: int) -> Value:
    """A C conversion."""
    if isinstance(v, Unknown):
        raise RefusalError(line, "value", v.reason)
    if not isinstance(to, DType) or isinstance(v, Ptr | Arr):
        return v
    if isinstance(v, Int):
        return _convert_int(v, to, line)
    if v.type is to:
        return v
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
    raise RefusalError(line, "pointer", "pointers cannot be used as data")


def integer_operation(op: str, a: Int, b: Int, type_: DType, threads: Threads, line: int) -> Int | None:
    """An arithmetic operator on integers of a common type; None where only data arithmetic will do."""
    duties = a.duties | b.duties
    k = b.poly.constant
    if op == "+":
        p = a.poly + b.poly
    elif op == "-":
        p = a.poly - b.poly
    elif op == "*":
        if len(a.poly.terms) * len(b.poly.terms) > _MAX_TERMS:
            raise RefusalError(line, "operator *", f"the index arithmetic has more than {_MAX_TERMS} terms")
        p = a.poly * b.poly
    elif op == "<<" and k is not None and 0 <= k < 32:
        p = a.poly * constant(2**k)
    elif op in ("/", "%") or (op == ">>" and k is not None and 0 <= k < 32):
        divisor = b.poly if op != ">>" else constant(2 ** (k or 0))
        ir = BinaryOp.MOD if op == "%" else BinaryOp.FLOORDIV
        x = threads.normal(a.poly)
        must = {
            Duty(x, 0, None, True, line, f"operator {op}"),
            Duty(divisor, 1, None, True, line, f"operator {op}"),
        }
        quotient = polynomial(Binary(ir, expression(x), expression(divisor), DType.INDEX))
        return Int(quotient, type_, duties | must)
    elif op == "&" and k is not None and k > 0 and k & (k + 1) == 0:
        x = threads.normal(a.poly)
        duty = Duty(x, 0, None, True, line, "operator &")
        masked = Binary(BinaryOp.MOD, expression(x), expression(constant(k + 1)), DType.INDEX)
        return Int(polynomial(masked), type_, duties | {duty})
    else:
        return None
    p = threads.normal(p)
    low, high = type_.limits
    if p.constant is not None and low <= p.constant <= high:
        return Int(p, type_, duties)
    return Int(
        p, type_, duties | {Duty(p, low, high, type_ in (DType.U32, DType.U64), line, f"operator {op}")}
    )


_COMPARE = {
    "<": BinaryOp.LT,
    "<=": BinaryOp.LE,
    ">": BinaryOp.GT,
    ">=": BinaryOp.GE,
    "==": BinaryOp.EQ,
    "!=": BinaryOp.NE,
}
_ARITHMETIC = {
    "+": BinaryOp.ADD,
    "-": BinaryOp.SUB,
    "*": BinaryOp.MUL,
    "/": BinaryOp.DIV,
    "%": BinaryOp.REM,
    "&": BinaryOp.BIT_AND,
    "|": BinaryOp.BIT_OR,
    "^": BinaryOp.BIT_XOR,
    "<<": BinaryOp.SHL,
    ">>": BinaryOp.SHR,
}


def operation(op: str, a: Value, b: Value, type_: CType, threads: Threads, line: int) -> Value:
    """A binary operator on two values of C's common type."""
    if isinstance(a, Ptr) or isinstance(b, Ptr):
        return _pointer_operation(op, a, b, threads, line)
    if isinstance(a, Int) and isinstance(b, Int):
        if op in _COMPARE:
            x, y = expression(threads.normal(a.poly)), expression(threads.normal(b.poly))
            return Data(compare(_COMPARE[op], x, y), a.duties | b.duties)
        if isinstance(type_, DType) and type_ in INTEGERS:
            made = integer_operation(op, a, b, type_, threads, line)
            if made is not None:
                return made
    x_data, y_data = as_data(a, line), as_data(b, line)
    duties = x_data.duties | y_data.duties
    if op in ("&&", "||"):
        ir = BinaryOp.AND if op == "&&" else BinaryOp.OR
        return Data(Binary(ir, x_data.expr, y_data.expr, DType.BOOL), duties)
    if op in _COMPARE:
        left, right = x_data.expr, y_data.expr
        if isinstance(left, Const) and isinstance(right, Const):
            return Data(Const(decide(_COMPARE[op], left.value, right.value), DType.BOOL), duties)
        return Data(Binary(_COMPARE[op], left, right, DType.BOOL), duties)
    if op not in _ARITHMETIC or not isinstance(type_, DType):
        raise RefusalError(line, f"operator {op}", "it is not supported on these operands")
    return Data(Binary(_ARITHMETIC[op], x_data.expr, y_data.expr, type_), duties)


def _pointer_operation(op: str, a: Value, b: Value, threads: Threads, line: int) -> Value:
    if op == "+" and isinstance(a, Int) and isinstance(b, Ptr):
        a, b = b, a
    if op in ("+", "-") and isinstance(a, Ptr) and isinstance(b, Int):
        q = threads.normal(a.offset.poly + b.poly if op == "+" else a.offset.poly - b.poly)
        return Ptr(a.buffer, Int(q, DType.I64, a.offset.duties | b.duties), a.element)
    raise RefusalError(line, f"operator {op} on pointers", "only pointer + integer is supported")


def negation(v: Value, type_: CType, line: int) -> Value:
    """Unary minus."""
    if isinstance(v, Int) and isinstance(type_, DType):
        low, high = type_.limits if type_ in INTEGERS else (None, None)
        unsigned = type_ in (DType.U32, DType.U64)
        return Int(-v.poly, type_, v.duties | {Duty(-v.poly, low, high, unsigned, line, "unary -")})
    d = as_data(v, line)
    if isinstance(d.expr, Const):
        return Data(Const(-d.expr.value, d.type), d.duties)
    return Data(Unary(UnaryOp.NEG, d.expr, d.type), d.duties)


def choose(cond: Data, a: Value, b: Value, line: int) -> Value:
    """`cond ? a : b`."""
    if a == b:
        return a
    if isinstance(cond.expr, Const):
        return a if cond.expr.value else b
    if isinstance(a, Int) and isinstance(b, Int):
        extreme = _min_or_max(cond.expr, a.poly, b.poly)
        if extreme is not None:
            return Int(extreme, a.type, cond.duties | a.duties | b.duties)
    if isinstance(a, Unknown | Ptr | Arr) or isinstance(b, Unknown | Ptr | Arr):
        return Unknown("it differs between the sides of a condition")
    x, y = as_data(a, line), as_data(b, line)
    return Data(Select(cond.expr, x.expr, y.expr, x.type), cond.duties | x.duties | y.duties)


def _min_or_max(cond: Expr, a: Poly, b: Poly) -> Poly | None:
    if not (isinstance(cond, Binary) and cond.op.is_comparison and cond.lhs.dtype is DType.INDEX):
        return None
    d = polynomial(cond.lhs) - polynomial(cond.rhs)
    less = cond.op in (BinaryOp.LT, BinaryOp.LE)
    if not less and cond.op not in (BinaryOp.GT, BinaryOp.GE):
        return None
    # `d < 0` and `d <= 0` choose the same value when a - b is d, or d up to the one step that
    # separates < from <=.
    slack = (Poly(()), ONE, -ONE)
    difference = a - b
    tie_safe: Callable[[Poly], bool] = lambda e: any(e == s for s in slack)  # noqa: E731
    if tie_safe(difference - d) and _exact(cond.op, difference - d):
        op = BinaryOp.MIN if less else BinaryOp.MAX
    elif tie_safe(difference + d) and _exact(cond.op, -(difference + d)):
        op = BinaryOp.MAX if less else BinaryOp.MIN
    else:
        return None
    return polynomial(Binary(op, expression(a), expression(b), DType.INDEX))


def _exact(op: BinaryOp, shift: Poly) -> bool:
    """Whether the sign test on d agrees with that on a - b, which is d + shift."""
    k = shift.constant
    if k == 0:
        return True
    # d < 0 with a - b = d + 1 means a - b <= 0;  d <= 0 with a - b = d - 1 means a - b < 0; and mirrored.
    return (op is BinaryOp.LT and k == 1) or (op is BinaryOp.LE and k == -1) or (
        op is BinaryOp.GT and k == -1) or (op is BinaryOp.GE and k == 1)  # fmt: skip
