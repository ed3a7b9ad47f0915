"""The microbenchmarks: what each kernel of `kernels/` does, in numbers.

A throughput is measured at two amounts of work; its rate is the added work over the added time, so that what
a launch costs once (its overhead, filling caches, draining them) cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

BLOCK = 1024
"""Threads of a loop's only block on an SM."""

Source = Literal["memory", "arithmetic", "tensor", "latency"]

STREAM_BLOCK = 256
HOPS = 32
L2_TILE_BYTES = BLOCK * 16
"""What one load of every thread of a block reads in `l2_read`: each of its 8 loads takes another tile."""


@dataclass(frozen=True)
class Stream:
    """A kernel that goes once through `areas` equal parts of a buffer.

    figure       the field of `target.profile.Measured` that it measures
    per_thread   elements of `element_bytes` that a thread handles
    loads, stores   accesses per element; the bytes that count are those of both
    """

    figure: str
    kernel: str
    per_thread: int
    loads: int
    stores: int
    areas: int
    element_bytes: int = 16

    @property
    def moved(self) -> int:
        """Bytes read and written per element."""
        return (self.loads + self.stores) * self.element_bytes


STREAMS = (
    Stream("write_gbs", "write_1", 1, 0, 1, 1),  # first: what the others then read is not all zeros
    Stream("write_gbs", "write_4", 4, 0, 1, 1),
    Stream("read_gbs", "read_4", 4, 1, 0, 1),
    Stream("read_gbs", "read_8", 8, 1, 0, 1),
    Stream("copy_16b_gbs", "copy_16b_1", 1, 1, 1, 2),
    Stream("copy_16b_gbs", "copy_16b_2", 2, 1, 1, 2),
    Stream("copy_16b_gbs", "copy_16b_4", 4, 1, 1, 2),
    Stream("copy_4b_gbs", "copy_4b", 1, 1, 1, 2, element_bytes=4),
    Stream("triad_gbs", "triad_1", 1, 2, 1, 3),
    Stream("triad_gbs", "triad_2", 2, 2, 1, 3),
)
"""Of several for one figure the fastest counts."""


@dataclass(frozen=True)
class Loop:
    """A kernel of one block of `BLOCK` threads on each SM that repeats the same instructions.

    figure   the field of `Measured`; `unit` its factor to 1 per second
    rate     the field of `target.profile.Rates` that a rate per SM and clock corresponds to, None for none
    kind     the instructions' kind as `toolchain.instructions` names it; `instructions` of them per thread
             and iteration
    results  what one thread's instruction counts in the figure: bytes, operations (an FMA two), results
    lanes    the same as the profile's rate counts them: lanes of FMA, results, bytes
    a, b     the kernel's scalar arguments, None without
    """

    figure: str
    source: Source
    kernel: str
    unit: float
    rate: str | None
    kind: str
    instructions: int
    results: float
    lanes: float
    dtype: str = "f32"
    a: float | int | None = None
    b: float | int | None = None


_A = -0.99999
"""Keeps a chain of x = a x + b bounded and its bits changing: constant data would draw less power."""

LOOPS = (
    Loop("fp32_tflops", "arithmetic", "fma_f32", 1e12, "fp32_fma", "fp32_fma", 256, 2, 1, "f32", _A, 0.5),
    Loop("fp64_tflops", "arithmetic", "fma_f64", 1e12, "fp64_fma", "fp64", 128, 2, 1, "f64", _A, 0.5),
    Loop("imad_gops", "arithmetic", "int_mad", 1e9, "imad", "imad", 256, 1, 1, "u32", 1664525, 1013904223),
    Loop("int_add_gops", "arithmetic", "int_add", 1e9, "int_add", "int", 256, 1, 1, "u32", 7, 11),
    Loop("ex2_gops", "arithmetic", "ex2_f32", 1e9, "mufu", "mufu", 128, 1, 1, "f32", 0.001, 0.0),
    Loop("shared_gbs", "arithmetic", "shared_read", 1e9, "shared_bytes", "lds_128", 16, 16, 16, "u32", 3, 5),
    # 16 x 8 x 16 multiply-adds of a warp: 128 operations for each of its threads.
    Loop("fp16_mma_tflops", "tensor", "mma_f16", 1e12, None, "tensor", 64, 128, 128, "f32", 0.01, 0.02),
    Loop("l2_read_gbs", "memory", "l2_read", 1e9, None, "ldg_128", 8, 16, 16, "i32"),
)


@dataclass(frozen=True)
class Chase:
    """A pointer chase by one thread.

    latency  the field of `target.profile.Latency`
    kernel   `chase_l1`, `chase_l2` or `chase_shared`
    cells    places in the ring; `stride` the bytes between neighbouring places, which the ring visits in a
             random order; the region is their product
    warm     whether the ring is gone through once before it is timed; else caches are emptied before
    """

    latency: Literal["l1_clocks", "l2_clocks", "dram_ns", "shared_clocks"]
    kernel: str
    cells: int
    stride: int
    warm: bool

    @property
    def region_bytes(self) -> int:
        """Bytes from the first place to behind the last."""
        return self.cells * self.stride


CHASES = (
    Chase("shared_clocks", "chase_shared", 1024, 4, warm=True),
    Chase("l1_clocks", "chase_l1", 128, 64, warm=True),  # 8 KiB: in the smallest L1
    Chase("l2_clocks", "chase_l2", 4096, 256, warm=True),  # 1 MiB: in the smallest L2
    # 64 MiB: few enough pages that their translations stay known; every place in a line of its own.
    Chase("dram_ns", "chase_l2", 8192, 8192, warm=False),
)
DRAM_WARM_HOPS = 1024
"""Hops before the timed ones in a cold ring: they touch its pages, not the lines that follow."""


def kernel_text(source: Source) -> str:
    """The CUDA text of one of the files."""
    return (files(__package__) / "kernels" / f"{source}.cu").read_text("utf-8")
