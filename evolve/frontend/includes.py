"""Headers of the kernel's own: `#include "common.cuh"` beside the file, written into its text.

The text that results is all there is: runs record it, so that they do not change when a header does.
`#line` directives say where each line comes from. Kernel files are not trusted: only files in the
folder of the kernel or below are read, whatever the text says, and no others by clang (`clang.parse`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path

from evolve.ir.errors import EvolveError

MAX_SOURCE_BYTES = 4_000_000
_MAX_DEPTH = 32
_MAX_HEADERS = 256
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*include[ \t]*"(?P<name>[^"\n]+)"[^\n]*'
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.DOTALL | re.MULTILINE,
)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b[^\n]*", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.MULTILINE)
LINE = re.compile(r'^#line (\d+) "([^"\n]*)"$', re.MULTILINE)


def self_contained(path: str | Path, text: str) -> str:
    """`text`, that of the file at `path`, with the headers of its folder in place of their `#include`s.

    Other includes stay as they are. Raises EvolveError no-file for a header that is not UTF-8 text and
    for headers that are too large, too many or nested too deeply.
    """
    return _Inliner(Path(path)).file(Path(path), text, 0)


class Origins:
    """Where the lines of a self-contained text come from."""

    def __init__(self, path: str | Path, text: str) -> None:
        self._starts = [0]
        self._pieces = [(str(path), 0)]
        for m in LINE.finditer(text):
            at = text.count("\n", 0, m.start()) + 1
            name = m.group(2)
            file = str(path) if name == Path(path).name else str(Path(path).parent / name)
            self._starts.append(at)
            self._pieces.append((file, int(m.group(1)) - at - 1))

    def of(self, line: int) -> tuple[str, int]:
        """The file and the line in it of a line of the text (both from 1)."""
        file, offset = self._pieces[bisect_right(self._starts, line - 1) - 1]
        return file, line + offset

    def show(self, line: int) -> str:
        """`line 7`, with the file where it is not the kernel's."""
        file, at = self.of(line)
        return f"line {at}" if file == self._pieces[0][0] else f"line {at} of {Path(file).name}"


class _Inliner:
    def __init__(self, kernel: Path) -> None:
        self._kernel = kernel
        self._folder = kernel.parent.resolve()
        self._guards: dict[Path, str] = {}
        """Of headers with `#pragma once`: the macro that says so in the text."""
        self._done: set[Path] = set()
        """Those of them that no condition kept out."""
        self._open: set[Path] = {kernel.resolve()}
        self._count = 0
        self._bytes = 0

    def file(self, path: Path, text: str, depth: int, sure: bool = True) -> str:
        """`sure`: no condition keeps the file out."""
        out: list[str] = []
        end = 0
        for m in _TOKEN.finditer(text):
            name = m.group("name")
            header = self._resolve(path, name) if name else None
            if header is None:
                continue
            line = text.count("\n", 0, m.start()) + 1
            out.append(text[end : m.start()])
            conditions = [c.group(1) for c in _CONDITION.finditer(text, 0, m.start())]
            here = sure and conditions.count("if") == conditions.count("endif")
            out.append(self._header(header, depth + 1, line, here))
            out.append(f'#line {line + 1} "{self._name(path)}"')
            end = m.end()
        return "".join([*out, text[end:]])

    def _header(self, header: Path, depth: int, line: int, sure: bool) -> str:
        if header in self._done or header in self._open:
            return ""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_HEADERS:
            message = f"more than {_MAX_HEADERS} headers, or headers more than {_MAX_DEPTH} deep"
            raise EvolveError("no-file", message, file=str(self._kernel), line=line)
        text = read_source(header)
        self._bytes += len(text)
        if self._bytes > MAX_SOURCE_BYTES:
            message = f"the headers are larger than {MAX_SOURCE_BYTES} bytes"
            raise EvolveError("no-file", message, file=str(self._kernel), line=line)
        once = _ONCE.search(text)
        self._open.add(header)
        inner = self.file(header, _ONCE.sub("", text), depth, sure)
        self._open.remove(header)
        inner = f'#line 1 "{self._name(header)}"\n{inner}\n'
        if once is None:
            return inner
        if sure:
            self._done.add(header)
            if header not in self._guards:
                return inner
        guard = self._guards.setdefault(header, f"EVOLVE_HEADER_{len(self._guards) + 1}")
        return f"#ifndef {guard}\n#define {guard}\n{inner}#endif\n"

    def _name(self, path: Path) -> str:
        return path.name if path == self._kernel else path.resolve().relative_to(self._folder).as_posix()

    def _resolve(self, including: Path, name: str) -> Path | None:
        """The header's file if it lies in the kernel's folder or below, links followed."""
        if "\\" in name or not name.isprintable() or Path(name).is_absolute():
            return None
        for folder in (including.parent, self._kernel.parent):
            try:
                found = (folder / name).resolve()
                if found.is_file():
                    inside = found.is_relative_to(self._folder)
                    return found if inside and '"' not in str(found) else None
            except (OSError, RuntimeError, ValueError):
                continue
        return None


def read_source(path: Path) -> str:
    """The text of a kernel file. Raises EvolveError no-file."""
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise EvolveError("no-file", f"{path} {what}", file=str(path), hint="give the path of a .cu file")
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise EvolveError("no-file", f"{path} is larger than {MAX_SOURCE_BYTES} bytes", file=str(path))
        data = path.read_bytes()
        if b"\0" in data:
            raise EvolveError("no-file", f"{path} is not a text file", file=str(path))
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvolveError("no-file", f"{path} is not UTF-8 text", file=str(path)) from error
    except OSError as error:
        raise EvolveError("no-file", f"{path} cannot be read: {error.strerror}", file=str(path)) from error
