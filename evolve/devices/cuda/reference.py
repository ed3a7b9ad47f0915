"""The float64 reference on the GPU: its kernels, then the bounds of each output, hidden or fetched.

It runs before any candidate's launch or after, never beside one, and its arrays are overwritten before their
memory is given back: no candidate finds a result there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evolve.devices.cuda.helpers import TYPES
from evolve.devices.cuda.hidden import Hidden
from evolve.devices.cuda.launching import Images, wait
from evolve.devices.cuda.memory import Bounds, Gpu, Resident
from evolve.devices.cuda.messages import Array, Refer

_WIPE = 0xC5C5C5C5
Room = Callable[[Array], Hidden | None]


def refer(r: Refer, gpu: Gpu, images: Images, on: Resident, room: Room) -> dict[str, Bounds]:
    """Carries out a Refer; the bounds are written with numpy.save, or returned if they are to be kept.

    `room` makes room on the device for those of one output, if it can. Raises KernelTimeoutError,
    ArrayMemoryError, PyCUDA's errors and OSError.
    """
    held: dict[str, tuple[Any, int]] = {}
    kept: dict[str, Bounds] = {}
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
            like, at = on.host[name], (pointers[value], pointers[error])
            hidden = room(like) if r.keep else None
            if hidden is not None:
                with hidden.mapped() as (low_at, high_at):
                    _compute(gpu, at, like, r.factor, (low_at, high_at))
                    gpu.cuda.Context.synchronize()
                kept[name] = hidden
                continue
            low, high = _bounds(gpu, at, like, r.factor)
            if r.keep:
                kept[name] = low, high
            else:
                np.save(low_path, low)
                np.save(high_path, high)
    except BaseException:
        for one in kept.values():
            if isinstance(one, Hidden):
                one.free()
        raise
    finally:
        for block, size in held.values():
            gpu.fill(int(block), _WIPE, size)
            block.free()
    return kept


def _compute(gpu: Gpu, at: tuple[int, int], like: Array, factor: float, to: tuple[int, int]) -> None:
    gpu.call(f"ev_bounds_{TYPES[like.dtype.name][0]}", "PPdQPP", *at, factor, like.size, *to)


def _bounds(gpu: Gpu, at: tuple[int, int], like: Array, factor: float) -> tuple[Array, Array]:
    size = like.nbytes
    block = gpu.allocate(2 * size)
    try:
        low, high = int(block), int(block) + size
        _compute(gpu, at, like, factor, (low, high))
        found = np.empty(like.shape, like.dtype), np.empty(like.shape, like.dtype)
        for a, place in zip(found, (low, high), strict=True):
            gpu.cuda.memcpy_dtoh(a, place)
        gpu.fill(low, _WIPE, 2 * size)
    finally:
        block.free()
    return found
