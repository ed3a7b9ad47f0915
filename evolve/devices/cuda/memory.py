"""Arrays on the device, each between guard bands, in one block of memory without a byte unaccounted for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from evolve.codegen.launch import ScratchArg
from evolve.devices.cuda.faults import ArrayMemoryError
from evolve.devices.cuda.helpers import BLOCK, TYPES
from evolve.devices.cuda.hidden import Hidden
from evolve.devices.cuda.messages import Array, Compared

GUARD_BYTES = 4096
"""On each side of every array (integrity rule: at least 4 KiB)."""
ALIGNMENT = 256
_PAGE = 2 << 20
"""The driver hands out memory in pages of this size; a block that ends within one would leave slack."""
_GUARD_WORD = 0xC5C5C5C5
RESULTS = 256
"""Digests that are computed before they are fetched."""
Bounds = tuple[Array, Array] | Hidden
"""The lowest and highest right values of an output: on the host, or hidden on the device."""


@dataclass(frozen=True)
class Gpu:
    """What the worker's parts share: PyCUDA's driver module, cuda-bindings' one, and the helper kernels.

    `key` makes digests unpredictable to a kernel; `results` is memory for RESULTS of them;
    `word` is what outputs are filled with.
    """

    cuda: Any
    driver: Any
    helpers: Any
    blocks: int
    key: int
    results: Any
    word: int
    _prepared: dict[str, Any] = field(default_factory=dict, repr=False)

    def call(self, name: str, formats: str, *args: int | float, blocks: int | None = None) -> None:
        """Launches a helper, on as many blocks as fill the device if not told; `formats` as in `struct`."""
        function = self._prepared.get(name)
        if function is None:
            function = self._prepared[name] = self.helpers.get_function(name)
            function.prepare(list(formats))
        function.prepared_call((blocks or self.blocks, 1, 1), (BLOCK, 1, 1), *args)

    def allocate(self, size: int) -> Any:
        """Raises ArrayMemoryError when there is not so much."""
        try:
            return self.cuda.mem_alloc(max(size, 1))
        except self.cuda.MemoryError as e:
            raise ArrayMemoryError(f"{size / 2**20:.0f} MiB for arrays: {e}") from e

    def fill(self, at: int, word: int, size: int) -> None:
        """Repeats the bytes of a 32-bit word, `at` being a multiple of 4."""
        if size >= 4:
            self.cuda.memset_d32(at, word, size // 4)
        for i in range(size - size % 4, size):
            self.cuda.memset_d8(at + i, (word >> (8 * (i % 4))) & 0xFF, 1)

    def digests(self, regions: Iterable[tuple[int, int]]) -> list[int]:
        """A keyed digest of each (address, bytes)."""
        wanted = list(regions)
        found: list[int] = []
        # One synchronisation for all of them, not one for each.
        for start in range(0, len(wanted), RESULTS):
            some = wanted[start : start + RESULTS]
            self.cuda.memset_d8(int(self.results), 0, 8 * len(some))
            for i, (at, size) in enumerate(some):
                if size:
                    self.call("ev_digest", "PQQP", at, size, self.key, int(self.results) + 8 * i)
            got = np.zeros(len(some), np.uint64)
            self.cuda.memcpy_dtoh(got, int(self.results))
            found += [int(x) for x in got]
        return found

    def left(self, at: int, like: Array) -> int:
        """How many elements of an array at that address still hold the poison."""
        if not like.size:
            return 0
        self.cuda.memset_d8(int(self.results), 0, 8)
        self.call("ev_left", "PQiIP", at, like.size, like.itemsize, self.word, int(self.results))
        got = np.zeros(1, np.uint64)
        self.cuda.memcpy_dtoh(got, int(self.results))
        return int(got[0])

    def compare(self, at: int, bounds: Bounds) -> Compared:
        """Compares an array on the device with its bounds, which a kernel can reach only meanwhile.

        Hidden ones are mapped for it. Others come from the host, and the memory that held them is overwritten
        before it is given back, so nothing can find them in it.
        """
        if isinstance(bounds, Hidden):
            with bounds.mapped() as (a, b):
                return self._compare(at, bounds.dtype, prod(bounds.shape), a, b)
        low, high = bounds
        size = low.nbytes
        block = self.allocate(2 * size)
        a, b = int(block), int(block) + size
        try:
            if size:
                self.cuda.memcpy_htod(a, np.ascontiguousarray(low))
                self.cuda.memcpy_htod(b, np.ascontiguousarray(high))
            found = self._compare(at, low.dtype, low.size, a, b)
            self.fill(a, _GUARD_WORD, 2 * size)
        finally:
            block.free()
        return found

    def _compare(self, at: int, dtype: np.dtype[Any], count: int, low: int, high: int) -> Compared:
        """Waits until it is done."""
        got = np.array([0, 2**64 - 1, 0], np.uint64)
        out = int(self.results)
        self.cuda.memcpy_htod(out, got)
        self.call(f"ev_compare_{TYPES[dtype.name][0]}", "PPPQIP", at, low, high, count, self.word, out)
        self.cuda.memcpy_dtoh(got, out)
        return Compared(int(got[0]), int(got[1]), float(got[2:].view(np.float64)[0]))


class Resident:
    """A set of arrays on the device with its host original. Raises ArrayMemoryError when it does not fit."""

    def __init__(self, gpu: Gpu, arrays: Mapping[str, Array], shift: int = 0) -> None:
        self.gpu = gpu
        self.host = dict(arrays)
        self.offset: dict[str, int] = {}
        at = shift + GUARD_BYTES
        self.gaps: list[tuple[int, int]] = []
        last = 0
        for name, a in self.host.items():
            self.offset[name] = at
            self.gaps.append((last, at - last))
            last = at + a.nbytes
            at = last + GUARD_BYTES
            at += -at % ALIGNMENT
        self.size = at + -at % _PAGE
        self.gaps.append((last, self.size - last))
        self.block = gpu.allocate(self.size)
        self.pristine: dict[str, Any] = {}
        self._fill_gaps(range(len(self.gaps)))
        for name in self.host:
            self.upload(name)
        self.known = dict(zip(self.host, gpu.digests(map(self.region, self.host)), strict=True))
        self._gap_digests = gpu.digests(self._gaps())

    def pointer(self, name: str) -> int:
        return int(self.block) + self.offset[name]

    def region(self, name: str) -> tuple[int, int]:
        """Address and bytes of an array."""
        return self.pointer(name), self.host[name].nbytes

    def reset(self, name: str) -> None:
        """Contents as sent."""
        self.place(self, name)
        if self.gpu.digests([self.region(name)])[0] != self.known[name]:
            self._forget(name)
            self.place(self, name)

    def place(self, other: Resident, name: str) -> None:
        """The contents that a set of the same sizes was sent, here."""
        self._copy(self.pointer(name), other.original(name), self.host[name].nbytes)

    def original(self, name: str) -> int:
        """The address of a copy of the contents as sent, which no kernel is given."""
        if name not in self.pristine:
            size = self.host[name].nbytes
            self.upload(name)
            self.pristine[name] = self.gpu.allocate(size)
            self._copy(int(self.pristine[name]), self.pointer(name), size)
        return int(self.pristine[name])

    def _forget(self, name: str) -> None:
        self.pristine.pop(name).free()

    def poison(self, name: str) -> None:
        self.gpu.fill(self.pointer(name), self.gpu.word, self.host[name].nbytes)

    def fetch(self, name: str) -> Array:
        out = np.empty_like(self.host[name], order="C", subok=False)
        if out.nbytes:
            self.gpu.cuda.memcpy_dtoh(out, self.pointer(name))
        return out

    def damage(self, written: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Inputs that changed (all but `written`), arrays with a changed byte around them; both are repaired.

        A gap belongs to the array before it, the first one to the first array. The copies that arrays are
        restored from count as inputs.
        """
        inputs = [n for n in self.host if n not in set(written)]
        copies = list(self.pristine)
        regions = [(int(self.pristine[n]), self.host[n].nbytes) for n in copies]
        found = self.gpu.digests([*map(self.region, inputs), *regions, *self._gaps()])
        bad = [d != self.known[n] for n, d in zip((*inputs, *copies), found, strict=False)]
        for name, is_bad in zip(copies, bad[len(inputs) :], strict=True):
            if is_bad:
                self._forget(name)
        changed = tuple(dict.fromkeys(n for n, b in zip((*inputs, *copies), bad, strict=True) if b))
        gaps = [i for i, d in enumerate(found[len(bad) :]) if d != self._gap_digests[i]]
        for name in changed:
            self.upload(name)
        self._fill_gaps(gaps)
        names = list(self.host)
        return changed, tuple(dict.fromkeys(names[max(0, i - 1)] for i in gaps))

    def free(self) -> None:
        self.block.free()
        for a in self.pristine.values():
            a.free()

    def _gaps(self) -> list[tuple[int, int]]:
        return [(int(self.block) + at, size) for at, size in self.gaps]

    def _fill_gaps(self, which: Iterable[int]) -> None:
        for i in which:
            at, size = self.gaps[i]
            start = int(self.block) + at
            head = min(size, -start % 4)
            for k in range(head):
                self.gpu.cuda.memset_d8(start + k, _GUARD_WORD & 0xFF, 1)
            self.gpu.fill(start + head, _GUARD_WORD, size - head)

    def upload(self, name: str) -> None:
        if self.host[name].nbytes:
            self.gpu.cuda.memcpy_htod(self.pointer(name), np.ascontiguousarray(self.host[name]))

    def _copy(self, to: int, source: int, size: int) -> None:
        if size:
            self.gpu.cuda.memcpy_dtod(to, source, size)


