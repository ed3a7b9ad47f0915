"""The few parts of an ELF64 image that a cubin reader needs: sections, symbols, strings, relocations.

Every function raises ValueError, struct.error, IndexError or UnicodeDecodeError when the image is damaged;
the reader above turns these into one error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

SHT_SYMTAB = 2
SHT_NOBITS = 8
STT_FUNC = 2


@dataclass(frozen=True)
class Section:
    """One row of the section table; `link` is the index of the section that it belongs with."""

    name: str
    type: int
    offset: int
    size: int
    link: int
    entry_size: int


@dataclass(frozen=True)
class Symbol:
    """One symbol: `kind` is its type (STT_...), `other` its visibility byte, `section` where it is."""

    name: str
    kind: int
    other: int
    section: int


@dataclass(frozen=True)
class Elf:
    """An image and its section table."""

    image: bytes
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def data(self, section: Section | None) -> bytes:
        """A section's bytes; none when it is absent or occupies no space in the file."""
        if section is None or section.type == SHT_NOBITS:
            return b""
        return cut(self.image, section.offset, section.size)

    def symbols(self) -> list[Symbol]:
        """The symbol table, in its order, so that a record's symbol number is an index into it."""
        table = next((s for s in self.sections if s.type == SHT_SYMTAB), None)
        if table is None:
            raise ValueError("it has no symbol table")
        names = self.data(self.sections[table.link])
        found = []
        for name, info, other, section, _, _ in struct.iter_unpack("<IBBHQQ", self.data(table)):
            found.append(Symbol(string(names, name), info & 0xF, other, section))
        return found

    def relocations(self, name: str) -> Iterator[tuple[int, int]]:
        """(offset, symbol number) of each relocation against the section `name`, with addend or without."""
        for offset, info, _ in struct.iter_unpack("<QQq", self.data(self.section(f".rela{name}"))):
            yield offset, info >> 32
        for offset, info in struct.iter_unpack("<QQ", self.data(self.section(f".rel{name}"))):
            yield offset, info >> 32


def open_elf(image: bytes, machine: int) -> Elf:
    """Reads the section table of a little-endian ELF64 image for `machine`."""
    if image[:4] != b"\x7fELF" or image[4:6] != b"\x02\x01":
        raise ValueError("no little-endian ELF64 header")
    found = struct.unpack_from("<H", image, 18)[0]
    if found != machine:
        raise ValueError(f"its machine type is {found}, not {machine}")
    table = struct.unpack_from("<Q", image, 40)[0]
    entry_size, count, names_at = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", image, table + entry_size * i) for i in range(count)]
    names = cut(image, raw[names_at][4], raw[names_at][5])
    return Elf(image, tuple(Section(string(names, r[0]), r[1], r[4], r[5], r[6], r[9]) for r in raw))


def cut(data: bytes, start: int, size: int) -> bytes:
    """`size` bytes from `start`; never fewer."""
    if start + size > len(data):
        raise ValueError("a part lies beyond the end")
    return data[start : start + size]


def string(table: bytes, at: int) -> str:
    """The zero-terminated string at an offset of a string table."""
    return table[at : table.index(b"\0", at)].decode()
