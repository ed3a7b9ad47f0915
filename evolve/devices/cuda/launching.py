"""Images and launches on the device: prepared calls, and waiting for them no longer than a limit.

PyCUDA launches with cuLaunchKernel, which takes no launch attributes: no launch asks for a cluster of blocks,
and an image that is compiled for one is refused, see `image`. Dynamic shared memory beyond 48 KiB is opted in
to for each function that needs it. How an SM's memory is shared out stays with a function once it is said, so
a module is loaded once for each choice.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScratchArg, scratch_of
from evolve.devices.cuda.faults import BadImageError, KernelTimeoutError
from evolve.devices.cuda.image import has_variables
from evolve.devices.cuda.memory import Gpu, Resident

Call = Callable[[], object]
Pointers = Callable[[str], int]
"""From the name of an array to its address."""
ScratchPointers = Callable[[ScratchArg], int]
"""From scratch memory to its address."""
Carveouts = tuple[tuple[str, int], ...]
"""Kernels whose launches ask for one, in percent."""

KEPT_MODULES = 64
KEPT_SCRATCH = 8
SHARED_WITHOUT_OPT_IN = 48 * 1024
"""Bytes of dynamic shared memory that any function may use."""
_FORMAT = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
_SPIN_S = 0.02


class Images:
    """Loaded modules by image, and scratch memory by what launches need of it.

    An image with variables is loaded afresh each time, see `image`.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._kept: OrderedDict[tuple[bytes, Carveouts], Any] = OrderedDict()
        self._fresh: set[bytes] = set()
        self._scratch: OrderedDict[frozenset[ScratchArg], Resident] = OrderedDict()

    def keeps_variables(self, cubin: bytes) -> bool:
        """Whether every launch needs calls of its own. Raises BadImageError."""
        if not self._is_kept(cubin) and cubin not in self._fresh and has_variables(cubin):
            self._fresh.add(cubin)
        return cubin in self._fresh

    def calls(
        self,
        cubin: bytes,
        launches: Sequence[ConcreteLaunch],
        pointers: Pointers,
        scratch: ScratchPointers | None = None,
    ) -> list[Call]:
        """The launches on those buffers, ready to go, the variables of the image as at the beginning.

        `scratch`: where scratch memory is, if it is not the one that is kept here for such launches.
        Raises BadImageError, ArrayMemoryError, and PyCUDA's errors for launches that the driver refuses at
        once.
        """
        module = self._module(
            cubin, tuple((x.kernel, x.carveout) for x in launches if x.carveout is not None)
        )
        kept = self._scratch_for(launches) if scratch is None else None
        if kept is not None:

            def scratch(a: ScratchArg) -> int:
                return kept.pointer(a.name)

        return [self._call(module, x, pointers, scratch, kept) for x in launches]

    def poison(self, launches: Sequence[ConcreteLaunch]) -> None:
        """Queues it: scratch memory holds nothing that launches before these have left there."""
        scratch = self._scratch_for(launches)
        if scratch is not None:
            for name in scratch.host:
                scratch.poison(name)

    def damage(self, launches: Sequence[ConcreteLaunch]) -> tuple[str, ...]:
        """Scratch memory of these launches with a changed byte around it, which is repaired."""
        scratch = self._scratch_for(launches)
        return scratch.damage(scratch.host)[1] if scratch else ()

    def _scratch_for(self, launches: Sequence[ConcreteLaunch]) -> Resident | None:
        wanted = scratch_of(launches)
        if not wanted:
            return None
        key = frozenset(wanted.values())
        if key not in self._scratch:
            while len(self._scratch) >= KEPT_SCRATCH:
                # Not freed: calls may hold it, and PyCUDA frees what nobody holds.
                self._scratch.popitem(last=False)
            arrays = {n: np.zeros(s.elements, s.numpy) for n, s in sorted(wanted.items())}
            self._scratch[key] = Resident(self.gpu, arrays)
        self._scratch.move_to_end(key)
        return self._scratch[key]

    def _is_kept(self, cubin: bytes) -> bool:
        return any(image == cubin for image, _ in self._kept)

    def _module(self, cubin: bytes, carveouts: Carveouts) -> Any:
        if self.keeps_variables(cubin):
            return self._load(cubin)
        key = (cubin, carveouts)
        module = self._kept.get(key)
        if module is None:
            while len(self._kept) >= KEPT_MODULES:
                self._kept.popitem(last=False)
            module = self._kept[key] = self._load(cubin)
        self._kept.move_to_end(key)
        return module

    def _load(self, cubin: bytes) -> Any:
        try:
            return self.gpu.cuda.module_from_buffer(cubin)
        except self.gpu.cuda.MemoryError:
            raise
        except self.gpu.cuda.Error as e:
            raise BadImageError(str(e)) from e

    def _call(
        self,
        module: Any,
        launch: ConcreteLaunch,
        pointers: Pointers,
        scratch: ScratchPointers | None,
        kept: Resident | None,
    ) -> Call:
        function = module.get_function(launch.kernel)
        if launch.shared_bytes > SHARED_WITHOUT_OPT_IN:
            attribute = self.gpu.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.shared_bytes)
        if launch.carveout is not None:
            attribute = self.gpu.cuda.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT
            function.set_attribute(attribute, launch.carveout)
        formats, values = [], []
        for a in launch.args:
            if isinstance(a, BufferArg):
                formats.append("P")
                values.append(pointers(a.name))
            elif isinstance(a, ScratchArg):
                assert scratch is not None
                formats.append("P")
                values.append(scratch(a))
            else:
                formats.append(_FORMAT[a.dtype])
                values.append(float(a.value) if a.dtype[0] == "f" else int(a.value))  # type: ignore[arg-type]
        function.prepare(formats)
        # Module and scratch memory live only as long as somebody holds them.
        return partial(_launch, (module, kept), function, launch, tuple(values))


def _launch(held: object, function: Any, launch: ConcreteLaunch, values: tuple[Any, ...]) -> None:
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
