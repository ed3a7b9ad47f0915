"""The judge's threads with numbers for values: for what algebra alone makes equal, as sums that are rescaled.

Input cells are random floats of 64 bits, so that two programs which agree to `CLOSE` compute the same but for
rounding. Integers are read, compared and made into floats; what has no meaning here is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Select, Unary, UnaryOp, Var
from evolve.ir.stmt import Leaf, Reduce
from evolve.ir.types import DType
from tests.legality.judge_code import Code, UnjudgedError

CLOSE = 1e-9
FUNCTIONS = {"exp", "log", "sqrt", "tanh", "erf", "fabs", "rsqrt"}
ARITHMETIC = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*"}


def number(name: object) -> float:
    """A random float between -2 and 2 for whatever is asked about."""
    return (hash(name) % (1 << 40)) / (1 << 38) - 2.0


def first(dtype: DType) -> Callable[[object], float]:
    """What gives the cells of an input array: small integers where they are integers."""
    return number if dtype.is_float else lambda name: hash(name) % 3


def combine(monoid: str, identity: float, old: float, new: float) -> float:
    """Two values combined."""
    if monoid == "sum":
        return old + new
    if monoid == "prod":
        return old * new
    return extreme(monoid, old, new)


def extreme(which: str, a: float, b: float) -> float:
    """`fmin` or `fmax`: what is no number loses."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b) if which == "min" else max(a, b)


def divide(a: float, b: float) -> float:
    """IEEE division."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def call(fn: str, x: float) -> float:
    """A function of one float, beyond its domain too."""
    if math.isnan(x):
        return x
    try:
        if fn == "rsqrt":
            return divide(1.0, math.sqrt(x))
        found: float = getattr(math, fn)(x)
        return found
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if fn == "log" and x == 0 else math.nan


def close(a: Any, b: Any) -> bool:
    """Whether two values are the same but for rounding."""
    if not isinstance(a, float) or not isinstance(b, float):
        return bool(a == b)
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE)


SPACE: dict[str, Any] = {
    "combine": combine,
    "extreme": extreme,
    "divide": divide,
    "call": call,
    "inf": math.inf,
    "nan": math.nan,
    "plain": lambda value: 0,  # what a statement claims to compute is relative to another maximum
}


class Numbers(Code):
    """Builds the same generator as `Code`, over floats."""

    def identity(self, s: Reduce) -> Any:
        return f"({float(s.monoid.identity(DType.F64))!r})"

    def stored(self, s: Leaf) -> str:
        if s.value.dtype is not self.buffers[s.buffer].dtype:
            raise UnjudgedError("a store that converts")
        return self.data(s.value)

    def load(self, e: Load) -> str:
        if self.buffers[e.buffer].dtype is not e.dtype:
            raise UnjudgedError("a load that converts")
        return super().load(e)

    def plain(self, e: Expr) -> str:
        return self.data(e)

    def made_of(self, e: Expr) -> str:
        match e:
            case Const():
                return f"({float(e.value)!r})" if e.dtype.is_float else f"({int(e.value)})"
            case Var():
                return f"({number(('scalar', e.name))!r})"
            case Load():
                return self.load(e)
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
                return f"extreme({e.op.value!r}, {self.data(e.lhs)}, {self.data(e.rhs)})"
            case Binary(op=BinaryOp.DIV):
                _check_float(e.dtype)
                return f"divide({self.data(e.lhs)}, {self.data(e.rhs)})"
            case Binary() if e.op in ARITHMETIC:
                _check_float(e.dtype)
                return f"({self.data(e.lhs)} {ARITHMETIC[e.op]} {self.data(e.rhs)})"
            case Binary() if e.op.is_comparison or e.op in (BinaryOp.AND, BinaryOp.OR):
                return f"({self.data(e.lhs)} {e.op.value} {self.data(e.rhs)})"
            case Unary(op=UnaryOp.NEG):
                return f"(-{self.data(e.arg)})"
            case Call(fn="fast_div"):
                return f"divide({self.data(e.args[0])}, {self.data(e.args[1])})"
            case Call() if e.fn.removeprefix("fast_") in FUNCTIONS:
                return f"call({e.fn.removeprefix('fast_')!r}, {self.data(e.args[0])})"
            case Cast() if e.dtype.is_float:
                return f"float({self.data(e.arg)})"
            case Select():
                return f"({self.data(e.then)} if {self.data(e.cond)} else {self.data(e.orelse)})"
            case _:
                raise UnjudgedError(f"the expression {type(e).__name__} in numbers")


def _check_float(dtype: DType) -> None:
    if not dtype.is_float:
        raise UnjudgedError("arithmetic that is not of floats")
