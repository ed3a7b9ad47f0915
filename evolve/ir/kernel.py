"""Kernels, and modules of guarded variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evolve.ir.expr import Expr
from evolve.ir.stmt import Block, Buffer, Span
from evolve.ir.types import DType


@dataclass(frozen=True)
class Scalar:
    """A by-value parameter with its C type. `is_size`: used in bounds or subscripts (INDEX in the body).

    `implied`: no parameter but a size all the same, the length of an array that only the values in an index
    array reach into. The workload gives its value, the code cannot ask for it.
    """

    name: str
    dtype: DType
    is_size: bool
    implied: bool = False


@dataclass(frozen=True)
class Contents:
    """A premise about an integer array that the kernel only reads: `low <= value < high` for each element.

    `low` and `high` are INDEX expressions over the scalars. `nondecreasing`: the first element is `low`, the
    last `high - 1`, and none is less than the one before, as the row pointers of a sparse matrix are.
    `end`: where `high` only says what the type can hold, what the kernel asks those to be below that it uses.
    Lifting assumes it, proofs of bounds rest on it, and every input that is generated is checked against it.
    """

    buffer: str
    low: Expr
    high: Expr
    nondecreasing: bool = False
    end: Expr | None = None


@dataclass(frozen=True)
class Flagged:
    """A premise about an array: it is there, all its elements, even where `conditions` on parameters, under
    which alone the lifted kernel touches it, do not hold. See `ir.flags`."""

    buffer: str
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class Kernel:
    """What one kernel computes.

    params       names of buffers and scalars in the order of the C signature
    buffers      the global arrays among them
    scalars      the by-value parameters among them, then implied sizes
    body         the loop nest
    assumptions  BOOL expressions over the scalars that hold whenever this kernel runs
    contents     premises about index arrays
    max_threads, min_blocks   __launch_bounds__ (0: none)
    loosened     what was lifted from the source otherwise than bit for bit, in words: no kernel for `exact`
    lanes        thread.x and thread.y are the lanes of a warp, thread.z are the warps
    registers    __maxnreg__, in place of __launch_bounds__ (0: none)
    carveout     percent of an SM's memory that is preferred as shared memory, the rest being L1 (None: the
                 driver decides)
    """

    name: str
    params: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[Scalar, ...]
    body: Block
    assumptions: tuple[Expr, ...] = ()
    max_threads: int = 0
    min_blocks: int = 0
    registers: int = 0
    carveout: int | None = None
    contents: tuple[Contents, ...] = ()
    loosened: tuple[str, ...] = ()
    lanes: bool = False
    span: Span | None = field(default=None, compare=False)

    @property
    def implied(self) -> frozenset[str]:
        """Names of the sizes that are no parameters."""
        return frozenset(s.name for s in self.scalars if s.implied)

    def buffer(self, name: str) -> Buffer:
        """The global buffer of that name. Raises KeyError."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(name)

    def scalar(self, name: str) -> Scalar:
        """The scalar parameter of that name. Raises KeyError."""
        for s in self.scalars:
            if s.name == name:
                return s
        raise KeyError(name)


@dataclass(frozen=True)
class Original:
    """The kernel as the user wrote it, compiled verbatim.

    text    the file's device code: macros, types, helpers and the kernel; no host code
    entry   the kernel's name in it
    grid, block   its launch as INDEX expressions over the scalars
    shared_bytes  dynamic shared memory
    read_only     arrays that its signature declares const
    lines         lines of the user's files by `FILE:LINE`, as spans name them: for comments
    """

    text: str
    entry: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    shared_bytes: int = 0
    read_only: tuple[str, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Variant:
    """Kernels launched in order when `guard`, a BOOL expression over the scalars, holds, and the arrays of
    `flagged` are there."""

    guard: Expr
    kernels: tuple[Kernel, ...]
    flagged: tuple[Flagged, ...] = ()


@dataclass(frozen=True)
class Module:
    """Variants tried in order; when no guard holds the original runs."""

    variants: tuple[Variant, ...]
    original: Original
    params: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[Scalar, ...]
