"""Expressions over data: the text's and the kernel's, compared node by node.

Both must compute the same operations in the same types and order, of the same constants and elements.
"""

from __future__ import annotations

import math
import struct

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Load, Select, Unary, UnaryOp, Var
from evolve.ir.expr import Expr as Term
from evolve.ir.math import FUNCTIONS
from evolve.ir.printer import print_expr
from evolve.ir.types import DType, Monoid
from evolve.validation.elements import same_element
from evolve.validation.forms import spelled
from evolve.validation.formula import Compare, Every, Some, negation
from evolve.validation.instructions import conversion
from evolve.validation.meaning import (
    compared,
    index,
    kernel_index,
)
from evolve.validation.state import Environment, Parameter, Place, State
from evolve.validation.text import (
    Conditional,
    Convert,
    Expr,
    Invoke,
    Name,
    Number,
    Operation,
    type_of,
)
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import happens, unequal

_OPERATORS = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.DIV: "/",
    BinaryOp.REM: "%",
    BinaryOp.BIT_AND: "&",
    BinaryOp.BIT_OR: "|",
    BinaryOp.BIT_XOR: "^",
    BinaryOp.SHL: "<<",
    BinaryOp.SHR: ">>",
    BinaryOp.AND: "&&",
    BinaryOp.OR: "||",
    BinaryOp.LT: "<",
    BinaryOp.LE: "<=",
    BinaryOp.GT: ">",
    BinaryOp.GE: ">=",
    BinaryOp.EQ: "==",
    BinaryOp.NE: "!=",
}
_EXTREMES = {
    ("min", DType.F32): "fminf",
    ("max", DType.F32): "fmaxf",
    ("min", DType.F64): "fmin",
    ("max", DType.F64): "fmax",
}


def same_value(st: State, t: Expr, s: Term, env: Environment, place: Place) -> None:
    """Raises DifferenceError where the text computes something else than the kernel's expression."""
    t = st.resolved(t, place)
    if s.dtype is DType.INDEX:
        _same_index(st, t, s, env, place)
        return
    if type_of(t) is not s.dtype:
        raise _different(t, s, place)
    match s:
        case Const():
            value = _number(t)
            if value is None or not _equal_numbers(value, s.value, s.dtype):
                raise _different(t, s, place)
        case Var():
            held = st.binding(t, place.line) if isinstance(t, Name) else None
            if held != Parameter(s.name, False):
                raise _different(t, s, place)
        case Load():
            same_element(st, t, s.buffer, s.indices, env, place)
        case Unary():
            op = {UnaryOp.NEG: "neg", UnaryOp.NOT: "not", UnaryOp.BIT_NOT: "~"}[s.op]
            _same_parts(st, t, op, (s.arg,), s, env, place)
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
            _same_extreme(st, t, s, env, place)
        case Binary():
            _same_parts(st, t, _OPERATORS[s.op], (s.lhs, s.rhs), s, env, place)
        case Call(fn="fast_div", dtype=DType.F64):
            _same_parts(st, t, "/", s.args, s, env, place)
        case Call():
            if not isinstance(t, Invoke) or t.name != FUNCTIONS[s.fn].spelling(s.dtype) or t.definition:
                raise _different(t, s, place)
            if len(t.args) != len(s.args):
                raise _different(t, s, place)
            for a, b in zip(t.args, s.args, strict=True):
                same_value(st, a, b, env, place)
        case Select():
            if not isinstance(t, Conditional):
                raise _different(t, s, place)
            same_value(st, t.cond, s.cond, env, place)
            same_value(st, t.then, s.then, env, place)
            same_value(st, t.orelse, s.orelse, env, place)
        case Cast():
            _same_cast(st, t, s, env, place)
        case _:
            raise UnreadError(f"{print_expr(s)} in a value", place.line)


def _different(t: Expr, s: Term, place: Place) -> DifferenceError:
    return DifferenceError(f"{spelled(t)} is not {print_expr(s)}", place.line)


def _same_index(st: State, t: Expr, s: Term, env: Environment, place: Place) -> None:
    p, q = index(st, t, place), kernel_index(st, s, env, place.context)
    if not place.context.same(p, q):
        reason = f"{p.text} is not {print_expr(s)}, which is {q.text}"
        raise unequal(place.context, p, q, reason, place.line)


def _number(t: Expr) -> int | float | None:
    if isinstance(t, Number):
        return t.value
    if isinstance(t, Operation) and t.op == "neg":
        value = _number(t.args[0])
        return None if value is None else -value
    if isinstance(t, Operation) and t.op == "-" and t.type in (DType.I32, DType.I64):
        a, b = (_number(x) for x in t.args)
        return None if a is None or b is None else a - b
    if isinstance(t, Convert) and t.type is DType.F64 and isinstance(t.arg, Number):
        value = t.arg.value
        return float(value) if math.isnan(value) or math.isinf(value) else None
    return None


def _equal_numbers(a: int | float, b: int | float | bool, dtype: DType) -> bool:
    if not dtype.is_float:
        return int(a) == int(b)
    size = "f" if dtype is DType.F32 else "d"
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    try:
        return struct.pack(size, a) == struct.pack(size, b)
    except OverflowError:
        return False


