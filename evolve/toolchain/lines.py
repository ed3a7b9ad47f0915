"""The line table that NVRTC writes with `-lineinfo`: which line of the text an instruction came from.

A DWARF version 2 to 4 line program (DWARF 3, section 6.2), one sequence per kernel. The option does not
change the machine code. What is inlined carries the lines of the function it came from.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolve.toolchain.elf import Elf, cut

LINE_INFO = "-lineinfo"

_SECTION = ".debug_line"
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass(frozen=True)
class _Header:
    """The figures of a line program's prologue."""

    step: int
    line_base: int
    line_range: int
    opcode_base: int
    operand_counts: bytes


class _Reader:
    """Bytes and their position."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def fixed(self, size: int) -> int:
        """An unsigned little-endian number of `size` bytes."""
        value = int.from_bytes(cut(self.data, self.at, size), "little")
        self.at += size
        return value

    def uleb(self) -> int:
        """An unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number in the line table does not end")

    def sleb(self) -> int:
        """A signed LEB128 number."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value


def read_lines(elf: Elf) -> dict[str, tuple[tuple[int, int], ...]]:
    """Per code section, where its lines begin: (byte, line), by byte. Empty without a line table.

    Code that came from another file than the compiled text, the table's first, has line 0. Raises ValueError
    when the table is damaged.
    """
    data = elf.data(elf.section(_SECTION))
    if not data:
        return {}
    symbols = elf.symbols()
    # A sequence's start address is a relocation against its code section, with the bytes themselves zero.
    starts = {
        offset: elf.sections[symbols[symbol].section].name for offset, symbol in elf.relocations(_SECTION)
    }
    found: dict[str, dict[int, int]] = {}
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        end = at + 4 + size
        cut(data, at, end - at)
        _run(data, at + 4, end, starts, found)
        at = end
    return {section: tuple(sorted(rows.items())) for section, rows in found.items()}


def _run(data: bytes, at: int, end: int, starts: dict[int, str], found: dict[str, dict[int, int]]) -> None:
    reader = _Reader(data[:end], at)
    version = reader.fixed(2)
    if not 2 <= version <= 4:
        raise ValueError(f"its line table has version {version}")
    program = reader.fixed(4)
    program += reader.at
    header = _header(reader, version)
    reader.at = program
    address, line, file, section = 0, 1, 1, ""
    while reader.at < end:
        opcode = reader.fixed(1)
        emit = False
        if opcode >= header.opcode_base:
            adjusted = opcode - header.opcode_base
            address += adjusted // header.line_range * header.step
            line += header.line_base + adjusted % header.line_range
            emit = True
        elif opcode == 0:
            size = reader.uleb()
            following = reader.at + size
            kind = reader.fixed(1)
            if kind == _SET_ADDRESS:
                section = starts.get(reader.at, "")
                address = reader.fixed(size - 1)
            elif kind == _END_SEQUENCE:
                address, line, file, section = 0, 1, 1, ""
            reader.at = following
        elif opcode == _COPY:
            emit = True
        elif opcode == _ADVANCE_PC:
            address += reader.uleb() * header.step
        elif opcode == _ADVANCE_LINE:
            line += reader.sleb()
        elif opcode == _SET_FILE:
            file = reader.uleb()
        elif opcode == _CONST_ADD_PC:
            address += (255 - header.opcode_base) // header.line_range * header.step
        elif opcode == _FIXED_ADVANCE:
            address += reader.fixed(2)
        else:
            for _ in range(header.operand_counts[opcode - 1]):
                reader.uleb()
        if emit and section:
            found.setdefault(section, {})[address] = line if file == 1 else 0


def _header(reader: _Reader, version: int) -> _Header:
    step = reader.fixed(1)
    if version >= 4:
        reader.fixed(1)  # operations per instruction word
    reader.fixed(1)  # whether rows begin statements
    base = reader.fixed(1)
    line_range = reader.fixed(1)
    opcode_base = reader.fixed(1)
    if line_range == 0 or opcode_base == 0:
        raise ValueError("its line table has an empty range")
    counts = bytes(reader.fixed(1) for _ in range(opcode_base - 1))
    return _Header(step, base - 256 if base > 127 else base, line_range, opcode_base, counts)
