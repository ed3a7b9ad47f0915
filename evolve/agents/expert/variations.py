"""Neighbours of a program that scored: other numbers, other switches, ordered by what the gap report says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evolve.agents.base import Parent
from evolve.agents.expert.sketch import Sketch

_SPLIT = re.compile(r"^(?P<head>.*\bsplit\(.*, *)(?P<number>\d+)(?P<tail>\) *)$")
_WIDTH = re.compile(r"^(?P<head>vectorize\(.*, *)(?P<number>\d+)(?P<tail>\) *)$")
_PAD = re.compile(r"^(?P<head>set_layout\(.*\[(?:0, *)*)(?P<number>\d+)(?P<tail>\]\) *)$")
_DIVIDES = re.compile(r"(?P<head>\w+ % )(?P<number>\d+)(?P<tail> == 0)")

LARGER = (
    *("redundant_l2", "redundant_dram", "shared_traffic", "global_accesses", "block_starts", "barriers"),
    *("latency", "narrow_accesses", "instructions", "index_arithmetic", "redundant_arithmetic"),
)
"""Causes that larger tiles, more work a thread or wider accesses reduce."""
SMALLER = ("tail", "idle_sms", "small_grid", "occupancy", "spills", "bank_conflicts", "latency")
"""Causes that smaller ones reduce."""
_NOTABLE = 0.01
_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_WIDEST = 4
"""Elements of four bytes in the widest access."""
_APPENDED = 12
"""At most so many legal additions are looked at."""


def variations(parent: Parent, moves: Sequence[str]) -> list[Sketch]:
    """Programs one edit away from the parent's, those first that address its largest losses.

    `moves` are statements that may be appended. The order is a function of the arguments.
    """
    weights = _shares(parent.gap)
    lines = parent.program.strip().splitlines()
    edits = dict.fromkeys(_edits(lines, moves, parent.gap))
    ranked = sorted(edits, key=lambda s: -sum(weights.get(c, 0.0) for c in s.against))
    return [s for s in ranked if s.text.strip() != parent.program.strip()]


def _shares(gap: Mapping[str, Any]) -> dict[str, float]:
    causes = gap.get("causes") or ()
    return {c["name"]: float(c["share"]) for c in causes if float(c["share"]) >= _NOTABLE}


def _edits(lines: list[str], moves: Sequence[str], gap: Mapping[str, Any]) -> Iterator[Sketch]:
    yield from _numbers(lines)
    for n, line in enumerate(lines):
        if line.startswith("unroll("):
            yield _without(lines, n, "not unrolled", ("spills",))
        if line.startswith("launch_bounds("):
            yield _without(lines, n, "without launch bounds", ("spills",))
        found = _PAD.match(line)
        if found is not None:
            for pad in ("1", "4", "0"):
                if pad != found["number"]:
                    changed = found["head"] + pad + found["tail"]
                    if pad == "0":
                        yield _without(lines, n, "without padding", ("shared_traffic",))
                    else:
                        text = _joined([*lines[:n], changed, *lines[n + 1 :]])
                        yield Sketch(text, f"padded by {pad}", ("bank_conflicts",))
    if not any(line.startswith("launch_bounds(") for line in lines):
        bounds = "launch_bounds(?[256, 512, 1024, 128], ?[2, 1, 4])"
        yield Sketch(_joined([*lines, bounds]), "registers bounded for more resident blocks", ("latency",))
    wanted = _primitives(gap)
    useful = [m for m in moves if m.split("(")[0].split("=")[-1].strip() in wanted]
    for move in useful[:_APPENDED]:
        name = move.split("(")[0].split("=")[-1].strip()
        yield Sketch(_joined([*lines, move]), f"with {move}", tuple(wanted[name]))


def _primitives(gap: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each primitive that the gap report names, the causes that it may reduce."""
    out: dict[str, list[str]] = {}
    for cause in gap.get("causes") or ():
        if float(cause["share"]) >= _NOTABLE:
            for primitive in cause["primitives"]:
                out.setdefault(primitive, []).append(cause["name"])
    return out


def _numbers(lines: list[str]) -> Iterator[Sketch]:
    """Each number of the splits doubled or halved, everywhere it stands together and by itself."""
    present = sorted({int(m["number"]) for m in map(_SPLIT.match, lines) if m})
    for number in present:
        for new in (number * 2, number // 2):
            if new not in _FACTORS:
                continue
            against = LARGER if new > number else SMALLER
            together = [_replaced(line, number, new) for line in lines]
            if any((m := _WIDTH.match(line)) and int(m["number"]) > _WIDEST for line in together):
                continue
            yield Sketch(_joined(_needs(together, number, new)), f"{number} became {new}", against)
            where = [
                n for n, line in enumerate(lines) if (m := _SPLIT.match(line)) and int(m["number"]) == number
            ]
            if len(where) > 1:
                for n in where:
                    alone = [*lines[:n], _replaced(lines[n], number, new), *lines[n + 1 :]]
                    why = f"{number} became {new} in {lines[n]}"
                    yield Sketch(_joined(_needs(alone, number, new)), why, against)


def _replaced(line: str, old: int, new: int) -> str:
    for pattern in (_SPLIT, _WIDTH):
        found = pattern.match(line)
        if found is not None and int(found["number"]) == old:
            return f"{found['head']}{new}{found['tail']}"
    if line.lstrip().startswith("tile(") or "= tile(" in line:
        return re.sub(rf"(?<=[\[ ]){old}(?=[,\]])", str(new), line)
    return line


def _needs(lines: list[str], old: int, new: int) -> list[str]:
    """Divisibility that was enough for the old number is made enough for a larger one."""
    if new < old:
        return lines
    return [
        _DIVIDES.sub(lambda m: f"{m['head']}{int(m['number']) * (new // old)}{m['tail']}", line)
        if line.startswith("specialize(")
        else line
        for line in lines
    ]


def _without(lines: list[str], n: int, why: str, against: tuple[str, ...]) -> Sketch:
    return Sketch(_joined([*lines[:n], *lines[n + 1 :]]), f"{why}: {lines[n]}", against)


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
