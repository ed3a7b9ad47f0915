"""The tree of a kernel's text: C as emitted kernels use it. Every statement knows its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from evolve.ir.types import DType


@dataclass(frozen=True)
class Vector:
    """float4 and its like: elements x, y, z, w."""

    element: DType
    lanes: int


@dataclass(frozen=True)
class Array:
    """An array of constant extents."""

    element: DType
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Pointer:
    """To elements of a type, or to bytes (None)."""

    element: DType | Vector | None


Type: TypeAlias = DType | Vector | Array | Pointer | None


@dataclass(frozen=True)
class Number:
    value: int | float
    type: DType


@dataclass(frozen=True)
class Name:
    """A variable; `key` tells declarations of one name apart."""

    key: int
    name: str
    type: Type


@dataclass(frozen=True)
class Builtin:
    """threadIdx and its like, along axis 0, 1 or 2."""

    what: str
    axis: int
    type: DType = DType.U32


@dataclass(frozen=True)
class Operation:
    """`neg`, `not` and C's binary operators, on operands of the types that C converts them to."""

    op: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True)
class Conditional:
    cond: Expr
    then: Expr
    orelse: Expr
    type: Type


@dataclass(frozen=True)
class Convert:
    arg: Expr
    type: DType


@dataclass(frozen=True)
class Element:
    """`base[i][j]`: an element, or with fewer indices than the array has, a part of it."""

    base: Name
    indices: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True)
class Wide:
    """The vector that begins at an element."""

    first: Element
    type: Vector


@dataclass(frozen=True)
class Lane:
    """`v.x`."""

    vector: Expr
    lane: int
    type: DType


@dataclass(frozen=True)
class Address:
    of: Expr


@dataclass(frozen=True)
class Invoke:
    """A call. `definition` is the text of the function where the text defines it."""

    name: str
    args: tuple[Expr, ...]
    type: Type
    definition: Function | None = None


@dataclass(frozen=True)
class Assign:
    """`target op= value`; op is empty for a plain assignment."""

    op: str
    target: Expr
    value: Expr
    line: int = 0


Expr: TypeAlias = (
    Number
    | Name
    | Builtin
    | Operation
    | Conditional
    | Convert
    | Element
    | Wide
    | Lane
    | Address
    | Invoke
    | Assign
)


def type_of(e: Expr) -> Type:
    """The type of a value; None for an assignment or an address."""
    return None if isinstance(e, Assign | Address) else e.type


@dataclass(frozen=True)
class Declare:
    """`offset` in bytes for an array in the block's dynamic shared memory."""

    key: int
    name: str
    type: Type
    init: Expr | None
    line: int
    const: bool = False
    shared: bool = False
    offset: int | None = None
    align: int = 0


@dataclass(frozen=True)
class Evaluate:
    expr: Expr
    line: int


@dataclass(frozen=True)
class Branch:
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    line: int


@dataclass(frozen=True)
class Loop:
    """`for (var = start; cond; step) body` as it stands; `step` is an assignment."""

    var: Declare
    cond: Expr
    step: Assign
    body: tuple[Stmt, ...]
    line: int


@dataclass(frozen=True)
class While:
    """`while`, or with `after` the condition `do … while`."""

    cond: Expr
    body: tuple[Stmt, ...]
    after: bool
    line: int


@dataclass(frozen=True)
class Return:
    value: Expr | None
    line: int


@dataclass(frozen=True)
class Group:
    body: tuple[Stmt, ...]
    line: int


Stmt: TypeAlias = Declare | Evaluate | Assign | Branch | Loop | While | Return | Group


@dataclass(frozen=True)
class Hinted:
    """An access of an element of `base`; `constant` where the load is by the read-only path."""

    base: Name
    constant: bool
    line: int


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel or a device function. Two are equal when they are one. `text` is its text."""

    name: str
    params: tuple[Name, ...]
    body: tuple[Stmt, ...]
    line: int
    text: str = ""
    references: frozenset[int] = frozenset()
    """Keys of parameters that are references."""
    readonly: frozenset[int] = frozenset()
    """Keys of parameters that point to what is const: a compiler may load it by the read-only path."""
    hinted: tuple[Hinted, ...] = ()
    """Accesses by functions that work on global memory alone."""
