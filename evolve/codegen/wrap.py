"""Lines of C broken where a reader would: at the loosest operator, what belongs together left together."""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 100
"""Columns of a line."""
_STEP = "    "
_SHORT = 24
"""Columns before a sign of multiplication that are no reason for a line of their own."""
_BREAKS = re.compile(
    r"(?P<before> (?:\?|:|\|\||&&|<|<=|>|>=|==|!=|\+|-|\*|/|%) )|(?P<after>, |; | [-+*]?= |\((?=[^()\s]))"
)
_LOOSENESS = (";", "=", "? :", "||", "&&", ",", "< <= > >= == !=", "+ -", "* / %", "(")
"""From what is broken first to what is broken last, of what is equally deep in brackets."""
_GIVEN = (0, _LOOSENESS.index("="))
_RANKS = {sign: rank for rank, signs in enumerate(_LOOSENESS) for sign in signs.split()}


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """The lines of a line: itself where it is short, or where nothing in it can be broken.

    A comment behind code goes above it; lines of the preprocessor stay.
    """
    if len(text) <= width or text.lstrip().startswith("#") or text.endswith("\\"):
        return [text]
    pad = text[: len(text) - len(text.lstrip())]
    code, comment = _comment(text.strip())
    if not code:
        said = comment.removeprefix("//")
        return _filled(said, f"{pad}//{said[: len(said) - len(said.lstrip())]}", width)
    if comment and len(pad + code) <= width:
        return [*wrapped(pad + comment, width), pad + code]
    # The body of what opens one is indented by a step: its head goes on further.
    more = pad + _STEP * (2 if code.endswith("{") else 1)
    above = wrapped(pad + comment, width) if comment else []
    return [*above, *_broken(code, pad, more, width)]


def gathered(text: str) -> str:
    """The same lines, each statement of several on its first, and the others empty."""
    out: list[str] = []
    first, depth = -1, 0  # where the statement began that goes on, and its open brackets
    for line in text.split("\n"):
        code, comment = _comment(line.strip())
        if not code or code.startswith("#") or code.endswith("\\"):
            out.append(line)
            first, depth = -1, 0
            continue
        if first < 0:
            first = len(out)
            out.append(line)
        else:
            out[first] += f" {line.strip()}"
            out.append("")
        depth += sum((c in "([") - (c in ")]") for c in code)
        if comment or (depth <= 0 and code.endswith((";", "{", "}"))):
            first, depth = -1, 0
    return "\n".join(out)


def _comment(code: str) -> tuple[str, str]:
    """The code of a line, and the comment behind it."""
    plain = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: " " * len(m[0]), code)
    at = plain.find("//")
    return (code, "") if at < 0 else (code[:at].rstrip(), code[at:])


def _filled(text: str, pad: str, width: int) -> list[str]:
    """A comment of several lines; those after the first are indented."""
    lines = [pad]
    for word in text.split():
        if len(lines[-1]) + len(word) > width and lines[-1] != pad:
            lines.append(f"{pad}  ")
        lines[-1] += f"{word} "
    return [x.rstrip() for x in lines]


def _broken(code: str, pad: str, more: str, width: int) -> list[str]:
    """`code` on lines of which the first begins with `pad` and the others with `more`."""
    if len(pad + code) <= width:
        return [pad + code]
    found = list(_places(code))
    inside = [x for x in found if x[1] != _GIVEN]
    whole = _pieces(code, inside, pad, more, width)
    if len(inside) == len(found):
        return whole
    # After `=` if that takes no more lines.
    apart = _pieces(code, [x for x in found if x[1] == _GIVEN], pad, more, width)
    return apart if len(apart) < len(whole) or len(apart) == 2 else whole


def _pieces(
    code: str, found: list[tuple[int, tuple[int, int]]], pad: str, more: str, width: int
) -> list[str]:
    """`code` broken at the loosest of the places that are found."""
    if not found:
        return [pad + code]
    loosest = min(x[1] for x in found)
    pieces, at = [], 0
    for place, rank in found:
        if rank == loosest:
            pieces.append(code[at:place].strip())
            at = place
    pieces.append(code[at:].strip())
    lines: list[str] = []
    for piece in pieces:
        start = more if lines else pad
        joined = f"{lines[-1]}{'' if lines[-1].endswith('(') else ' '}{piece}" if lines else ""
        if lines and len(joined) <= width:
            lines[-1] = joined
        else:
            lines += _broken(piece, start, more + _STEP, width)
    return lines


def _places(code: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Where a line may end: the offset, and how deep in brackets it is, and how tight."""
    plain = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: "x" * len(m[0]), code)
    depth, depths = 0, []
    for c in plain:
        depth += (c in "([{") - (c in ")]}")
        depths.append(depth)
    for m in _BREAKS.finditer(plain):
        sign = m[0].strip()
        rank = _RANKS["=" if m["after"] and sign.endswith("=") else sign]
        # What follows a short factor is rather broken itself.
        tight = sign in ("*", "/", "%") and m.start() < _SHORT
        last = 100 * (sign == "(")
        yield (m.start() if m["before"] else m.end()), (depths[m.start()] + tight + last, rank)
