"""The features of a kernel at given sizes. Everything is frozen and turns into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Structure = Literal["elementwise", "reduction", "contraction", "permutation", "stencil", "other"]


@dataclass(frozen=True)
class BufferUse:
    """Traffic of one global buffer.

    read_elements   distinct elements whose value from before the launch is needed
    written_elements   distinct elements written
    accesses        element accesses executed by the source, loads and stores
    passes          how many sibling loop nests read (a large part of) it one after the other
    reuse           loads the source makes per distinct element it reads; 0 when it reads none
    element_bytes   size of one element
    exact           false: the element counts are estimates (conditions on data, triangular domains)
    """

    buffer: str
    element_bytes: int
    read_elements: int
    written_elements: int
    accesses: float
    passes: int
    reuse: float
    exact: bool

    @property
    def read_bytes(self) -> int:
        return self.read_elements * self.element_bytes

    @property
    def written_bytes(self) -> int:
        return self.written_elements * self.element_bytes


@dataclass(frozen=True)
class LoopInfo:
    """A loop: its name, kind (`parallel`, `serial`, …), mean trip count, nesting depth from 0."""

    name: str
    kind: str
    trips: float
    depth: int


@dataclass(frozen=True)
class AccessInfo:
    """One access of a global buffer in the source.

    strides    elements that the row-major address moves per step of each enclosing loop, outermost first;
               None where the address is not affine in the loop
    coalesced  neighbours along the innermost parallel loop touch neighbouring elements or the same one
    invariant  enclosing loops that do not change the address: reuse along them
    """

    stmt: str
    buffer: str
    write: bool
    strides: tuple[tuple[str, int | None], ...]
    coalesced: bool
    invariant: tuple[str, ...]


@dataclass(frozen=True)
class ReductionInfo:
    """A reduction: its accumulator, monoid, and the sequential loops that it runs over with their trips."""

    buffer: str
    monoid: str
    loops: tuple[str, ...]
    trips: float
    contiguous: bool
    """Some operand is read with stride 1 along the innermost of these loops."""


@dataclass(frozen=True)
class Features:
    """What a kernel does at given sizes, from its meaning alone.

    operations    distinct arithmetic results by `<type>.<class>`: fma, add, mul, minmax, div, div_invariant
                  (the divisor is the same for a whole loop), special.<function>, compare, convert, int
    instances     executions of all source statements
    products      multiply-adds of a matrix product in the wide sense: every loop is shared by exactly two of
                  result and operands (or by all three), and no element stands for two; 0 for other kernels
    this_input    some of it was counted on the index arrays of one input and holds for that input
    """

    kernel: str
    scalars: Mapping[str, int | float] = field(hash=False)
    buffers: tuple[BufferUse, ...]
    loops: tuple[LoopInfo, ...]
    accesses: tuple[AccessInfo, ...]
    reductions: tuple[ReductionInfo, ...]
    operations: Mapping[str, float] = field(hash=False)
    instances: float
    structure: Structure
    exact: bool
    products: float = 0.0
    this_input: bool = False

    @property
    def bytes_read(self) -> int:
        """Bytes that must be read at least once."""
        return sum(b.read_bytes for b in self.buffers)

    @property
    def bytes_written(self) -> int:
        """Bytes that must be written at least once."""
        return sum(b.written_bytes for b in self.buffers)

    def buffer(self, name: str) -> BufferUse:
        """The use of that buffer. Raises KeyError."""
        for b in self.buffers:
            if b.buffer == name:
                return b
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        data = asdict(self)
        data["bytes_read"] = self.bytes_read
        data["bytes_written"] = self.bytes_written
        for access in data["accesses"]:
            access["strides"] = dict(access["strides"])
        return data
