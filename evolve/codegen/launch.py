"""What a host needs to run rendered code at concrete sizes: kernels, arguments, grid and block.

These types are the seam between code generation and every device. They hold numbers only; the
symbolic forms (grid as a function of the scalars, guards of variants) live in `rendered`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class BufferArg:
    """A pointer argument: the name of a workload array."""

    name: str


@dataclass(frozen=True)
class ScratchArg:
    """A pointer to memory that launches share: the same for the same name in a sequence of launches.

    Undefined when the first begins, and nobody looks at it after the last. `elements` of the type `dtype`, a
    C type's short name as of a ScalarArg.
    """

    name: str
    dtype: str
    elements: int

    @property
    def nbytes(self) -> int:
        """In all."""
        return self.elements * (1 if self.dtype == "bool" else int(self.dtype[1:]) // 8)

    @property
    def numpy(self) -> str:
        """numpy's name of the element type."""
        kind = {"f": "float", "i": "int", "u": "uint", "b": "bool"}[self.dtype[0]]
        return kind if kind == "bool" else f"{kind}{self.dtype[1:]}"


@dataclass(frozen=True)
class ScalarArg:
    """A by-value argument. `dtype` is the C type's short name: f32, f64, i32, u32, i64, u64."""

    name: str
    dtype: str
    value: int | float


@dataclass(frozen=True)
class ConcreteLaunch:
    """One kernel launch. `kernel` is the extern "C" name in the rendered text; `carveout` the percentage of
    an SM's memory that is preferred as shared memory."""

    kernel: str
    args: tuple[BufferArg | ScratchArg | ScalarArg, ...]
    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    carveout: int | None = None


def scratch_of(launches: Iterable[ConcreteLaunch]) -> dict[str, ScratchArg]:
    """The scratch memory that a sequence of launches needs, by name."""
    return {a.name: a for x in launches for a in x.args if isinstance(a, ScratchArg)}
