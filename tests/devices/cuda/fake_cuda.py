"""A GPU made of numpy arrays, with the part of PyCUDA's interface that the worker uses.

Kernels are Python functions by name; launches happen at once, and what they break is said at the next
synchronisation, as on a GPU. Time is counted, not taken: each launch moves the clock by its kernel's cost.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from evolve.devices.compare import bounds, poisoned, within
from evolve.devices.cuda.helpers import TYPES, helper_text
from evolve.target.limits import occupancy
from evolve.target.profile import load_profile
from evolve.toolchain.agreement import most_threads
from evolve.toolchain.cubin import read_cubin

Kernel = Callable[["Launch"], None]
ILLEGAL_ADDRESS = 700
_PAGE = 1 << 21
_VIEW = {"NUM_REGS": "registers", "SHARED_SIZE_BYTES": "shared_bytes", "LOCAL_SIZE_BYTES": "stack_bytes"}


class BrokenError(Exception):
    """A kernel touched what is not mapped."""


class Launch:
    """What a kernel sees: its arguments, and memory by address."""

    def __init__(
        self, gpu: FakeCuda, args: tuple[Any, ...], state: dict[str, Any], grid: tuple[int, ...]
    ) -> None:
        self.gpu, self.args, self.state, self.grid = gpu, args, state, grid

    def view(self, at: int, count: int, kind: Any = np.float32) -> Any:
        """Elements at an address; raises BrokenError when they are not all mapped."""
        return self.gpu.view(at, count * np.dtype(kind).itemsize).view(kind)


class FakeCuda:
    """Stands for `pycuda.driver`; `FakeCuda.driver` for `cuda.bindings.driver`."""

    class Error(Exception):
        pass

    class MemoryError(Error):
        pass

    class LogicError(Error):
        pass

    class device_attribute:  # noqa: N801
        MULTIPROCESSOR_COUNT = "MULTIPROCESSOR_COUNT"
        CLOCK_RATE = "CLOCK_RATE"
        MEMORY_CLOCK_RATE = "MEMORY_CLOCK_RATE"
        GLOBAL_MEMORY_BUS_WIDTH = "GLOBAL_MEMORY_BUS_WIDTH"
        L2_CACHE_SIZE = "L2_CACHE_SIZE"

    class function_attribute:  # noqa: N801
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
        PREFERRED_SHARED_MEMORY_CARVEOUT = 9

    def __init__(self, kernels: dict[str, Kernel], *, memory: int = 1 << 34, l2: int = 1 << 16) -> None:
        self.kernels = {**HELPERS, **kernels}
        self.costs_us: dict[str, float] = {}
        self.memory, self.l2 = memory, l2
        self.used = 0
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.next = _PAGE
        self.now_us = 0.0
        self.error = 0
        self.hung = False
        self.log: list[str] = []
        self.carveouts: list[tuple[str, int | None]] = []
        self.driver = FakeDriver(self)
        self.Context = self
        self.Event = lambda: FakeEvent(self)

    def init(self) -> None:
        pass

    def Device(self, ordinal: int) -> FakeDevice:  # noqa: N802
        return FakeDevice(self)

    # ---- memory

    def mem_alloc(self, size: int) -> Block:
        if self.used + size > self.memory:
            raise FakeCuda.MemoryError("cuMemAlloc failed: out of memory")
        self.used += size
        at = self.next
        self.next += size + -size % _PAGE + _PAGE
        # Large buffers are the flush's: nothing reads what is in them.
        self.blocks[at] = np.zeros(size, np.uint8)
        return Block(self, at, size)

    def view(self, at: int, size: int) -> Any:
        for base, data in self.blocks.items():
            if base <= at and at + size <= base + len(data):
                return data[at - base : at - base + size]
        raise BrokenError(hex(at))

    def pagelocked_empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def _host(self, at: int, size: int) -> Any:
        """What the host's calls may touch: mapped, and not nothing."""
        self._check()
        if type(at) is not int or size == 0:
            raise FakeCuda.LogicError("invalid argument")
        try:
            return self.view(at, size)
        except BrokenError as e:
            raise FakeCuda.LogicError("invalid argument") from e

    def memset_d8(self, at: int, value: int, count: int) -> None:
        self._host(at, count)[:] = value

    def memset_d32(self, at: int, value: int, count: int) -> None:
        assert at % 4 == 0
        self._host(at, 4 * count).view(np.uint32)[:] = value
        self.log.append("memset")

    def memcpy_htod(self, at: int, source: Any) -> None:
        self._host(at, source.nbytes)[:] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)

    def memcpy_dtoh(self, to: Any, at: int) -> None:
        to.reshape(-1).view(np.uint8)[:] = self._host(at, to.nbytes)

    def memcpy_dtod(self, to: int, source: int, size: int) -> None:
        self._host(to, size)[:] = self._host(source, size)

    # ---- modules and time

    def module_from_buffer(self, image: bytes) -> FakeModule:
        self._check()
        if not image.startswith(b"\x7fELF"):
            raise FakeCuda.LogicError("cuModuleLoadDataEx failed: device kernel image is invalid")
        return FakeModule(self)

    def synchronize(self) -> None:
        self._check()

    def _check(self) -> None:
        if self.error:
            raise FakeCuda.LogicError("something failed, in words that nobody should read")

    def get_driver_version(self) -> int:
        return 13000


