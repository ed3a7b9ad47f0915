"""Holes in program texts: `?[64, 128, 256]` stands for one of its choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Template:
    """A program text cut at its holes: `parts` has one more element than `choices`."""

    parts: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]

    def fill(self, filling: Sequence[int]) -> str:
        """The program with choice `filling[i]` in hole i. Raises IndexError on a wrong filling."""
        if len(filling) != len(self.choices):
            raise IndexError(f"{len(filling)} values for {len(self.choices)} holes")
        pieces = [self.parts[0]]
        for part, options, chosen in zip(self.parts[1:], self.choices, filling, strict=True):
            pieces += [options[chosen], part]
        return "".join(pieces)


def read_template(text: str) -> Template:
    """Cuts a text at its holes; one with no hole, or a malformed one, is left for the parser to judge.

    Holes in comments are text. Repeated choices are dropped.
    """
    parts: list[str] = []
    choices: list[tuple[str, ...]] = []
    start = position = 0
    while position < len(text):
        if text[position] == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif text.startswith("?[", position):
            found = _read_choices(text, position + 2)
            if found is None:
                position += 2
                continue
            options, end = found
            parts.append(text[start:position])
            choices.append(options)
            start = position = end
        else:
            position += 1
    parts.append(text[start:])
    return Template(tuple(parts), tuple(choices))


def _read_choices(text: str, position: int) -> tuple[tuple[str, ...], int] | None:
    """The choices from just after `?[`, and where the text goes on after `]`."""
    depth, start, options = 0, position, list[str]()
    for i in range(position, len(text)):
        char = text[i]
        if char == "\n" or text.startswith("?[", i):
            return None
        if depth == 0 and char in ",]":
            options.append(text[start:i].strip())
            start = i + 1
            if char == "]":
                kept = tuple(dict.fromkeys(option for option in options if option))
                return (kept, i + 1) if kept else None
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
    return None
