"""What is told to a model in lines: features, losses, refusals, programs. All of it is data.

What comes from a kernel, a program or a message is put on lines of its own or behind a dash, without
characters that do not print and no longer than stated, so that it ends where it seems to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_TEXT = 400
"""Characters of a sentence from elsewhere."""
_MOST_LINE = 400
_SHOWN_SHARE = 0.02
_UNTOLD = frozenset(("kernel", "exact", "this_input", "depth", "contiguous", "instances", "scalars"))

_ONE = {"buffers": "buffer", "loops": "loop", "accesses": "access", "reductions": "reduction"}


def headline(gap: Mapping[str, Any]) -> str:
    """How far a program is from what is attainable, and what binds it; '' where that is not known."""
    limiter, fraction = gap.get("limiter"), gap.get("fraction")
    if not limiter:
        return ""
    told = f"limited by: {limiter}"
    if isinstance(fraction, int | float) and fraction > 0:
        told = f"{1 / fraction:.3g} times the attainable time; {told}"
    sides = [
        f"{gap[f'{side}_unit']} busy {float(gap[side]):.0%}"
        for side in ("memory", "compute")
        if isinstance(gap.get(side), int | float) and gap.get(f"{side}_unit")
    ]
    return f"{told} ({', '.join(sides)})" if sides else told


def losses(gap: Mapping[str, Any], most: int) -> Iterator[str]:
    """A gap report (`sol.gap`) in lines: the headline, then each cause, its share of the time, what is
    seen of it and what addresses it; the largest first."""
    if head := headline(gap):
        yield head
    for cause in causes(gap)[:most]:
        seconds = cause.get("seconds")
        us = f", {number(seconds * 1e6)} us" if isinstance(seconds, int | float) else ""
        seen = f" ({cause['evidence']})" if cause.get("evidence") else ""
        use = f" Try: {', '.join(cause['primitives'])}." if cause.get("primitives") else ""
        advice = cause.get("advice", "")
        yield f"- {float(cause['share']):.0%}{us}: {cause.get('name')}{seen}: {advice}.{use}"


def causes(gap: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The causes that are worth a line: the largest, and whichever takes 2 % of the time."""
    # A record of another version may hold something else.
    told = [c for c in gap.get("causes") or () if isinstance(c, Mapping) and "share" in c]
    return told[:1] + [c for c in told[1:] if float(c["share"]) >= _SHOWN_SHARE]


def addressed(gap: Mapping[str, Any]) -> list[str]:
    """The primitives that address the losses, those of the largest first."""
    return list(dict.fromkeys(name for cause in causes(gap) for name in cause.get("primitives") or ()))


def reasons(diagnostics: Sequence[Mapping[str, Any]], most: int = 3) -> str:
    """Diagnostics as a model is told them, one a line: where, code, what, an example, the repair."""
    lines = []
    for one in diagnostics[:most]:
        place = f"line {one['line']}: " if one.get("line") else ""
        text = f"{place}{one.get('code', 'refused')}: {one.get('message', '')}"
        for name in ("witness", "repair"):
            if one.get(name):
                text += f"; {name}: {one[name]}"
        lines.append(cut(text, 2 * MOST_TEXT))
    return "\n".join(lines)


def facts(features: Mapping[str, Any]) -> Iterator[str]:
    """Features in lines: a number, a name or an entry of a list each; what is false or zero is left out."""
    for name, value in features.items():
        if name in _UNTOLD:
            continue
        if isinstance(value, list | tuple):
            for item in value:
                told = _entry(item) if isinstance(item, Mapping) else _text(item)
                yield cut(f"{_ONE.get(name, name)} {told}", MOST_TEXT)
        elif told := (_entry(value) if isinstance(value, Mapping) else _text(value)):
            yield cut(f"{name}: {told}", MOST_TEXT)


def _entry(item: Mapping[str, Any]) -> str:
    """The fields of an entry; the first is what it is called."""
    told = [(name, _text(value)) for name, value in item.items() if name not in _UNTOLD]
    first, *rest = [(name, text) for name, text in told if text] or [("", "")]
    named = isinstance(next(iter(item.values()), None), str)
    return ", ".join([first[1] if named else " ".join(first), *(f"{name} {text}" for name, text in rest)])


def _text(value: Any) -> str:
    match value:
        case None | False | 0 | "":
            return ""
        case True:
            return "yes"
        case int() | float():
            return number(value)
        case Mapping():
            return " ".join(f"{name}={'?' if v is None else number(v)}" for name, v in value.items())
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)


def number(value: Any) -> str:
    """A figure as it is told; millions with an M."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    return f"{value / 1e6:.4g}M" if abs(value) >= 1e6 else f"{value:.6g}"


def cut(text: str, most: int) -> str:
    """A text on one line, of so many characters at most."""
    line = " ".join(_plain(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def block(text: str, most_lines: int, *, comments: str = "") -> str:
    """A text of several lines, each indented, so that none of them can end what it stands in.

    Longer ones keep their beginning and end, and say how many lines are left out. What follows
    `comments` on a line is left out, and lines that hold nothing else.
    """
    lines = [_plain(line).rstrip() for line in text.splitlines()]
    if comments:
        lines = [line.split(comments, 1)[0].rstrip() for line in lines]
    lines = [line if len(line) <= _MOST_LINE else f"{line[: _MOST_LINE - 1]}…" for line in lines if line]
    if len(lines) > most_lines:
        head = (most_lines + 1) // 2
        tail = most_lines - head
        left = f"… {len(lines) - most_lines} lines are left out …"
        lines = [*lines[:head], left, *lines[len(lines) - tail :]]
    return "\n".join(f"    {line}" for line in lines)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
