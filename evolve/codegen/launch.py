"""What a host needs to run rendered code at concrete sizes: kernels, arguments, grid and block.

These types are the seam between code generation and every device. They hold numbers only; the
symbolic forms (grid as a function of the scalars, guards of variants) live in `rendered`.
"""

from __future__ import annotations

from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class BufferArg:
    """A pointer argument: the name of a workload array or of a scratch buffer."""

    name: str


@dataclass(frozen=True)
class ScalarArg:
    """A by-value argument. `dtype` is the C type's short name: f32, f64, i32, u32, i64, u64."""

    name: str
    dtype: str
    value: int | float


@dataclass(frozen=True)
class ConcreteLaunch:
    """One kernel launch. `kernel` is the extern "C" name in the rendered text."""

    kernel: str
    args: tuple[BufferArg | ScalarArg, ...]
    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
