"""Images and launches on the device: prepared calls, and waiting for them no longer than a limit.

PyCUDA launches with cuLaunchKernel, which takes no launch attributes: no launch asks for a cluster of blocks,
and an image that is compiled for one is refused, see `image`. Dynamic shared memory beyond 48 KiB is opted in
to for each function that needs it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda.faults import BadImageError, KernelTimeoutError
from evolve.devices.cuda.image import has_variables
from evolve.devices.cuda.memory import Gpu

Call = Callable[[], object]
Pointers = Callable[[str], int]
"""From the name of an array to its address."""

KEPT_MODULES = 64
SHARED_WITHOUT_OPT_IN = 48 * 1024
"""Bytes of dynamic shared memory that any function may use."""
_FORMAT = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
_SPIN_S = 0.02


class Images:
    """Loaded modules by image. One with variables is loaded afresh each time, see `image`."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._fresh: set[bytes] = set()

    def keeps_variables(self, cubin: bytes) -> bool:
        """Whether every launch needs calls of its own. Raises BadImageError."""
        if cubin not in self._kept and cubin not in self._fresh and has_variables(cubin):
            self._fresh.add(cubin)
        return cubin in self._fresh

    def calls(self, cubin: bytes, launches: Sequence[ConcreteLaunch], pointers: Pointers) -> list[Call]:
        """The launches on those buffers, ready to go, the variables of the image as at the beginning.

        Raises BadImageError, and PyCUDA's errors for launches that the driver refuses at once.
        """
        module = self._module(cubin)
        return [self._call(module, x, pointers) for x in launches]

    def _module(self, cubin: bytes) -> Any:
        if self.keeps_variables(cubin):
            return self._load(cubin)
        module = self._kept.get(cubin)
        if module is None:
            while len(self._kept) >= KEPT_MODULES:
                self._kept.popitem(last=False)
            module = self._kept[cubin] = self._load(cubin)
        self._kept.move_to_end(cubin)
        return module

    def _load(self, cubin: bytes) -> Any:
        try:
            return self.gpu.cuda.module_from_buffer(cubin)
        except self.gpu.cuda.MemoryError:
            raise
        except self.gpu.cuda.Error as e:
            raise BadImageError(str(e)) from e

    def _call(self, module: Any, launch: ConcreteLaunch, pointers: Pointers) -> Call:
        function = module.get_function(launch.kernel)
        if launch.shared_bytes > SHARED_WITHOUT_OPT_IN:
            attribute = self.gpu.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.shared_bytes)
        formats, values = [], []
        for a in launch.args:
            if isinstance(a, BufferArg):
                formats.append("P")
                values.append(pointers(a.name))
            else:
                formats.append(_FORMAT[a.dtype])
                values.append(float(a.value) if a.dtype[0] == "f" else int(a.value))  # type: ignore[arg-type]
        function.prepare(formats)
        # The module is kept alive by its functions only as long as somebody holds it.
        return partial(_launch, module, function, launch, tuple(values))


def _launch(module: Any, function: Any, launch: ConcreteLaunch, values: tuple[Any, ...]) -> None:
    function.prepared_call(launch.grid, launch.block, *values, shared_size=launch.shared_bytes)


def wait(event: Any, limit_s: float) -> None:
    """Until an event has happened. Raises KernelTimeoutError, or PyCUDA's error of what came before it."""
    begin = time.monotonic()
    while not event.query():
        spent = time.monotonic() - begin
        if spent > limit_s:
            raise KernelTimeoutError(limit_s)
        if spent > _SPIN_S:
            time.sleep(0.0005)
