"""The shared arrays of a block: static ones as long as they fit, else all in one dynamic array.

A block has 48 KiB without asking. More is dynamic shared memory, whose size the launch gives and which each
kernel must be opted in to; the arrays are then references at offsets that only this module gives out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from evolve.codegen.ctree import Node, line
from evolve.codegen.names import Names
from evolve.ir.types import DType
from evolve.target.limits import SHARED_ALIGNMENT, STATIC_SHARED_BYTES


@dataclass(frozen=True)
class SharedArray:
    """An array in shared memory, `dims` with their padding. `aligned`: vectors are read or written in it."""

    name: str
    dtype: DType
    dims: tuple[int, ...]
    aligned: bool = True

    @property
    def nbytes(self) -> int:
        return prod(self.dims) * self.dtype.size

    @property
    def shape(self) -> str:
        return "".join(f"[{n}]" for n in self.dims)


def offsets(arrays: Iterable[SharedArray]) -> tuple[tuple[int, ...], int]:
    """Where each array begins when they lie one behind the other, and the bytes of all."""
    out, end = list[int](), 0
    for a in arrays:
        begin = -(-end // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
        out.append(begin)
        end = begin + a.nbytes
    return tuple(out), end


def declarations(arrays: tuple[SharedArray, ...], names: Names) -> tuple[list[Node], int]:
    """The lines that declare the arrays, and the bytes of dynamic shared memory that they need.

    `names` gives a name that no other text of the module has: `extern` arrays of one name are one.
    """
    begins, total = offsets(arrays)
    if total <= STATIC_SHARED_BYTES:
        return [line(_static(a)) for a in arrays], 0
    memory = names.fresh("shared_memory")
    head = f"extern __shared__ __align__({SHARED_ALIGNMENT}) unsigned char {memory}[];  // {total} bytes"
    placed = (_placed(a, memory, at) for a, at in zip(arrays, begins, strict=True))
    return [line(t) for t in (head, *placed)], total


def _static(a: SharedArray) -> str:
    align = f"__align__({SHARED_ALIGNMENT}) " if a.aligned else ""
    return f"__shared__ {align}{a.dtype.c_name} {a.name}{a.shape};"


def _placed(a: SharedArray, memory: str, at: int) -> str:
    kind = a.dtype.c_name
    return f"{kind} (&{a.name}){a.shape} = *reinterpret_cast<{kind} (*){a.shape}>({memory} + {at});"
