"""Integers that come from floats, in the reference: with the range in which a rounding may put them.

`(int)(x * 3.0f + 0.5f)` is one of two integers where the error of its argument reaches over a boundary, and
exactly one elsewhere. So such integers, and what is computed from them, are `ev_whole` values: the integer of
this arithmetic with the least and the greatest that another order of rounding may give. The same holds for
comparisons of floats that carry an error, and for what is selected by them. All other integers stay plain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from evolve.codegen.errors import CodegenError
from evolve.codegen.place import Path
from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Select, Unary, UnaryOp, Var
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Buffer, Leaf
from evolve.ir.types import DType
from evolve.ir.visit import children

_ARITHMETIC = {
    BinaryOp.ADD: "ev_sum",
    BinaryOp.SUB: "ev_difference",
    BinaryOp.MUL: "ev_product",
    BinaryOp.MIN: "ev_least",
    BinaryOp.MAX: "ev_most",
    BinaryOp.DIV: "ev_quotient",
    BinaryOp.REM: "ev_remainder",
    BinaryOp.BIT_AND: "ev_bit_and",
    BinaryOp.BIT_OR: "ev_bit_or",
    BinaryOp.BIT_XOR: "ev_bit_xor",
    BinaryOp.SHL: "ev_left",
    BinaryOp.SHR: "ev_right",
}
_COMPARISON = {
    BinaryOp.LT: ("ev_less", False),
    BinaryOp.GT: ("ev_less", True),
    BinaryOp.LE: ("ev_at_most", False),
    BinaryOp.GE: ("ev_at_most", True),
    BinaryOp.EQ: ("ev_equal", False),
    BinaryOp.NE: ("ev_equal", False),
}
MONOIDS = {"sum": "ev_sum", "prod": "ev_product", "min": "ev_least", "max": "ev_most"}
"""How a reduction combines two `ev_whole` values."""


class Around(Protocol):
    """What `WholeText` needs of the emitter: texts of floats, of exact integers, and of places."""

    def number(self, e: Expr, path: Path) -> str: ...
    def plain(self, e: Expr, path: Path, *, compared: bool = False) -> str: ...
    def held(self, x: Load, path: Path) -> str: ...


def unsure_buffers(buffers: dict[str, Buffer], stored: Iterable[Leaf], written: set[str]) -> set[str]:
    """The integer buffers that something derived from floats is stored in."""
    leaves = [x for x in stored if not buffers[x.buffer].dtype.is_float]
    found: set[str] = set()
    while True:
        more = {x.buffer for x in leaves if x.buffer not in found and unsure(x.value, found, written)}
        if not more:
            return found
        found |= more


def unsure(e: Expr, buffers: set[str], written: set[str]) -> bool:
    """Whether rounding may have a say in an integer or boolean expression. `written`: buffers that are."""
    match e:
        case Cast() if e.arg.dtype.is_float:
            return True
        case Binary() if e.lhs.dtype.is_float:
            return not (_given(e.lhs, written) and _given(e.rhs, written))
        case Load():
            return e.buffer in buffers
        case _:
            return any(unsure(x, buffers, written) for x in children(e))


def _given(e: Expr, written: set[str]) -> bool:
    """Whether a float is one of the kernel's inputs or a literal, so that no rounding is in it."""
    match e:
        case Const() | Var():
            return True
        case Load():
            return e.buffer not in written
        case Unary(op=UnaryOp.NEG) | Call(fn="fabs"):
            return all(_given(x, written) for x in children(e))
        case _:
            return False


class WholeText:
    """Prints unsure integers as `ev_whole`, everything below them that is exact as it is."""

    def __init__(self, around: Around, buffers: set[str], written: set[str]) -> None:
        self._around = around
        self.buffers = buffers
        self._written = written

    def unsure(self, e: Expr) -> bool:
        """Whether this expression needs a range."""
        return unsure(e, self.buffers, self._written)

    def text(self, e: Expr, path: Path) -> str:
        """An integer or boolean expression. Raises CodegenError for operators without a range."""
        if not self.unsure(e):
            return f"ev_known((long long)({self._around.plain(e, path)}))"
        match e:
            case Load():
                return self._around.held(e, path)
            case Cast(dtype=DType.BOOL) if e.arg.dtype.is_float:
                zero = "ev_exact(0.0)"
                return f"ev_not(ev_float_equal({self._around.number(e.arg, path)}, {zero}))"
            case Cast(dtype=DType.BOOL):
                return f"ev_not(ev_equal({self.text(e.arg, path)}, ev_known(0)))"
            case Cast() if e.arg.dtype.is_float:
                return f"ev_round_{_short(e.dtype)}({self._around.number(e.arg, path)})"
            case Cast():
                return self.fit(self.text(e.arg, path), e.dtype)
            case Select():
                a, b = self.text(e.then, path), self.text(e.orelse, path)
                if not self.unsure(e.cond):
                    return f"(({self._around.plain(e.cond, path)}) ? {a} : {b})"
                return f"ev_either({self.text(e.cond, path)}, {a}, {b})"
            case Unary(op=UnaryOp.NOT):
                return f"ev_not({self.text(e.arg, path)})"
            case Unary(op=UnaryOp.NEG):
                return self.fit(f"ev_difference(ev_known(0), {self.text(e.arg, path)})", e.dtype)
            case Unary(op=UnaryOp.BIT_NOT):
                return self.fit(f"ev_bit_xor({self.text(e.arg, path)}, ev_known(-1))", e.dtype)
            case Binary(op=BinaryOp.AND | BinaryOp.OR):
                name = "ev_and" if e.op is BinaryOp.AND else "ev_or"
                return f"{name}({self.text(e.lhs, path)}, {self.text(e.rhs, path)})"
            case Binary() if e.op in _COMPARISON:
                return self._comparison(e, path)
            case Binary() if e.op in _ARITHMETIC:
                a, b = self.text(e.lhs, path), self.text(e.rhs, path)
                return self.fit(f"{_ARITHMETIC[e.op]}({a}, {b})", e.dtype)
            case _:
                raise CodegenError(f"the reference cannot tell how rounding affects {print_expr(e)}")

    def _comparison(self, e: Binary, path: Path) -> str:
        name, swapped = _COMPARISON[e.op]
        if e.lhs.dtype.is_float:
            name = name.replace("ev_", "ev_float_")
            parts = [self._around.number(x, path) for x in (e.lhs, e.rhs)]
        else:
            parts = [self.text(x, path) for x in (e.lhs, e.rhs)]
        if swapped:
            parts.reverse()
        out = f"{name}({', '.join(parts)})"
        return f"ev_not({out})" if e.op is BinaryOp.NE else out

    def fit(self, text: str, dtype: DType) -> str:
        """The range `text` as a type of that width holds it."""
        return text if dtype is DType.BOOL else f"ev_fit_{_short(dtype)}({text})"


def _short(dtype: DType) -> str:
    if dtype is DType.INDEX:
        raise CodegenError("an index that depends on a rounded float has no reference")
    return str(dtype.value)