class FakeDriver:
    def __init__(self, gpu: FakeCuda) -> None:
        self.gpu = gpu
        self.resets = 0
        self.hidden: dict[int, np.ndarray[Any, Any]] = {}
        self.handles = self.mapped = self.loaded = 0
        self.says: dict[str, int] = {}
        self.profile = load_profile("h200-sxm")

    def cuCtxSynchronize(self) -> tuple[int]:  # noqa: N802
        assert not self.gpu.hung, "this would never return"
        return (self.gpu.error,)

    # ---- memory without an address: a buffer that is only in `gpu`'s reach while it is mapped

    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)
    CUmemLocation = CUmemAllocationProp = CUmemAccessDesc = SimpleNamespace

    def cuMemGetAllocationGranularity(self, what: object, which: int) -> tuple[int, int]:  # noqa: N802
        return 0, 4096

    def cuMemCreate(self, size: int, what: Any, flags: int) -> tuple[int, int]:  # noqa: N802
        if self.gpu.used + size > self.gpu.memory:
            return 2, 0
        self.gpu.used += size
        self.handles += 1
        self.hidden[self.handles] = np.zeros(size, np.uint8)
        return 0, self.handles

    def cuMemAddressReserve(  # noqa: N802
        self, size: int, align: int, at: int, flags: int
    ) -> tuple[int, int]:
        found = self.gpu.next
        self.gpu.next += size + _PAGE
        return 0, found

    def cuMemMap(self, at: int, size: int, offset: int, handle: int, flags: int) -> tuple[int]:  # noqa: N802
        self.gpu.blocks[at] = self.hidden[handle]
        self.mapped += 1
        return (0,)

    def cuMemSetAccess(self, at: int, size: int, access: list[Any], count: int) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuMemUnmap(self, at: int, size: int) -> tuple[int]:  # noqa: N802
        del self.gpu.blocks[at]
        return (0,)

    def cuMemsetD32(self, at: int, word: int, count: int) -> tuple[int]:  # noqa: N802
        self.gpu.memset_d32(at, word, count)
        return (0,)

    def cuMemRelease(self, handle: int) -> tuple[int]:  # noqa: N802
        self.gpu.used -= self.hidden.pop(handle).size
        return (0,)

    def cuMemAddressFree(self, at: int, size: int) -> tuple[int]:  # noqa: N802
        return (0,)

    # ---- what it says of kernels: what their image says, unless `says` says otherwise

    CUfunction_attribute = SimpleNamespace(
        **{
            f"CU_FUNC_ATTRIBUTE_{name}": name
            for name in (*_VIEW, "CONST_SIZE_BYTES", "MAX_THREADS_PER_BLOCK", "MAX_DYNAMIC_SHARED_SIZE_BYTES")
        }
    )

    def cuModuleLoadData(self, image: bytes) -> tuple[int, Any]:  # noqa: N802
        self.loaded += 1
        return 0, read_cubin(image).kernels

    def cuModuleUnload(self, module: Any) -> tuple[int]:  # noqa: N802
        self.loaded -= 1
        return (0,)

    def cuModuleGetFunction(self, module: Any, name: bytes) -> tuple[int, Any]:  # noqa: N802
        self.opted_in = 48 << 10
        return (0, module[name.decode()]) if name.decode() in module else (500, None)

    def cuFuncSetAttribute(self, function: Any, attribute: str, value: int) -> tuple[int]:  # noqa: N802
        assert attribute == "MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.opted_in = value
        return (0,)

    def cuFuncGetAttribute(self, attribute: str, function: Any) -> tuple[int, int]:  # noqa: N802
        if attribute in self.says:
            return 0, self.says[attribute]
        if attribute == "MAX_THREADS_PER_BLOCK":
            return 0, most_threads(function, self.profile) or 0
        return 0, getattr(function, _VIEW[attribute]) if attribute in _VIEW else 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(  # noqa: N802
        self, function: Any, threads: int, dynamic: int
    ) -> tuple[int, int]:
        if dynamic > self.opted_in:
            return 1, 0
        found = occupancy(self.profile, function.registers, function.shared_bytes + dynamic, threads)
        return 0, self.says.get("BLOCKS", found.blocks_per_sm)

    def cuCtxResetPersistingL2Cache(self) -> tuple[int]:  # noqa: N802
        self.resets += 1
        return (0,)


