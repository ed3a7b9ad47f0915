"""Reads what a cubin says about its kernels: registers, shared memory, stack, launch bounds, code.

A cubin is a little-endian ELF64 image of machine type 190. Each kernel `k` has a section `.text.k` with its
code, `.nv.shared.k` with its static shared memory, and `.nv.info.k` with attribute records; the file's
`.nv.info` holds the records that name a kernel by its symbol. The record numbers are those `cuobjdump -elf`
prints (EIATTR_...). Nothing here runs another program.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from evolve.ir.errors import EvolveError
from evolve.toolchain.elf import STT_FUNC, Elf, Section, cut, open_elf
from evolve.toolchain.lines import read_lines

_MACHINE_CUDA = 190
_STO_ENTRY = 0x10

_VARIABLES = ".nv.constant3"  # the bank of `__constant__` variables; arguments are in bank 0

_MAX_THREADS = 0x05
_REQUIRED_THREADS = 0x10
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_PARAM_BYTES = 0x19
_REGISTERS = 0x2F

# From compute capability 9.0 the linker counts the kilobyte that the system keeps per block in the kernel's
# shared section; before, it is kept as well but not counted there.
_SYSTEM_SHARED_BYTES = 1024
_SYSTEM_SHARED_COUNTED_FROM = 90


@dataclass(frozen=True)
class KernelResources:
    """What one kernel asks of an SM, and its code.

    `registers` per thread; `shared_bytes` static, per block, without the kilobyte that the system reserves;
    `stack_bytes` of local memory per thread (spills and arrays that are not in registers); `max_threads` per
    block from `__launch_bounds__`, None without; `param_bytes` of its arguments; `code` its machine code;
    `lines` where its lines begin, as (byte in the code, line of the text or 0 for another file's), empty
    without `-lineinfo`; `constant_bytes` of the image's `__constant__` variables, which its kernels share.
    """

    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    max_threads: int | None
    param_bytes: int
    code: bytes = field(repr=False)
    lines: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    constant_bytes: int = 0


@dataclass(frozen=True)
class Cubin:
    """The kernels of one image by (mangled) name; `sm` is the target as a number, 90 for `sm_90`."""

    sm: int
    kernels: dict[str, KernelResources]


def read_cubin(image: bytes) -> Cubin:
    """Reads an image as NVRTC or nvcc makes it. Raises EvolveError `bad-cubin` when it is none or is cut."""
    try:
        return _read(image)
    except (struct.error, UnicodeDecodeError, IndexError, KeyError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else "its tables are damaged"
        raise EvolveError("bad-cubin", f"this is not a readable cubin: {why}") from error


def _read(image: bytes) -> Cubin:
    elf = open_elf(image, _MACHINE_CUDA)
    flags = struct.unpack_from("<I", image, 48)[0]
    # ABI 8 (CUDA 13) moved the target from the lowest byte to the second.
    sm = (flags >> 8) & 0xFF if image[8] >= 8 else flags & 0xFF
    totals = _totals(elf)
    lines = read_lines(elf)
    constants = elf.section(_VARIABLES)
    kernels = {}
    for index, symbol in enumerate(elf.symbols()):
        if symbol.kind != STT_FUNC or not symbol.other & _STO_ENTRY:
            continue
        name = symbol.name
        text = elf.section(f".text.{name}")
        if text is None:
            raise ValueError(f"the code of {name} is missing")
        own = dict(records(elf, elf.section(f".nv.info.{name}")))
        kernels[name] = KernelResources(
            name=name,
            registers=totals[_REGISTERS, index],
            shared_bytes=_shared(elf.section(f".nv.shared.{name}"), sm),
            stack_bytes=max(totals.get((_FRAME_SIZE, index), 0), totals.get((_MIN_STACK_SIZE, index), 0)),
            max_threads=_max_threads(own),
            param_bytes=_short(own.get(_PARAM_BYTES)),
            code=elf.data(text),
            lines=lines.get(text.name, ()),
            constant_bytes=constants.size if constants is not None else 0,
        )
    return Cubin(sm, kernels)


def _shared(section: Section | None, sm: int) -> int:
    if section is None:
        return 0
    return max(0, section.size - (_SYSTEM_SHARED_BYTES if sm >= _SYSTEM_SHARED_COUNTED_FROM else 0))


def _totals(elf: Elf) -> dict[tuple[int, int], int]:
    """(attribute, symbol number) to value, of the records of `.nv.info` that carry such a pair."""
    found = {}
    for attribute, payload in records(elf, elf.section(".nv.info")):
        if attribute in (_REGISTERS, _FRAME_SIZE, _MIN_STACK_SIZE):
            symbol, value = struct.unpack("<II", payload)
            found[attribute, symbol] = value
    return found


def records(elf: Elf, section: Section | None) -> Iterator[tuple[int, bytes]]:
    """The attributes in a section `.nv.info...` with their payloads.

    Records are a format byte, an attribute byte, and two bytes: the value or, in format 4, its size."""
    data = elf.data(section)
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            yield attribute, cut(data, at, value)
            at += value
        else:
            yield attribute, struct.pack("<H", value)


def _max_threads(own: dict[int, bytes]) -> int | None:
    payload = own.get(_REQUIRED_THREADS) or own.get(_MAX_THREADS)
    if payload is None:
        return None
    x, y, z = struct.unpack("<III", payload)
    return int(x * y * z)


def _short(payload: bytes | None) -> int:
    return int(struct.unpack("<H", payload)[0]) if payload is not None else 0
