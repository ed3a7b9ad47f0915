"""Machine code for the GPU of this machine."""

from __future__ import annotations

import functools

from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda


@functools.cache
def image(text: str) -> bytes:
    """A cubin of a CUDA text, with line information."""
    import pycuda.driver as cuda

    cuda.init()
    major, minor = cuda.Device(0).compute_capability()
    built = compile_cuda(text, f"sm_{major}{minor}", [LINE_INFO])
    assert built.cubin is not None, built.log
    return built.cubin