class FakeContext:
    def push(self) -> None:
        pass

    def pop(self) -> None:
        pass


class FakeDevice:
    def __init__(self, gpu: FakeCuda) -> None:
        self.gpu = gpu

    def name(self) -> str:
        return "Fake GPU"

    def retain_primary_context(self) -> FakeContext:
        return FakeContext()

    def pci_bus_id(self) -> str:
        return "0000:00:00.0"

    def compute_capability(self) -> tuple[int, int]:
        return 9, 0

    def total_memory(self) -> int:
        return self.gpu.memory

    def get_attribute(self, name: str) -> int:
        return {"MULTIPROCESSOR_COUNT": 2, "L2_CACHE_SIZE": self.gpu.l2}.get(name, 1000)


class Block:
    def __init__(self, gpu: FakeCuda, at: int, size: int) -> None:
        self.gpu, self.at, self.size = gpu, at, size

    def __int__(self) -> int:
        return self.at

    def __del__(self) -> None:
        # As PyCUDA does: an address alone keeps nothing alive.
        self.free()

    def free(self) -> None:
        if self.gpu.blocks.pop(self.at, None) is not None:
            self.gpu.used -= self.size


class FakeEvent:
    def __init__(self, gpu: FakeCuda) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.gpu._check()
        self.at = self.gpu.now_us
        self.gpu.log.append("event")

    def query(self) -> bool:
        self.gpu._check()
        return not self.gpu.hung

    def time_till(self, end: FakeEvent) -> float:
        return (end.at - self.at) * 1e-3


class FakeModule:
    def __init__(self, gpu: FakeCuda) -> None:
        self.gpu = gpu
        self.state: dict[str, Any] = {}
        self.carveouts: dict[str, int] = {}

    def get_function(self, name: str) -> FakeFunction:
        if name not in self.gpu.kernels:
            raise FakeCuda.LogicError("cuModuleGetFunction failed: named symbol not found")
        return FakeFunction(self, name)


class FakeFunction:
    def __init__(self, module: FakeModule, name: str) -> None:
        self.module, self.name = module, name
        self.format = ""
        self.most_shared = 48 << 10

    def set_attribute(self, attribute: int, value: int) -> None:
        if attribute == FakeCuda.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT:
            # It stays with the function, however often that is asked for.
            self.module.carveouts[self.name] = value
            return
        if value > 200 << 10:
            raise FakeCuda.LogicError("cuFuncSetAttribute failed: invalid argument")
        assert attribute == FakeCuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.most_shared = value

    def prepare(self, formats: list[str]) -> None:
        self.format = "".join(formats)

    def prepared_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], *args: Any, shared_size: int = 0
    ) -> None:
        gpu = self.module.gpu
        gpu._check()
        struct.pack(self.format, *args)
        assert self.format == FORMATS.get(self.name, self.format), f"{self.name} takes {FORMATS[self.name]}"
        if block[0] * block[1] * block[2] > 1024 or shared_size > self.most_shared:
            raise FakeCuda.LogicError("cuLaunchKernel failed: invalid argument")
        gpu.log.append(self.name)
        gpu.carveouts.append((self.name, self.module.carveouts.get(self.name)))
        gpu.now_us += gpu.costs_us.get(self.name, 1.0)
        try:
            gpu.kernels[self.name](Launch(gpu, args, self.module.state, grid))
        except BrokenError:
            gpu.error = ILLEGAL_ADDRESS


