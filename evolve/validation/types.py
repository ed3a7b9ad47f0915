"""libclang's types and places as those of the tree of an emitted text."""

from __future__ import annotations

from typing import Any

from evolve.ir.types import DType
from evolve.validation.declarations import LINES
from evolve.validation.text import Array, Pointer, Type, Vector
from evolve.validation.verdict import UnreadError

_SCALARS = {
    "BOOL": DType.BOOL,
    "UCHAR": DType.U8,
    "INT": DType.I32,
    "UINT": DType.U32,
    "LONG": DType.I64,
    "LONGLONG": DType.I64,
    "ULONG": DType.U64,
    "ULONGLONG": DType.U64,
    "FLOAT": DType.F32,
    "DOUBLE": DType.F64,
    "USHORT": DType.BF16,
}
_VECTORS = {
    f"{name}{n}": Vector(dtype, n)
    for name, dtype in (
        ("float", DType.F32),
        ("double", DType.F64),
        ("int", DType.I32),
        ("uint", DType.U32),
        ("uchar", DType.U8),
        ("ushort", DType.BF16),
    )
    for n in (2, 4)
}


def type_of(t: Any, at: Any) -> Type:
    """The type that libclang names at a cursor, None for void. Raises UnreadError."""
    c = t.get_canonical()
    name = c.kind.name
    if name in _SCALARS:
        return _SCALARS[name]
    if name == "VOID":
        return None
    if name == "RECORD":
        spelling = c.spelling.removeprefix("const ").removeprefix("struct ")
        if spelling in _VECTORS:
            return _VECTORS[spelling]
    if name in ("POINTER", "LVALUEREFERENCE"):
        inner = type_of(c.get_pointee(), at)
        if name == "LVALUEREFERENCE":
            return inner
        if inner is None or isinstance(inner, DType | Vector):
            return Pointer(inner)
        if isinstance(inner, Array):
            return inner
    if name in ("CONSTANTARRAY", "INCOMPLETEARRAY"):
        extents = []
        while c.kind.name in ("CONSTANTARRAY", "INCOMPLETEARRAY"):
            extents.append(int(c.element_count) if c.kind.name == "CONSTANTARRAY" else 0)
            c = c.element_type.get_canonical()
        element = type_of(c, at)
        if isinstance(element, DType):
            return Array(element, tuple(extents))
    raise UnreadError(f"type {t.spelling}", line_of(at))


def line_of(c: Any) -> int:
    """The line of the emitted text where a cursor stands, from 1."""
    return int(c.location.line) - LINES
