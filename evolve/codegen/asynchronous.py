"""Asynchronous copies in CUDA: the functions of `cuda_pipeline.h`, which NVRTC does not bring along."""

from __future__ import annotations

ASYNCHRONOUS_BYTES = (4, 8, 16)
"""What one copy can take."""
MOST_PENDING = 7
"""Groups that a wait may leave under way."""


def _copy(size: int) -> str:
    # Only those of 16 bytes can go past the L1 cache.
    cache = "cg" if size == 16 else "ca"
    code = f"cp.async.{cache}.shared.global [%0], [%1], {size};"
    asm = f'asm volatile("{code}" :: "r"(at), "l"(from) : "memory");'
    return f"    if (bytes == {size})\n        {asm}"


def _wait(pending: int) -> str:
    return f'    if (groups == {pending}) asm volatile("cp.async.wait_group {pending};" ::: "memory");'


_COPIES = "\n".join(map(_copy, ASYNCHRONOUS_BYTES))
_WAITS = "\n".join(map(_wait, range(MOST_PENDING + 1)))

ASYNCHRONOUS = f"""\
// Asynchronous copies. The arguments `bytes` and `groups` are constants.
#ifdef __CUDACC_RTC__
__device__ __forceinline__ void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {{
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
{_COPIES}
}}
__device__ __forceinline__ void __pipeline_commit() {{
    asm volatile("cp.async.commit_group;" ::: "memory");
}}
__device__ __forceinline__ void __pipeline_wait_prior(int groups) {{
{_WAITS}
}}
#else
#include <cuda_pipeline.h>
#endif
"""
