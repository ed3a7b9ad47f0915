"""The float64 reference on the GPU: its kernels, then the bounds of each output, fetched and overwritten.

It runs before any candidate's launch or after, never beside one, and its arrays are overwritten before their
memory is given back: no candidate finds a result there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evolve.devices.cuda.helpers import TYPES
from evolve.devices.cuda.launching import Images, wait
from evolve.devices.cuda.memory import Gpu, Resident
from evolve.devices.cuda.messages import Refer, Stored

_WIPE = 0xC5C5C5C5


def refer(r: Refer, gpu: Gpu, images: Images, on: Resident) -> Stored:
    """Carries out a Refer; the bounds are written with numpy.save.

    Raises KernelTimeoutError, ArrayMemoryError, PyCUDA's errors and OSError.
    """
    held: dict[str, tuple[Any, int]] = {}
    try:
        for name, count in r.scratch.items():
            held[name] = (gpu.allocate(8 * count), 8 * count)
        for name in r.outputs:
            on.upload(name)  # what a reference reads of an output is what was there before
        pointers = {n: int(block) for n, (block, _) in held.items()}
        pointers |= {n: on.pointer(a) for n, a in r.inputs.items()}
        for call in images.calls(r.cubin, r.launches, pointers.__getitem__):
            call()
        end = gpu.cuda.Event()
        end.record()
        wait(end, r.limit_s)
        for name, (value, error, low_path, high_path) in r.outputs.items():
            low, high = _bounds(gpu, pointers[value], pointers[error], on.host[name], r.factor)
            np.save(low_path, low)
            np.save(high_path, high)
    finally:
        for block, size in held.values():
            gpu.fill(int(block), _WIPE, size)
            block.free()
    return Stored()


def _bounds(gpu: Gpu, value: int, error: int, like: Any, factor: float) -> tuple[Any, Any]:
    size = like.nbytes
    block = gpu.allocate(2 * size)
    try:
        low, high = int(block), int(block) + size
        suffix = TYPES[like.dtype.name][0]
        gpu.call(f"ev_bounds_{suffix}", "PPdQPP", value, error, factor, like.size, low, high)
        found = np.empty(like.shape, like.dtype), np.empty(like.shape, like.dtype)
        for a, at in zip(found, (low, high), strict=True):
            gpu.cuda.memcpy_dtoh(a, at)
        gpu.fill(low, _WIPE, 2 * size)
    finally:
        block.free()
    return found
