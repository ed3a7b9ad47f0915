"""Just enough ELF64 (little-endian) to read sections, undefined symbols and the DWARF line table."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section: `offset` and `size` in the file, `link` as in the header."""

    name: str
    type: int
    offset: int
    size: int
    link: int


def sections(data: bytes) -> list[Section]:
    """All section headers of an ELF64 file. Raises ValueError for anything else."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 file")
    shoff = struct.unpack_from("<Q", data, 40)[0]
    entsize, count, strndx = struct.unpack_from("<HHH", data, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * entsize) for i in range(count)]
    names = raw[strndx][4]
    return [Section(_cstring(data, names + r[0]), r[1], r[4], r[5], r[6]) for r in raw]


def _cstring(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "replace")


def undefined_symbols(data: bytes) -> list[str]:
    """Names an object file needs from elsewhere."""
    out = []
    all_sections = sections(data)
    for s in all_sections:
        if s.type != 2:  # SHT_SYMTAB
            continue
        strings = all_sections[s.link].offset
        for at in range(s.offset + 24, s.offset + s.size, 24):
            name, _info, _other, shndx = struct.unpack_from("<IBBH", data, at)
            if shndx == 0 and name:
                out.append(_cstring(data, strings + name))
    return out


def runs_at_load(data: bytes) -> list[str]:
    """What an object file would run before anyone calls it: its initialisers (entries), resolvers."""
    out = []
    all_sections = sections(data)
    for s in all_sections:
        if (
            s.name.startswith((".init_array", ".preinit_array", ".ctors")) and s.type != 4
        ):  # not its relocations
            out += [s.name] * (s.size // 8)
        if s.name in (".init", ".fini") and s.size:
            out.append(s.name)
        if s.type == 2:
            strings = all_sections[s.link].offset
            for at in range(s.offset + 24, s.offset + s.size, 24):
                name, info, _other, shndx = struct.unpack_from("<IBBH", data, at)
                symbol = _cstring(data, strings + name)
                if info & 15 == 10 or (symbol in ("_init", "_fini") and shndx):  # STT_GNU_IFUNC
                    out.append(symbol)
    return out


class LineTable:
    """Address to (file, line), from DWARF 2 to 5 `.debug_line` of a linked file."""

    def __init__(self, data: bytes) -> None:
        self._rows: list[tuple[int, int, str]] = []
        found = {s.name: s for s in sections(data)}
        if ".debug_line" not in found:
            return
        self._line_str = self._slice(data, found.get(".debug_line_str"))
        self._str = self._slice(data, found.get(".debug_str"))
        debug = self._slice(data, found[".debug_line"])
        at = 0
        while at + 4 <= len(debug):
            length = struct.unpack_from("<I", debug, at)[0]
            if length >= 0xFFFFFFF0:
                break
            self._unit(debug, at + 4, at + 4 + length)
            at += 4 + length
        self._rows.sort(key=lambda r: r[0])
        self._addresses = [r[0] for r in self._rows]

    @staticmethod
    def _slice(data: bytes, s: Section | None) -> bytes:
        return data[s.offset : s.offset + s.size] if s else b""

    def lookup(self, address: int, skip: tuple[str, ...] = ()) -> tuple[str, int] | None:
        """File and line of the instruction at `address`, None when unknown.

        Code inlined from a file that ends in one of `skip` takes the line of the code before it, which is
        its caller's: the line table alone does not say where a function was inlined.
        """
        if not self._rows:
            return None
        i = bisect_right(self._addresses, address) - 1
        while i >= 0:
            _, line, file = self._rows[i]
            if line == 0:
                return None
            if not file.endswith(skip):
                return file, line
            i -= 1
        return None

    def _unit(self, d: bytes, at: int, end: int) -> None:
        version = struct.unpack_from("<H", d, at)[0]
        at += 2
        if version >= 5:
            at += 2  # address size, segment selector size
        header_length = struct.unpack_from("<I", d, at)[0]
        at += 4
        program = at + header_length
        min_inst = d[at]
        at += 1
        if version >= 4:
            at += 1  # operations per instruction: 1 on the machines we run on
        at += 1  # default_is_stmt
        line_base = struct.unpack_from("<b", d, at)[0]
        line_range, opcode_base = d[at + 1], d[at + 2]
        at += 3
        lengths = d[at : at + opcode_base - 1]
        at += opcode_base - 1
        files = self._files5(d, at) if version >= 5 else self._files4(d, at)
        self._run(d, program, end, min_inst, line_base, line_range, opcode_base, lengths, files)

    def _files4(self, d: bytes, at: int) -> list[str]:
        while d[at]:
            at = d.index(b"\0", at) + 1
        at += 1
        files = [""]
        while d[at]:
            stop = d.index(b"\0", at)
            files.append(d[at:stop].decode("utf-8", "replace"))
            at = stop + 1
            for _ in range(3):
                _, at = _uleb(d, at)
        return files

    def _files5(self, d: bytes, at: int) -> list[str]:
        out: list[str] = []
        for _table in range(2):
            count = d[at]
            at += 1
            formats = []
            for _ in range(count):
                content, at = _uleb(d, at)
                form, at = _uleb(d, at)
                formats.append((content, form))
            entries, at = _uleb(d, at)
            out = []
            for _ in range(entries):
                name = ""
                for content, form in formats:
                    value, at = self._form(d, at, form)
                    if content == 1:
                        name = str(value)
                out.append(name)
        return out

    def _form(self, d: bytes, at: int, form: int) -> tuple[str | int, int]:
        if form == 0x08:  # string
            stop = d.index(b"\0", at)
            return d[at:stop].decode("utf-8", "replace"), stop + 1
        if form in (0x0E, 0x1F):  # strp, line_strp
            offset = struct.unpack_from("<I", d, at)[0]
            table = self._str if form == 0x0E else self._line_str
            return _cstring(table, offset), at + 4
        if form == 0x0F:  # udata
            return _uleb(d, at)
        sizes = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
        return 0, at + sizes[form]

    def _run(
        self, d: bytes, at: int, end: int, min_inst: int, line_base: int, line_range: int,
        opcode_base: int, lengths: bytes, files: list[str],
    ) -> None:  # fmt: skip
        address, line, file = 0, 1, 1
        rows = self._rows

        def emit(value: int) -> None:
            rows.append((address, value, files[file] if file < len(files) else ""))

        while at < end:
            op = d[at]
            at += 1
            if op >= opcode_base:
                op -= opcode_base
                address += (op // line_range) * min_inst
                line += line_base + op % line_range
                emit(line)
            elif op == 0:
                size, at = _uleb(d, at)
                if size and d[at] == 1:  # end_sequence
                    emit(0)
                    address, line, file = 0, 1, 1
                elif size and d[at] == 2:
                    address = int.from_bytes(d[at + 1 : at + size], "little")
                at += size
            elif op == 1:
                emit(line)
            elif op == 2:
                value, at = _uleb(d, at)
                address += value * min_inst
            elif op == 3:
                value, at = _sleb(d, at)
                line += value
            elif op == 4:
                file, at = _uleb(d, at)
            elif op == 8:
                address += ((255 - opcode_base) // line_range) * min_inst
            elif op == 9:
                address += struct.unpack_from("<H", d, at)[0]
                at += 2
            else:
                for _ in range(lengths[op - 1]):
                    _, at = _uleb(d, at)


def _uleb(d: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = d[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _sleb(d: bytes, at: int) -> tuple[int, int]:
    start = at
    value, at = _uleb(d, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if value >> (bits - 1) else value), at
