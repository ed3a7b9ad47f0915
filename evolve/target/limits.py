"""What a launch may ask of a GPU, and how many blocks of it an SM holds at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from evolve.ir.errors import EvolveError
from evolve.ir.types import LoopKind
from evolve.target.profile import Profile

GRID_MOST = {LoopKind.GRID_X: 2**31 - 1, LoopKind.GRID_Y: 65535, LoopKind.GRID_Z: 65535}
"""Blocks along each axis of a grid: the same on every CUDA GPU since compute capability 3.0."""
BLOCK_MOST = {LoopKind.THREAD_X: 1024, LoopKind.THREAD_Y: 1024, LoopKind.THREAD_Z: 64}
"""Threads along each axis of a block, likewise (CUDA programming guide, technical specifications)."""
THREADS_MOST = 1024
"""Threads of a block, likewise."""
WARP = 32
"""Threads that run together, likewise."""
REGISTERS_LEAST, REGISTERS_MOST = 16, 255
"""Of a thread, likewise; a compiler does not keep to fewer than the least."""
REGISTER_FILE = 65536
"""32-bit registers of a block at the most, where no profile says otherwise: those of an SM since compute
capability 3.0. A thread gets a multiple of 8."""
STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory of a block in static arrays: more needs dynamic shared memory and an opt-in."""
COPIED_BYTES = (4, 8)
"""Sizes of elements that an asynchronous copy can be made of; vectors of them have up to 16 bytes."""
SHARED_ALIGNMENT = 16
"""Bytes: every array in shared memory begins at a multiple, so that any vector may lie in it."""

Limiter = Literal["threads", "blocks", "registers", "shared", "too-large"]


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one SM holds at once, and the resource that runs out first.

    `limiter` is `too-large` and both counts are 0 when not even one block fits. `fraction` is the share of
    the SM's warp slots in use.
    """

    blocks_per_sm: int
    warps_per_sm: int
    limiter: Limiter
    fraction: float


def occupancy(profile: Profile, regs_per_thread: int, shared_bytes: int, threads_per_block: int) -> Occupancy:
    """How many blocks with these needs (registers per thread; static plus dynamic shared bytes per block)
    share an SM.

    After NVIDIA's occupancy rules: registers are given to each warp in steps of `register_unit`, and a
    warp's registers come from its own scheduler's share of the file; shared memory is given in steps of
    `shared_unit_bytes` on top of what the system reserves. Raises EvolveError `no-occupancy-model` for a GPU
    of another vendor, ValueError for needs that are negative or for no threads.
    """
    if regs_per_thread < 0 or shared_bytes < 0 or threads_per_block < 1:
        raise ValueError("registers and shared bytes are at least 0, threads at least 1")
    limits, memory = profile.limits, profile.memory
    if (
        profile.vendor != "nvidia"
        or limits.blocks_per_sm is None
        or limits.registers_per_block is None
        or limits.registers_per_thread is None
        or limits.register_unit is None
    ):
        raise EvolveError(
            "no-occupancy-model", f"how {profile.name} shares out its registers is not known here"
        )

    warps = -(-threads_per_block // limits.warp)
    warp_registers = _round_up(regs_per_thread * limits.warp, limits.register_unit)
    block_shared = _round_up(shared_bytes + memory.shared_reserved_per_block, memory.shared_unit_bytes)
    too_large = (
        threads_per_block > limits.threads_per_block
        or regs_per_thread > limits.registers_per_thread
        # Allocation is per warp, but a block's warps are spread over the schedulers in full rounds.
        or warp_registers * _round_up(warps, limits.schedulers) > limits.registers_per_block
        or shared_bytes > memory.shared_bytes_per_block_optin
    )
    if too_large:
        return Occupancy(0, 0, "too-large", 0.0)

    warp_slots = limits.threads_per_sm // limits.warp
    by: dict[Limiter, int] = {"threads": warp_slots // warps, "blocks": limits.blocks_per_sm}
    if warp_registers:
        warps_per_scheduler = limits.registers_per_sm // limits.schedulers // warp_registers
        by["registers"] = warps_per_scheduler * limits.schedulers // warps
    if block_shared:
        by["shared"] = memory.shared_bytes_per_sm // block_shared
    limiter = min(by, key=lambda name: by[name])
    blocks = by[limiter]
    if blocks == 0:
        return Occupancy(0, 0, "too-large", 0.0)
    return Occupancy(blocks, blocks * warps, limiter, blocks * warps / warp_slots)


def shared_bytes(arrays: Iterable[int]) -> int:
    """At most what arrays of so many bytes take in shared memory, one behind the other."""
    return sum(_round_up(n, SHARED_ALIGNMENT) for n in arrays)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
