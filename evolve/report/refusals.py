"""Refusals the way a compiler prints them: file, line, code, the line itself with a caret, notes, help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_MARKER = re.compile(r'\s*#\s*line\s+(\d+)(?:\s+"(.*)")?')


@dataclass(frozen=True)
class Texts:
    """A program and what it is for: the names of the files, and their texts."""

    program_file: str
    program: str
    kernel_file: str
    kernel: str
    _lines: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, line in enumerate(self.program.splitlines(), 1):
            self._lines[self.program_file, number] = line
        file, number = self.kernel_file, 0
        for line in self.kernel.splitlines():
            marker = _MARKER.match(line)
            if marker:  # headers are written into the text, and say where they are from
                number, file = int(marker[1]) - 1, marker[2] or file
                continue
            number += 1
            self._lines[file, number] = line

    def line(self, file: str, number: int) -> str | None:
        """A line of one of the files, 1-based."""
        return self._lines.get((file, number))


def refusal_lines(diagnostic: Mapping[str, Any], texts: Texts) -> list[str]:
    """One reason: where and what, the program's line, notes for the source's, an example, what to do."""
    number = diagnostic.get("line")
    place = f"{texts.program_file}:{number}" if number else texts.program_file
    lines = [f"{place}: error[{diagnostic['code']}]: {diagnostic['message']}"]
    if number:
        shown = texts.line(texts.program_file, number)
        lines += _excerpt(number, shown, *_marked(shown or "", diagnostic["message"]))
    for span in diagnostic.get("spans") or ():
        lines.append(f"{span['file']}:{span['line']}: note: in the kernel")
        shown = texts.line(span["file"], span["line"])
        lines += _excerpt(span["line"], shown, max(span.get("column", 0) - 1, 0), 1)
    if diagnostic.get("witness"):
        lines.append(f"note: for example, {diagnostic['witness']}")
    if diagnostic.get("repair"):
        lines.append(f"help: {diagnostic['repair']}")
    return lines


def _excerpt(number: int, line: str | None, start: int, length: int) -> list[str]:
    if line is None:
        return []
    line = line.expandtabs(1)
    start = start if start else len(line) - len(line.lstrip())
    return [f"{number:>5} | {line.rstrip()}", f"      | {' ' * start}{'^' * max(length, 1)}"]


def _marked(line: str, message: str) -> tuple[int, int]:
    """What to underline of a line of the program: the first argument that is named, else all of it."""
    code = line.split("#", 1)[0].rstrip()
    named = set(_NAME.findall(message))
    opening = code.find("(")
    for found in _NAME.finditer(code, opening + 1) if opening >= 0 else ():
        if found[0] in named and code[found.end() : found.end() + 1] != "=":
            return found.start(), len(found[0])
    start = len(code) - len(code.lstrip())
    return start, len(code) - start
