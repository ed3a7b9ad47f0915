"""A small typed C tree: what the lifter reads, free of libclang. Every node knows its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from evolve.ir.types import DType


@dataclass(frozen=True)
class Pointer:
    """A pointer to elements of a scalar type; an array parameter too."""

    element: DType
    const: bool


@dataclass(frozen=True)
class Array:
    """A local array with constant extents."""

    element: DType
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Void:
    pass


CType: TypeAlias = DType | Pointer | Array | Void


@dataclass(frozen=True)
class Number:
    value: int | float
    type: DType
    line: int


@dataclass(frozen=True)
class Name:
    """A variable or parameter; `key` identifies its declaration."""

    key: int
    name: str
    type: CType
    line: int


@dataclass(frozen=True)
class Builtin:
    """`threadIdx.x` and the like: `what` is threadIdx, blockIdx, blockDim or gridDim; axis 0, 1, 2."""

    what: str
    axis: int
    line: int
    type: DType = DType.U32


@dataclass(frozen=True)
class Operation:
    """An operator on operands already converted to a common type, as C says."""

    op: str
    operands: tuple[CExpr, ...]
    type: CType
    line: int


@dataclass(frozen=True)
class Conditional:
    cond: CExpr
    then: CExpr
    orelse: CExpr
    type: CType
    line: int


@dataclass(frozen=True)
class Convert:
    arg: CExpr
    type: CType
    line: int


@dataclass(frozen=True)
class Element:
    """`base[index]`, and `*base` with index 0."""

    base: CExpr
    index: CExpr
    type: CType
    line: int


@dataclass(frozen=True)
class Invoke:
    """A call. `function` is the callee when its body is in the file, None for a library function."""

    name: str
    function: Function | None
    args: tuple[CExpr, ...]
    type: CType
    line: int


@dataclass(frozen=True)
class Assign:
    """`target = value`, or `target op= value` computed in type `compute`."""

    op: str | None
    target: CExpr
    value: CExpr
    compute: CType
    type: CType
    line: int


CExpr: TypeAlias = Number | Name | Builtin | Operation | Conditional | Convert | Element | Invoke | Assign


@dataclass(frozen=True)
class Declare:
    key: int
    name: str
    type: CType
    init: CExpr | tuple[CExpr, ...] | None
    line: int


@dataclass(frozen=True)
class Evaluate:
    expr: CExpr
    line: int


@dataclass(frozen=True)
class Branch:
    cond: CExpr
    then: tuple[CStmt, ...]
    orelse: tuple[CStmt, ...]
    line: int


@dataclass(frozen=True)
class Loop:
    """`for (init; cond; step, also) body`, with `init` a declaration or an assignment."""

    init: CStmt
    cond: CExpr
    step: CExpr
    body: tuple[CStmt, ...]
    also: tuple[CStmt, ...]
    line: int


@dataclass(frozen=True)
class Return:
    value: CExpr | None
    line: int


@dataclass(frozen=True)
class Continue:
    line: int


@dataclass(frozen=True)
class Group:
    """A nested `{ … }`."""

    body: tuple[CStmt, ...]
    line: int


CStmt: TypeAlias = Declare | Evaluate | Branch | Loop | Return | Continue | Group


@dataclass(frozen=True)
class Function:
    """A kernel or a device function with its body."""

    name: str
    params: tuple[Name, ...]
    result: CType
    body: tuple[CStmt, ...]
    line: int


def jumps(s: CStmt) -> bool:
    """Whether control may leave the statement by return or continue (loops keep their own continues)."""
    match s:
        case Return() | Continue():
            return True
        case Branch():
            return any(jumps(x) for x in (*s.then, *s.orelse))
        case Group():
            return any(jumps(x) for x in s.body)
        case _:
            return False
