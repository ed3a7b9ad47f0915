"""Expressions as CUDA C++ text."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import assert_never

from evolve.codegen.bases import Bases
from evolve.codegen.errors import CodegenError
from evolve.codegen.floors import raised, raised_by
from evolve.ir.affine import Ranges, bounds, linear, simplify
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    Find,
    Load,
    Select,
    Unary,
    UnaryOp,
    Var,
    add,
    compare,
    floordiv,
    index,
)
from evolve.ir.math import FUNCTIONS
from evolve.ir.types import DType

_OR, _AND, _BIT_OR, _BIT_XOR, _BIT_AND, _EQ, _CMP, _SHIFT, _ADD, _MUL, _UNARY, _ATOM = range(1, 13)
COMPARED = _SHIFT
"""What `ExprText.text` is given as `outer` for an operand of a comparison."""
MULTIPLIED = _UNARY
"""The same for a factor of a product."""

_PRECEDENCE = {
    BinaryOp.OR: _OR,
    BinaryOp.AND: _AND,
    BinaryOp.BIT_OR: _BIT_OR,
    BinaryOp.BIT_XOR: _BIT_XOR,
    BinaryOp.BIT_AND: _BIT_AND,
    BinaryOp.EQ: _EQ,
    BinaryOp.NE: _EQ,
    BinaryOp.LT: _CMP,
    BinaryOp.LE: _CMP,
    BinaryOp.GT: _CMP,
    BinaryOp.GE: _CMP,
    BinaryOp.SHL: _SHIFT,
    BinaryOp.SHR: _SHIFT,
    BinaryOp.ADD: _ADD,
    BinaryOp.SUB: _ADD,
    BinaryOp.MUL: _MUL,
    BinaryOp.DIV: _MUL,
    BinaryOp.REM: _MUL,
    BinaryOp.FLOORDIV: _MUL,
    BinaryOp.MOD: _MUL,
}
_MOVED = {
    BinaryOp.LT: BinaryOp.GT,
    BinaryOp.LE: BinaryOp.GE,
    BinaryOp.GT: BinaryOp.LT,
    BinaryOp.GE: BinaryOp.LE,
}
"""Comparisons with their sides exchanged: a constant stands on the right."""
_C_OPERATOR = {BinaryOp.AND: "&&", BinaryOp.OR: "||", BinaryOp.FLOORDIV: "/", BinaryOp.MOD: "%"}


class ExprText:
    """Prints expressions.

    name   the identifier of a variable
    load   the text of a load (a postfix expression)
    find   the text of a search (a postfix expression); None where there is none
    convert the function that rounds to a type of memory only, or widens from it; None where there is none
    ranges what is known of the variables: decides whether C's division is the floor division meant
    narrow whether indices that are read from memory are used in their own type; otherwise they and all that
           is computed from them has 64 bits
    bases  sums that have a name; None where none has
    """

    def __init__(
        self,
        name: Callable[[str], str],
        load: Callable[[Load], str],
        ranges: Ranges,
        *,
        narrow: bool = False,
        find: Callable[[Find], str] | None = None,
        convert: Callable[[DType], str] | None = None,
        bases: Bases | None = None,
    ) -> None:
        self._name = name
        self._load = load
        self._ranges = ranges
        self._narrow = narrow
        self._search = find
        self._convert = convert
        self._bases = bases

    def text(self, e: Expr, outer: int = 0) -> str:
        """The expression, parenthesised if its operator binds less than `outer`."""
        mine, out = self._parts(e)
        return f"({out})" if mine < outer else out

    def conditions(self, cond: Expr) -> tuple[str, ...]:
        """The operands of a conjunction, each fit to stand beside `&&`."""
        if isinstance(cond, Binary) and cond.op is BinaryOp.AND:
            return self.conditions(cond.lhs) + self.conditions(cond.rhs)
        return (self.text(cond, _AND),)

    def _parts(self, e: Expr) -> tuple[int, str]:
        match e:
            case Const():
                out = literal(e.value, e.dtype)
                return (_UNARY if out.startswith("-") else _ATOM), out
            case Var():
                return _ATOM, self._name(e.name)
            case Load():
                return _ATOM, self._load(e)
            case Call(fn="fast_div", dtype=DType.F64):
                return _MUL, f"{self.text(e.args[0], _MUL)} / {self.text(e.args[1], _UNARY)}"
            case Call():
                args = ", ".join(self.text(a) for a in e.args)
                return _ATOM, f"{FUNCTIONS[e.fn].spelling(e.dtype)}({args})"
            case Cast():
                return self._cast(e)
            case Find():
                return _ATOM, self._find(e)
            case Select():
                parts = (self.text(e.cond, _OR), self.text(e.then, _OR), self.text(e.orelse, _OR))
                return 0, f"{parts[0]} ? {parts[1]} : {parts[2]}"
            case Unary():
                sign = "!" if e.op is UnaryOp.NOT else e.op.value
                inner = self.text(e.arg, _UNARY)
                return _UNARY, f"{sign}({inner})" if inner.startswith(sign) else sign + inner
            case Binary():
                return self._binary(e)
            case _:
                assert_never(e)

    def _find(self, e: Find) -> str:
        if self._search is None:
            raise CodegenError(f"there is no text for a search of {e.buffer} here")
        return self._search(e)

    def _cast(self, e: Cast) -> tuple[int, str]:
        if e.dtype is DType.INDEX:
            if self._narrow:
                return self._parts(e.arg)
            return _UNARY, f"(long long){self.text(e.arg, _UNARY)}"
        if e.dtype is DType.BOOL:
            return _EQ, f"{self.text(e.arg, _CMP)} != 0"
        if DType.BF16 in (e.dtype, e.arg.dtype):
            if self._convert is None:
                raise CodegenError("there is no text for bfloat16 here")
            return _ATOM, f"{self._convert(e.dtype)}({self.text(e.arg)})"
        if isinstance(e.arg, Const) and e.arg.dtype is DType.INDEX and e.dtype.is_float:
            out = literal(float(e.arg.value), e.dtype)
            return (_UNARY if out.startswith("-") else _ATOM), out
        return _UNARY, f"({e.dtype.c_name}){self.text(e.arg, _UNARY)}"

    def _binary(self, e: Binary) -> tuple[int, str]:
        if e.op in (BinaryOp.MIN, BinaryOp.MAX):
            return self._extreme(e)
        if e.op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
            return self._floor(e)
        p = _PRECEDENCE[e.op]
        if e.op in _MOVED and isinstance(e.lhs, Const) and e.rhs.dtype is DType.INDEX:
            return self._binary(Binary(_MOVED[e.op], e.rhs, e.lhs, e.dtype))
        if e.op is BinaryOp.GT and e.rhs.dtype is DType.INDEX and isinstance(e.rhs, Const):
            return self._parts(compare(BinaryOp.GE, e.lhs, int(e.rhs.value) + 1))
        if e.op is BinaryOp.GE and isinstance(e.rhs, Const) and e.rhs.dtype is DType.INDEX:
            form = e.lhs
            if isinstance(form, Binary) and form.op is BinaryOp.ADD and isinstance(form.rhs, Const):
                return self._parts(compare(BinaryOp.GE, form.lhs, int(e.rhs.value - form.rhs.value)))
        if e.op is BinaryOp.ADD and e.dtype is DType.INDEX:
            named = self._bases.rewritten(e, self._name) if self._bases is not None else None
            if named is not None:
                return self._parts(named)
            minus = _negated(e.rhs)
            if minus is not None:
                return _ADD, f"{self.text(e.lhs, _ADD)} - {self.text(minus, _MUL)}"
        sign = _C_OPERATOR.get(e.op, e.op.value)
        if e.op is BinaryOp.BIT_XOR and e.dtype is DType.INDEX:
            return p, f"{self.text(e.lhs, _UNARY)} ^ {self.text(e.rhs, _UNARY)}"
        rhs = self.text(e.rhs, p + 1)
        if rhs.startswith("-"):
            rhs = f"({rhs})"
        return p, f"{self.text(e.lhs, p)} {sign} {rhs}"

    def _extreme(self, e: Binary) -> tuple[int, str]:
        if e.dtype.is_float:
            suffix = "f" if e.dtype is DType.F32 else ""
            return _ATOM, f"f{e.op.value}{suffix}({self.text(e.lhs)}, {self.text(e.rhs)})"
        a, b = self.text(e.lhs, _SHIFT), self.text(e.rhs, _SHIFT)
        sign = "<" if e.op is BinaryOp.MIN else ">"
        return 0, f"{a} {sign} {b} ? {a} : {b}"

    def _floor(self, e: Binary) -> tuple[int, str]:
        times = raised_by(e.lhs, e.rhs, self._ranges)
        lhs = self.text(raised(e.lhs, e.rhs, times or 0), _MUL)
        rhs, is_mod = self.text(e.rhs, _UNARY), e.op is BinaryOp.MOD
        if times is None:
            return (
                (_MUL, f"({lhs} % {rhs} + {rhs}) % {rhs}")
                if is_mod
                else (_ADD, f"{lhs} / {rhs} - ({lhs} % {rhs} < 0)")
            )
        if is_mod:
            return _MUL, f"{lhs} % {rhs}"
        return (_ADD, f"{lhs} / {rhs} - {times}") if times else (_MUL, f"{lhs} / {rhs}")


class CountText(ExprText):
    """Of numbers of blocks, threads or iterations, where C may round a negative quotient up: neither is above
    0, and nothing runs.

    That holds for a quotient by itself, for the least and the greatest of such numbers and for one divided
    again. A number added to a quotient goes into the dividend; other quotients must not be negative.
    """

    _counts = True

    def _parts(self, e: Expr) -> tuple[int, str]:
        match e:
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
                return super()._parts(e)
            case Binary(op=BinaryOp.FLOORDIV, rhs=Const(value=d)) if self._counts and d > 0:
                return MULTIPLIED - 1, f"{self.text(e.lhs, MULTIPLIED - 1)} / {self.text(e.rhs, MULTIPLIED)}"
            case Binary(
                op=BinaryOp.ADD,
                lhs=Binary(op=BinaryOp.FLOORDIV, lhs=dividend, rhs=Const(value=d)),
                rhs=Const(value=more),
            ) if self._counts and d > 0 and not self._is_whole(dividend):
                inner = simplify(add(dividend, index(int(more) * int(d))), self._ranges)
                return self._parts(floordiv(inner, index(int(d))))
        before, self._counts = self._counts, False
        try:
            return super()._parts(e)
        finally:
            self._counts = before

    def _is_whole(self, dividend: Expr) -> bool:
        """Whether a dividend is known not to be negative."""
        low, _ = bounds(linear(dividend, self._ranges), self._ranges)
        return low is not None and low >= 0


def _negated(e: Expr) -> Expr | None:
    """`x` when e is `-x` written as a negative constant or coefficient."""
    if isinstance(e, Const) and e.value < 0:
        return Const(-e.value, e.dtype)
    if isinstance(e, Binary) and e.op is BinaryOp.MUL and isinstance(e.rhs, Const) and e.rhs.value < 0:
        if e.rhs.value == -1:
            return e.lhs
        return Binary(BinaryOp.MUL, e.lhs, Const(-e.rhs.value, e.rhs.dtype), e.dtype)
    return None


def literal(value: int | float | bool, dtype: DType) -> str:
    """A C literal: the shortest decimal that reads back as the same value."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    suffix = {DType.U32: "u", DType.I64: "ll", DType.U64: "ull"}.get(dtype, "")
    n = int(value)
    if dtype in (DType.I32, DType.I64) and n == -(1 << (8 * dtype.size - 1)):
        return f"({n + 1}{suffix} - 1)"
    return f"{n}{suffix}"


def _float_literal(v: float, dtype: DType) -> str:
    if math.isnan(v):
        return "NAN" if dtype is DType.F32 else "(double)NAN"
    suffix = "f" if dtype is DType.F32 else ""
    if dtype is DType.F32:
        v = _as_float(v)
    if math.isinf(v):
        name = "INFINITY" if dtype is DType.F32 else "(double)INFINITY"
        return name if v > 0 else f"-{name}"
    out = repr(v)
    if dtype is DType.F32:
        for digits in range(1, 10):
            out = f"{v:.{digits}g}"
            if _as_float(float(out)) == v:
                break
    if "." not in out and "e" not in out:
        out += ".0"
    return out + suffix


def _as_float(v: float) -> float:
    """The nearest binary32 value."""
    try:
        return float(struct.unpack("f", struct.pack("f", v))[0])
    except OverflowError:
        return math.copysign(math.inf, v)
