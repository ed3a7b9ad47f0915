"""Expressions: immutable, typed, hashable trees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from evolve.ir.types import DType

T = TypeVar("T")


def _hashed_once(cls: type[T]) -> type[T]:
    """Keeps the hash of a node with it: trees are looked up in caches far more often than they are made.

    It does not travel to other processes, in which strings hash differently.
    """
    hash_of = cls.__hash__

    def remembered(self: Any) -> int:
        kept: dict[str, Any] = self.__dict__
        found: int | None = kept.get("_hash")
        if found is None:
            found = kept["_hash"] = hash_of(self)
        return found

    def state(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    setattr(cls, "__hash__", remembered)  # noqa: B010
    setattr(cls, "__getstate__", state)  # noqa: B010
    return cls


class BinaryOp(Enum):
    """Binary operators. On INDEX, FLOORDIV and MOD round towards minus infinity (isl's rule).

    On data types ADD, SUB, MUL, DIV, REM, shifts and bit operations are C's. MIN and MAX are
    `fmin`/`fmax` on floats: a NaN operand loses.
    """

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    REM = "%"
    FLOORDIV = "//"
    MOD = "mod"
    MIN = "min"
    MAX = "max"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "=="
    NE = "!="
    AND = "and"
    OR = "or"
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"
    SHL = "<<"
    SHR = ">>"

    @property
    def is_comparison(self) -> bool:
        return self in _NEGATED

    @property
    def negated(self) -> BinaryOp:
        """The comparison that holds where this one does not (NaN apart). KeyError for other operators."""
        return _NEGATED[self]


_NEGATED = {
    BinaryOp.LT: BinaryOp.GE,
    BinaryOp.LE: BinaryOp.GT,
    BinaryOp.GT: BinaryOp.LE,
    BinaryOp.GE: BinaryOp.LT,
    BinaryOp.EQ: BinaryOp.NE,
    BinaryOp.NE: BinaryOp.EQ,
}


class UnaryOp(Enum):
    NEG = "-"
    NOT = "not"
    BIT_NOT = "~"


@_hashed_once
@dataclass(frozen=True)
class Const:
    """A literal."""

    value: int | float | bool
    dtype: DType

    def __eq__(self, other: object) -> bool:
        # 0.0 and -0.0 are different constants, and NaN equals itself: identity of the literal.
        return (
            isinstance(other, Const)
            and self.dtype is other.dtype
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))


@dataclass(frozen=True)
class Var:
    """A loop variable or a scalar parameter, by its unique name.

    A scalar parameter used as a size or in a subscript has dtype INDEX; used as data, its own type.
    """

    name: str
    dtype: DType = DType.INDEX


@_hashed_once
@dataclass(frozen=True)
class Load:
    """The element of `buffer` at `indices` (one INDEX expression a dimension)."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Binary:
    op: BinaryOp
    lhs: Expr
    rhs: Expr
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Unary:
    op: UnaryOp
    arg: Expr
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Call:
    """A pure mathematical function from `evolve.ir.math`."""

    fn: str
    args: tuple[Expr, ...]
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Select:
    """`cond ? then : orelse`; only the chosen side is evaluated."""

    cond: Expr
    then: Expr
    orelse: Expr
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Cast:
    """A C conversion to `dtype`. To INDEX: the integer itself, as in a subscript that is read from memory."""

    arg: Expr
    dtype: DType


@_hashed_once
@dataclass(frozen=True)
class Find:
    """Where an integer falls among those of a nondecreasing array: the r with
    `buffer[r] <= value < buffer[r + 1]`, as the row of an entry of a sparse matrix.

    There is exactly one for a value from the array's first element on and below its last; for others it means
    nothing. It stands in subscripts only (`ir.verify`).
    """

    buffer: str
    value: Expr
    dtype: DType = DType.INDEX


Expr: TypeAlias = Const | Var | Load | Binary | Unary | Call | Select | Cast | Find


@lru_cache(maxsize=4096, typed=True)
def index(value: int) -> Const:
    """An INDEX literal."""
    return Const(value, DType.INDEX)


@lru_cache(maxsize=4096)
def var(name: str) -> Var:
    """An INDEX variable."""
    return Var(name, DType.INDEX)


def _fold(op: BinaryOp, a: int, b: int) -> int | None:
    if op is BinaryOp.ADD:
        return a + b
    if op is BinaryOp.SUB:
        return a - b
    if op is BinaryOp.MUL:
        return a * b
    if op is BinaryOp.FLOORDIV and b != 0:
        return a // b
    if op is BinaryOp.MOD and b != 0:
        return a % b
    if op is BinaryOp.MIN:
        return min(a, b)
    if op is BinaryOp.MAX:
        return max(a, b)
    return None


def _ix(op: BinaryOp, a: Expr | int, b: Expr | int) -> Expr:
    lhs = index(a) if isinstance(a, int) else a
    rhs = index(b) if isinstance(b, int) else b
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        folded = _fold(op, int(lhs.value), int(rhs.value))
        if folded is not None:
            return index(folded)
    return Binary(op, lhs, rhs, DType.INDEX)


def add(a: Expr | int, b: Expr | int) -> Expr:
    """INDEX addition, constants folded."""
    return _ix(BinaryOp.ADD, a, b)


def sub(a: Expr | int, b: Expr | int) -> Expr:
    """INDEX subtraction, constants folded."""
    return _ix(BinaryOp.SUB, a, b)


def mul(a: Expr | int, b: Expr | int) -> Expr:
    """INDEX multiplication, constants folded."""
    return _ix(BinaryOp.MUL, a, b)


def floordiv(a: Expr | int, b: Expr | int) -> Expr:
    """INDEX floor division, constants folded."""
    return _ix(BinaryOp.FLOORDIV, a, b)


def mod(a: Expr | int, b: Expr | int) -> Expr:
    """INDEX modulus with the sign of the divisor, constants folded."""
    return _ix(BinaryOp.MOD, a, b)


def ceildiv(a: Expr | int, b: int) -> Expr:
    """ceil(a / b) for a positive constant b."""
    return floordiv(add(a, b - 1), b)


def decide(op: BinaryOp, a: int | float, b: int | float) -> bool:
    """The outcome of a comparison of two numbers."""
    return {
        BinaryOp.LT: a < b,
        BinaryOp.LE: a <= b,
        BinaryOp.GT: a > b,
        BinaryOp.GE: a >= b,
        BinaryOp.EQ: a == b,
        BinaryOp.NE: a != b,
    }[op]


def compare(op: BinaryOp, a: Expr | int, b: Expr | int) -> Expr:
    """An INDEX comparison, folded to a BOOL literal when both sides are constants."""
    lhs = index(a) if isinstance(a, int) else a
    rhs = index(b) if isinstance(b, int) else b
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        return Const(decide(op, lhs.value, rhs.value), DType.BOOL)
    return Binary(op, lhs, rhs, DType.BOOL)


def conjunction(terms: tuple[Expr, ...]) -> Expr:
    """`and` of all terms; true when there are none."""
    result: Expr | None = None
    for term in terms:
        if term == TRUE:
            continue
        result = term if result is None else Binary(BinaryOp.AND, result, term, DType.BOOL)
    return TRUE if result is None else result


TRUE = Const(True, DType.BOOL)
FALSE = Const(False, DType.BOOL)
