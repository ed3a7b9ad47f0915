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

_MACHINE_CUDA = 190
_SHT_SYMTAB = 2
_SHT_NOBITS = 8
_STO_ENTRY = 0x10
_STT_FUNC = 2

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
    block from `__launch_bounds__`, None without; `param_bytes` of its arguments; `code` its machine code.
    """

    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    max_threads: int | None
    param_bytes: int
    code: bytes = field(repr=False)


@dataclass(frozen=True)
class Cubin:
    """The kernels of one image by (mangled) name; `sm` is the target as a number, 90 for `sm_90`."""

    sm: int
    kernels: dict[str, KernelResources]


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    offset: int
    size: int
    link: int
    entry_size: int
    index: int


def read_cubin(image: bytes) -> Cubin:
    """Reads an image as NVRTC or nvcc makes it. Raises EvolveError `bad-cubin` when it is none or is cut."""
    try:
        return _read(image)
    except (struct.error, UnicodeDecodeError, IndexError, KeyError, ValueError) as error:
        raise _bad(f"its tables are damaged ({error})") from error


def _bad(why: str) -> EvolveError:
    return EvolveError("bad-cubin", f"this is not a readable cubin: {why}")


def _read(image: bytes) -> Cubin:
    if image[:4] != b"\x7fELF" or image[4:6] != b"\x02\x01":
        raise _bad("no little-endian ELF64 header")
    machine, flags = struct.unpack_from("<H", image, 18)[0], struct.unpack_from("<I", image, 48)[0]
    if machine != _MACHINE_CUDA:
        raise _bad(f"its machine type is {machine}, not {_MACHINE_CUDA}")
    abi = image[8]
    # ABI 8 (CUDA 13) moved the target from the lowest byte to the second.
    sm = (flags >> 8) & 0xFF if abi >= 8 else flags & 0xFF
    sections = _sections(image)
    by_name = {section.name: section for section in sections}
    symtab = next(s for s in sections if s.type == _SHT_SYMTAB)
    names = dict(_kernel_symbols(image, symtab, sections[symtab.link]))
    totals = _totals(image, by_name.get(".nv.info"))
    kernels = {}
    for index, name in names.items():
        text = by_name[f".text.{name}"]
        own = _records(image, by_name.get(f".nv.info.{name}"))
        shared = by_name.get(f".nv.shared.{name}")
        shared_bytes = shared.size if shared is not None else 0
        if shared is not None and sm >= _SYSTEM_SHARED_COUNTED_FROM:
            shared_bytes = max(0, shared_bytes - _SYSTEM_SHARED_BYTES)
        kernels[name] = KernelResources(
            name=name,
            registers=totals[_REGISTERS, index],
            shared_bytes=shared_bytes,
            stack_bytes=max(totals.get((_FRAME_SIZE, index), 0), totals.get((_MIN_STACK_SIZE, index), 0)),
            max_threads=_max_threads(own),
            param_bytes=_short(own.get(_PARAM_BYTES)),
            code=_bytes(image, text),
        )
    return Cubin(sm, kernels)


def _sections(image: bytes) -> list[_Section]:
    table = struct.unpack_from("<Q", image, 40)[0]
    entry_size, count, names_at = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", image, table + entry_size * index) for index in range(count)]
    names = _slice(image, raw[names_at][4], raw[names_at][5])
    return [
        _Section(_string(names, r[0]), r[1], r[4], r[5], r[6], r[9], index) for index, r in enumerate(raw)
    ]


def _kernel_symbols(image: bytes, symtab: _Section, strtab: _Section) -> Iterator[tuple[int, str]]:
    names = _bytes(image, strtab)
    table = _bytes(image, symtab)
    for index in range(symtab.size // symtab.entry_size):
        name, info, other = struct.unpack_from("<IBB", table, index * symtab.entry_size)
        if info & 0xF == _STT_FUNC and other & _STO_ENTRY:
            yield index, _string(names, name)


def _totals(image: bytes, section: _Section | None) -> dict[tuple[int, int], int]:
    """(attribute, symbol index) to value, of the records of `.nv.info` that carry such a pair."""
    found = {}
    for attribute, payload in _walk(image, section):
        if attribute in (_REGISTERS, _FRAME_SIZE, _MIN_STACK_SIZE):
            symbol, value = struct.unpack("<II", payload)
            found[attribute, symbol] = value
    return found


def _records(image: bytes, section: _Section | None) -> dict[int, bytes]:
    return dict(_walk(image, section))


def _walk(image: bytes, section: _Section | None) -> Iterator[tuple[int, bytes]]:
    """Records are a format byte, an attribute byte, and two bytes: the value or, in format 4, its size."""
    if section is None:
        return
    data = _bytes(image, section)
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            yield attribute, _slice(data, at, value)
            at += value
        else:
            yield attribute, struct.pack("<H", value)


def _max_threads(records: dict[int, bytes]) -> int | None:
    payload = records.get(_REQUIRED_THREADS) or records.get(_MAX_THREADS)
    if payload is None:
        return None
    x, y, z = struct.unpack("<III", payload)
    return int(x * y * z)


def _short(payload: bytes | None) -> int:
    return int(struct.unpack("<H", payload)[0]) if payload is not None else 0


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def _bytes(image: bytes, section: _Section) -> bytes:
    return b"" if section.type == _SHT_NOBITS else _slice(image, section.offset, section.size)


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise ValueError("a part lies beyond the end")
    return data[start : start + size]
