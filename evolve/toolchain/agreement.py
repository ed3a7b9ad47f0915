"""What the driver says of a loaded kernel against what its image says, and against our occupancy.

The image is what everything here is decided by: estimates, limits, the ranking. When the driver sees
something else on the GPU that is there, those decisions were about another kernel or another GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evolve.ir.errors import EvolveError
from evolve.target.limits import occupancy
from evolve.target.profile import Profile
from evolve.toolchain.cubin import KernelResources


@dataclass(frozen=True)
class DriverView:
    """One kernel as the driver describes it, with the names of `cuFuncGetAttribute`.

    `registers` (NUM_REGS) and `local_bytes` (LOCAL_SIZE_BYTES) per thread; `shared_bytes` (SHARED_SIZE_BYTES)
    static, per block; `max_threads` (MAX_THREADS_PER_BLOCK) that a block may have; `const_bytes`
    (CONST_SIZE_BYTES) of the user's constants; `max_blocks_per_multiprocessor` at the launch in question
    (cuOccupancyMaxActiveBlocksPerMultiprocessor), None when it was not asked.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads: int
    const_bytes: int
    max_blocks_per_multiprocessor: int | None = None

    @classmethod
    def read(cls, attribute: Callable[[str], int], blocks: int | None = None) -> DriverView:
        """Asks `attribute` by the driver's names, without `CU_FUNC_ATTRIBUTE_`."""
        return cls(
            registers=attribute("NUM_REGS"),
            shared_bytes=attribute("SHARED_SIZE_BYTES"),
            local_bytes=attribute("LOCAL_SIZE_BYTES"),
            max_threads=attribute("MAX_THREADS_PER_BLOCK"),
            const_bytes=attribute("CONST_SIZE_BYTES"),
            max_blocks_per_multiprocessor=blocks,
        )


def disagreements(
    kernel: KernelResources,
    driver: DriverView,
    profile: Profile,
    threads: int,
    dynamic_shared_bytes: int = 0,
) -> tuple[str, ...]:
    """Each thing that the driver sees otherwise, in words; empty when it sees what we do.

    `threads` per block and `dynamic_shared_bytes` are those of a launch on the GPU of `profile`. What the
    driver was not asked, and what is not known of the GPU, is not compared.
    """
    name = kernel.name
    pairs = (
        ("registers a thread", kernel.registers, driver.registers),
        ("bytes of static shared memory", kernel.shared_bytes, driver.shared_bytes),
        ("bytes of local memory a thread", kernel.stack_bytes, driver.local_bytes),
    )
    found = [
        f"{name}: {ours} {what} in the image, {theirs} by the driver"
        for what, ours, theirs in pairs
        if ours != theirs
    ]
    # The image's constants are shared by its kernels, and one of them need not use all.
    if driver.const_bytes > kernel.constant_bytes:
        found.append(
            f"{name}: {kernel.constant_bytes} bytes of constants in the image, "
            f"{driver.const_bytes} by the driver"
        )
    if driver.max_threads < threads:
        found.append(
            f"{name}: the driver admits {driver.max_threads} threads a block, the launch has {threads}"
        )
    most = most_threads(kernel, profile)
    if most is not None and most != driver.max_threads:
        found.append(
            f"{name}: {most} threads a block at most by our limits, {driver.max_threads} by the driver"
        )
    return (*found, *_occupancy(kernel, driver, profile, threads, dynamic_shared_bytes))


def most_threads(kernel: KernelResources, profile: Profile) -> int | None:
    """The threads that a block of it may have: its launch bounds, the GPU's limit, or what registers allow.

    None when nothing is known of how the GPU shares out registers.
    """
    limits = profile.limits
    bound = min(kernel.max_threads or limits.threads_per_block, limits.threads_per_block)
    try:
        for warps in range(limits.threads_per_block // limits.warp, 0, -1):
            if occupancy(profile, kernel.registers, 0, warps * limits.warp).blocks_per_sm:
                return min(bound, warps * limits.warp)
    except EvolveError:
        return None
    return 0


def _occupancy(
    kernel: KernelResources, driver: DriverView, profile: Profile, threads: int, dynamic: int
) -> tuple[str, ...]:
    theirs = driver.max_blocks_per_multiprocessor
    if theirs is None:
        return ()
    try:
        ours = occupancy(profile, kernel.registers, kernel.shared_bytes + dynamic, threads)
    except EvolveError:
        return ()
    if ours.blocks_per_sm == theirs:
        return ()
    return (
        f"{kernel.name}: {ours.blocks_per_sm} blocks of {threads} threads an SM by our occupancy "
        f"(limited by {ours.limiter}), {theirs} by the driver",
    )
