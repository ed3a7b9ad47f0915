"""How often the loops of a kernel's machine code run, inferred from the traced memory accesses.

The trace says how many bytes a warp moved at each line of the text; the machine code says in which loop the
loads and stores of that line are. Each line gives one equation, linear in the loops' total iterations, and
the non-negative solution of least squares is taken. Where several loops explain the same accesses, as an
unrolled loop and its remainder do, the one with more of them in its body gets nearly all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from evolve.devices.traffic import Traffic
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

_STEMS = {
    "ldg": ("global", False),
    "stg": ("global", True),
    "lds": ("shared", False),
    "sts": ("shared", True),
}
_RIDGE = 1e-6

_Key = tuple[str, bool, int | None]


def trip_counts(sass: Sass, traffic: Traffic) -> dict[int, float]:
    """Iterations of each loop per entry, for `Sass.weigh`; loops without any memory access count 1.

    A loop that touches no memory of its own takes no part: nothing in the trace tells how often it runs.
    """
    if not sass.loops or traffic.warps <= 0:
        return {}
    totals = _total_iterations(sass, traffic)
    trips: dict[int, float] = {}
    done: list[float] = []
    for index, loop in enumerate(sass.loops):
        outer = 1.0 if loop.parent is None else done[loop.parent]
        total = totals.get(index)
        trips[index] = 1.0 if total is None else total / outer if outer > 0 else 0.0
        done.append(outer * trips[index])
    return trips


def _total_iterations(sass: Sass, traffic: Traffic) -> dict[int, float]:
    """Iterations of each loop per warp, all entries together."""
    straight: dict[_Key, float] = defaultdict(float)
    in_loop: dict[_Key, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    lined = any(site.line is not None for site in traffic.sites) and any(
        i.line is not None for i in sass.instructions
    )
    for block in sass.blocks:
        if block.cold:
            continue
        for instruction in sass.instructions[block.first : block.last + 1]:
            key = _key(instruction, lined)
            if key is None:
                continue
            moved = instruction.width / 8
            if block.loop is None:
                straight[key] += moved
            else:
                in_loop[key][block.loop] += moved
    wanted: dict[_Key, float] = defaultdict(float)
    for site in traffic.sites:
        # Per lane that takes part: guards that switch lanes off do not change how often a warp runs a loop.
        wanted[site.space, site.write, site.line if lined else None] += (
            site.requests * site.width / traffic.warps
        )
    columns = sorted({loop for by in in_loop.values() for loop in by})
    keys = [key for key in in_loop if key in wanted]
    if not columns or not keys:
        return {}
    a = np.array([[in_loop[key].get(c, 0.0) for c in columns] for key in keys])
    b = np.array([max(0.0, wanted[key] - straight[key]) for key in keys])
    # Scaling a column by its own size makes a big body the cheaper explanation.
    size = np.maximum(a.sum(axis=0), 1e-9)
    scale = size / size.max()
    found = _non_negative(a * scale, b) * scale
    return {c: float(t) for c, t in zip(columns, found, strict=True)}


def _key(instruction: Instruction, lined: bool) -> _Key | None:
    stem = instruction.kind.partition("_")[0]
    if stem not in _STEMS:
        return None
    space, write = _STEMS[stem]
    return space, write, instruction.line if lined else None


def _non_negative(a: Any, b: Any) -> Any:
    """argmin |a x - b| over x >= 0 with a small ridge, by dropping what comes out negative."""
    weight = 1.0 / np.maximum(b, 1.0)
    a, b = a * weight[:, None], b * weight
    gram, right = a.T @ a, a.T @ b
    ridge = _RIDGE * max(float(np.trace(gram)), 1e-12)
    gram = gram + ridge * np.eye(len(gram))
    active = list(range(len(gram)))
    while active:
        x = np.linalg.solve(gram[np.ix_(active, active)], right[active])
        if (x >= 0).all():
            out = np.zeros(len(gram))
            out[active] = x
            return out
        active = [i for i, v in zip(active, x, strict=True) if v > 0]
    return np.zeros(len(gram))
