"""Answers from a stream of lines, without waiting for it."""

from __future__ import annotations

import os
import re
import select

MOST_CHARS = 200_000
"""Of an answer; what comes after that is cut off."""
_FENCE = re.compile(r"\s*(```+|~~~+)")


class Reader:
    """Reads a descriptor: a terminal, a pipe or a file.

    An answer ends at an empty line that follows something, outside a fenced block; at a line `.`; and at the
    end of the stream.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._heard = b""
        self._lines: list[str] = []
        self._ended = False

    def answer(self) -> str | None:
        """The next answer, None if it is not whole yet. Raises EOFError where none comes any more."""
        while (end := self._end()) is None:
            if self._ended:
                break
            if not self._hear():
                return None
        said, self._lines = self._lines[:end], self._lines[len(self._lines) if end is None else end + 1 :]
        text = "\n".join(said).strip("\n")[:MOST_CHARS]
        if end is None and not text.strip():
            raise EOFError
        return text

    def _end(self) -> int | None:
        """The number of the line that ends the answer."""
        fence, said = "", False
        for at, line in enumerate(self._lines):
            found = _FENCE.match(line)
            if found and fence in ("", found[1]):
                fence = "" if fence else found[1]
            elif not fence and (line.strip() == "." or (said and not line.strip())):
                return at
            said = said or bool(line.strip())
        return None

    def _hear(self) -> bool:
        """Whether more has come."""
        try:
            if not select.select([self._descriptor], [], [], 0.0)[0]:
                return False
            said = os.read(self._descriptor, 1 << 16)
        except (OSError, ValueError):  # closed from the start, or a terminal that is gone
            said = b""
        self._ended = not said
        *lines, self._heard = (self._heard + said + (b"\n" if self._ended and self._heard else b"")).split(
            b"\n"
        )
        self._lines += [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
        return True