def _same_parts(
    st: State, t: Expr, op: str, parts: tuple[Term, ...], s: Term, env: Environment, place: Place
) -> None:
    if not isinstance(t, Operation) or t.op != op or len(t.args) != len(parts):
        raise _different(t, s, place)
    whole = op not in ("&&", "||", "not") and all(not p.dtype.is_float for p in parts)
    formulas = _comparisons(st, t, s, env, place) if s.dtype is DType.BOOL and whole else None
    if formulas is not None and place.context.same(*(f.poly for f in formulas)):
        return
    try:
        for a, b in zip(t.args, parts, strict=True):
            same_value(st, _unpromoted(a, b.dtype) if s.dtype is DType.BOOL else a, b, env, place)
    except DifferenceError as e:
        if formulas is None:
            raise
        # Of numbers that differ comparisons may say the same.
        f, g = formulas
        other = Some((Every((f, negation(g))), Every((g, negation(f)))))
        raise happens(place.context, other, e.reason, place.line) from e


def _unpromoted(t: Expr, dtype: DType) -> Expr:
    """What is compared, where C makes an int of a byte first."""
    if dtype in (DType.U8, DType.BOOL):
        if isinstance(t, Convert) and t.type is DType.I32 and type_of(t.arg) is dtype:
            return t.arg
        if isinstance(t, Number) and t.type is DType.I32 and 0 <= t.value <= dtype.limits[1]:
            return Number(t.value, dtype)
    return t


def _comparisons(
    st: State, t: Operation, s: Term, env: Environment, place: Place
) -> tuple[Compare, Compare] | None:
    """A comparison of whole numbers in the text, and the kernel's; None where they are not read."""
    try:
        p, q = (index(st, a, place) for a in t.args)
        assert isinstance(s, Binary)
        u, v = (kernel_index(st, a, env, place.context) for a in (s.lhs, s.rhs))
    except UnreadError:
        return None
    return compared(t.op, p, q), compared(t.op, u, v)


def _same_extreme(st: State, t: Expr, s: Binary, env: Environment, place: Place) -> None:
    parts: tuple[Expr, ...] = ()
    if s.dtype.is_float:
        if isinstance(t, Invoke) and t.name == _EXTREMES[s.op.value, s.dtype] and t.definition is None:
            parts = t.args
    elif isinstance(t, Conditional) and isinstance(t.cond, Operation):
        sign = "<" if s.op is BinaryOp.MIN else ">"
        if t.cond.op == sign and t.cond.args == (t.then, t.orelse):
            parts = t.cond.args
    if len(parts) != 2:
        raise _different(t, s, place)
    same_value(st, parts[0], s.lhs, env, place)
    same_value(st, parts[1], s.rhs, env, place)


def _same_cast(st: State, t: Expr, s: Cast, env: Environment, place: Place) -> None:
    if isinstance(t, Number) and isinstance(s.arg, Const):
        if not _equal_numbers(t.value, float(s.arg.value) if s.dtype.is_float else s.arg.value, s.dtype):
            raise _different(t, s, place)
        return
    if s.dtype is DType.BOOL and isinstance(t, Operation) and t.op == "!=" and _number(t.args[1]) == 0:
        same_value(st, t.args[0], s.arg, env, place)
        return
    if DType.BF16 in (s.dtype, s.arg.dtype):
        if not isinstance(t, Invoke) or t.definition is None or len(t.args) != 1:
            raise _different(t, s, place)
        if conversion(t.definition) != (s.arg.dtype, s.dtype):
            raise DifferenceError(f"{t.name} is not the conversion to {s.dtype.value}", place.line)
        same_value(st, t.args[0], s.arg, env, place)
        return
    if s.arg.dtype is s.dtype:
        same_value(st, t, s.arg, env, place)
        return
    if s.arg.dtype is DType.INDEX and not s.dtype.is_float:
        _same_index(st, t, s.arg, env, place)
        return
    if not isinstance(t, Convert):
        raise _different(t, s, place)
    same_value(st, t.arg, s.arg, env, place)


def combines(t_op: str, target: Expr, value: Expr, monoid: Monoid, dtype: DType) -> Expr | None:
    """What is combined with the target in `target op= value`; None if that is no such update."""
    if monoid.name == "sum" and t_op == "+":
        return value
    if monoid.name == "prod" and t_op == "*":
        return value
    if t_op == "" and monoid.name in ("min", "max"):
        if isinstance(value, Invoke) and value.name == _EXTREMES.get((monoid.name, dtype)):
            first, second = value.args
            return second if first == target else None
        if isinstance(value, Conditional) and isinstance(value.cond, Operation) and not dtype.is_float:
            sign = "<" if monoid.name == "min" else ">"
            if value.cond.op == sign and value.cond.args == (value.then, value.orelse):
                return value.orelse if value.then == target else None
    return None


def is_identity(t: Expr, monoid: Monoid, dtype: DType) -> bool:
    """Whether the text has the neutral element of a monoid."""
    value = _number(t)
    return value is not None and _equal_numbers(value, monoid.identity(dtype), dtype)