class Slot:
    """Memory for one launch of a batch, and for the scratch memory of each sequence in it.

    Raises ArrayMemoryError.
    """

    def __init__(self, gpu: Gpu, like: Resident, scratch: Iterable[ScratchArg] = ()) -> None:
        self.gpu = gpu
        self.offset: dict[str | ScratchArg, int] = {}
        self.scratch = tuple(scratch)
        sizes: dict[str | ScratchArg, int] = {n: a.nbytes for n, a in like.host.items()}
        sizes |= {s: s.nbytes for s in self.scratch}
        at = 0
        for name, size in sizes.items():
            self.offset[name] = at
            at += size + -size % ALIGNMENT
        self.block = gpu.allocate(at)

    def pointer(self, name: str | ScratchArg) -> int:
        return int(self.block) + self.offset[name]

    def fill(self, contents: Resident, outputs: Sequence[str], inouts: Sequence[str]) -> None:
        """As before any launch: inputs as sent, outputs and scratch memory poisoned."""
        for s in self.scratch:
            self.gpu.fill(self.pointer(s), self.gpu.word, s.nbytes)
        for name, a in contents.host.items():
            if name in outputs and name not in inouts:
                self.gpu.fill(self.pointer(name), self.gpu.word, a.nbytes)
            elif a.nbytes:
                self.gpu.cuda.memcpy_dtod(self.pointer(name), contents.original(name), a.nbytes)

    def free(self) -> None:
        self.block.free()
