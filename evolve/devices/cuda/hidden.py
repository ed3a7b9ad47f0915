"""Device memory that no kernel can read: it has an address only while somebody of ours looks at it.

References lie there between comparisons. Uploading them for every candidate would take most of its time: the
bounds of 8192 x 8192 floats are 512 MiB.
(CUDA driver API, virtual memory management: an access to an address that is not mapped is a fault.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evolve.devices.cuda.faults import ArrayMemoryError
from evolve.devices.cuda.messages import Array

_WIPE = 0xC5C5C5C5


class HidingError(ArrayMemoryError):
    """The driver does not do it, or there is no memory left."""


class Hidden:
    """Room for the bounds of one output like `like`, with nothing in it yet.

    Raises HidingError where the driver cannot hide memory, or has none left.
    """

    def __init__(self, driver: Any, ordinal: int, like: Array) -> None:
        self._driver = driver
        self.shape, self.dtype = like.shape, like.dtype
        self.nbytes = like.nbytes
        try:
            place = driver.CUmemLocation()
            place.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            place.id = ordinal
            what = driver.CUmemAllocationProp()
            what.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            what.location = place
            self._access = driver.CUmemAccessDesc()
            self._access.location = place
            self._access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
            (page,) = self._must("cuMemGetAllocationGranularity", what, least)
        except AttributeError as e:
            raise HidingError(f"this driver cannot hide memory: {e}") from None
        self._size = -(-2 * max(1, self.nbytes) // int(page)) * int(page)
        (self._handle,) = self._must("cuMemCreate", self._size, what, 0)
        try:
            (self._at,) = self._must("cuMemAddressReserve", self._size, 0, 0, 0)
        except HidingError:
            self._must("cuMemRelease", self._handle)
            raise

    def upload(self, cuda: Any, low: Array, high: Array) -> None:
        """Fills it from the host."""
        with self.mapped() as (a, b):
            if self.nbytes:
                cuda.memcpy_htod(a, np.ascontiguousarray(low))
                cuda.memcpy_htod(b, np.ascontiguousarray(high))
            # A small copy may still be on its way when the call returns, and needs the address.
            cuda.Context.synchronize()

    @contextmanager
    def mapped(self) -> Iterator[tuple[int, int]]:
        """The addresses of the lowest and the highest values, as long as the body runs.

        No kernel of a candidate may run meanwhile.
        """
        self._must("cuMemMap", self._at, self._size, 0, self._handle, 0)
        try:
            self._must("cuMemSetAccess", self._at, self._size, [self._access], 1)
            yield int(self._at), int(self._at) + self.nbytes
        finally:
            self._must("cuMemUnmap", self._at, self._size)

    def free(self) -> None:
        """Overwrites it and gives the memory back: whoever gets it next finds no result in it."""
        with self.mapped() as (at, _):
            self._must("cuMemsetD32", at, _WIPE, self._size // 4)
            self._must("cuCtxSynchronize")
        self._must("cuMemAddressFree", self._at, self._size)
        self._must("cuMemRelease", self._handle)

    def _must(self, name: str, *args: Any) -> tuple[Any, ...]:
        error, *found = getattr(self._driver, name)(*args)
        if int(error) != 0:
            raise HidingError(f"{name}: {error}")
        return tuple(found)