# ---- the worker's own kernels, as their texts say


def _mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def digest_of(data: Any, key: int) -> int:
    """What `ev_digest` computes of bytes at an address that is a multiple of 4."""
    words = data[: len(data) // 4 * 4].view(np.uint32).astype(np.uint64)
    tail = data[len(words) * 4 :].astype(np.uint64)
    with np.errstate(over="ignore"):
        base = np.uint64(key)
        a = _mix(words ^ _mix(base + np.uint64(4) * np.arange(len(words), dtype=np.uint64)))
        b = _mix(tail ^ _mix(base + np.arange(4 * len(words), len(data), dtype=np.uint64)))
        return int(a.sum(dtype=np.uint64) + b.sum(dtype=np.uint64))


def _digest(x: Launch) -> None:
    at, size, key, out = x.args
    x.view(out, 1, np.uint64)[0] += np.uint64(digest_of(x.view(at, size, np.uint8).copy(), key))


def _left(x: Launch) -> None:
    at, n, size, word, out = x.args
    x.view(out, 1, np.uint64)[0] += poisoned(x.view(at, n * size, np.uint8).view(f"V{size}"), word).sum()


def _compare(kind: np.dtype[Any]) -> Kernel:
    def run(x: Launch) -> None:
        at, low_at, high_at, n, word, out = x.args
        got, low, high = (x.view(p, n, kind) for p in (at, low_at, high_at))
        wrong = ~within(got, low, high, poisoned(got, word))
        found = x.view(out, 3, np.uint64)
        found[0] = wrong.sum()
        if wrong.any():
            found[1] = np.flatnonzero(wrong)[0]
            found[2:] = np.array([np.inf]).view(np.uint64)

    return run


def _bounds(kind: np.dtype[Any]) -> Kernel:
    def run(x: Launch) -> None:
        value, error, factor, n, low, high = x.args
        a, b = bounds(x.view(value, n, np.float64), factor * x.view(error, n, np.float64), kind)
        x.view(low, n, kind)[:], x.view(high, n, kind)[:] = a, b

    return run


def _formats(text: str) -> dict[str, str]:
    """What each kernel of a text takes, as `struct` has it."""
    code = {"u64": "Q", "unsigned long long": "Q", "unsigned int": "I", "int": "i", "double": "d"}
    found = {}
    for name, params in re.findall(r'extern "C" __global__ void (\w+)\(([^)]*)\)', text):
        types = [re.sub(r"\bconst\b|\w+$", "", p.strip()).strip() for p in params.split(",")]
        found[name] = "".join("P" if "*" in t else code[t] for t in types)
    return found


FORMATS = _formats(helper_text())

HELPERS: dict[str, Kernel] = {
    "ev_read": lambda x: None,
    "ev_empty": lambda x: None,
    "ev_wait": lambda x: None,
    "ev_digest": _digest,
    "ev_left": _left,
    **{f"ev_compare_{s}": _compare(np.dtype(n)) for n, (s, _) in TYPES.items()},
    **{f"ev_bounds_{s}": _bounds(np.dtype(n)) for n, (s, _) in TYPES.items()},
}


def hang(x: Launch) -> None:
    """A kernel that does not end."""
    x.gpu.hung = True


N = 1000
"""Elements of the arrays x and y of the kernels below."""


def twice(x: Launch) -> None:
    """The honest one: y = 2 x."""
    a, b = x.args
    x.view(b, N)[:] = 2 * x.view(a, N)


def stray(x: Launch) -> None:
    """Writes far away."""
    x.view(x.args[1] + (1 << 45), 1)[:] = 0.0


def memory(x: Launch) -> None:
    """Wants more local memory than there is."""
    raise FakeCuda.MemoryError("cuLaunchKernel failed: out of memory")
