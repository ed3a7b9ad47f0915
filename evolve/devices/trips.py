"""How often the parts of a kernel's machine code run, inferred from the traced memory accesses.

The trace says how many bytes a warp moves at each line of the text, the machine code in which loop the loads
and stores of that line are. Compilers unroll: one loop of the text becomes a main loop of, say, sixteen
copies, straight code for eight, a loop of four and a loop of single ones, and the large bodies run as often
as they can. So the bodies with accesses of a line take their share largest first, each as many whole
iterations as the rest allows, and the smallest takes what is left.

Loops that count between constants are read off the code instead. Stores and barriers are trusted before
loads, which the compiler may merge or reuse where the host did not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from evolve.devices.counted import counted_loops
from evolve.devices.traffic import Traffic
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

_STEMS = {
    "ldg": ("global", False),
    "stg": ("global", True),
    "lds": ("shared", False),
    "sts": ("shared", True),
}

Key = tuple[str, bool, int | None]
"""Memory space, whether written, line of the text (None when either side does not know lines)."""


@dataclass(frozen=True)
class Counts:
    """Executions per warp: `loops` holds each loop's iterations per entry (for `Sass.weigh`), `blocks` each
    basic block's executions in all."""

    loops: dict[int, float]
    blocks: tuple[float, ...]


def key_of(instruction: Instruction, *, lined: bool) -> Key | None:
    """The trace key of a load or store; None for other instructions."""
    found = _STEMS.get(instruction.kind.partition("_")[0])
    return None if found is None else (*found, instruction.line if lined else None)


def has_lines(sass: Sass, traffic: Traffic) -> bool:
    """Both the trace and the machine code know lines of the text."""
    return any(s.line is not None for s in traffic.sites) and any(
        i.line is not None for i in sass.instructions
    )


def traced_bytes(traffic: Traffic, *, lined: bool) -> dict[Key, float]:
    """Bytes per lane that a warp moves, by key; lanes that are switched off do not lower it."""
    out: dict[Key, float] = defaultdict(float)
    for site in traffic.sites:
        out[site.space, site.write, site.line if lined else None] += (
            site.requests * site.width / max(traffic.warps, 1.0)
        )
    return out


@dataclass
class _Body:
    """A loop's own blocks, or one straight block (`most` 1): bytes by key of one run."""

    blocks: tuple[int, ...]
    loop: int | None
    moved: dict[Key, float]
    barriers: int
    most: float

    @property
    def size(self) -> float:
        return sum(self.moved.values())


def trip_counts(sass: Sass, traffic: Traffic) -> Counts:
    """Executions of loops and blocks. A loop that touches no memory and meets no barrier counts one
    iteration per entry: nothing in the trace tells how often it runs."""
    lined = has_lines(sass, traffic)
    bodies = _bodies(sass, lined)
    left = traced_bytes(traffic, lined=lined)
    barriers = traffic.barriers
    runs: dict[int, float] = {}
    order = sorted(range(len(bodies)), key=lambda i: (-bodies[i].size, bodies[i].blocks))
    counted = counted_loops(sass)
    for i in order:
        body = bodies[i]
        if body.loop in counted:
            continue
        rivals = {
            k
            for j in order
            if j not in runs and j != i and bodies[j].loop not in counted
            for k in bodies[j].moved
        }
        wanted = _runs(body, left, rivals, barriers)
        runs[i] = min(wanted, body.most)
        for key, moved in body.moved.items():
            left[key] = max(0.0, left.get(key, 0.0) - runs[i] * moved)
        barriers = max(0.0, barriers - runs[i] * body.barriers)
    total = {bodies[i].loop: times for i, times in runs.items() if bodies[i].loop is not None}
    loops: dict[int, float] = {}
    entered: list[float] = []
    for index, loop in enumerate(sass.loops):
        outer = 1.0 if loop.parent is None else entered[loop.parent]
        all_runs = outer * counted[index] if index in counted else total.get(index, outer)
        loops[index] = all_runs / outer if outer > 0 else 0.0
        entered.append(all_runs if outer > 0 else 0.0)
    slow = _slow_paths(sass)
    blocks = []
    straight = {bodies[i].blocks[0]: times for i, times in runs.items() if bodies[i].loop is None}
    for number, block in enumerate(sass.blocks):
        if number in slow:
            blocks.append(0.0)
        else:
            blocks.append(straight.get(number, 1.0) if block.loop is None else entered[block.loop])
    return Counts(loops, tuple(blocks))


def _slow_paths(sass: Sass) -> set[int]:
    """Blocks that a branch jumps over unless a slow path must be called: of a division, a square root, …"""
    before: dict[int, list[int]] = defaultdict(list)
    for number, block in enumerate(sass.blocks):
        for successor in block.successors:
            before[successor].append(number)
    slow: set[int] = set()
    for number, block in enumerate(sass.blocks):
        last = sass.instructions[block.last]
        around = [b for b in before[number] if len(sass.blocks[b].successors) == 2]
        returns = before[number] and all(b in slow for b in before[number])
        if (last.is_call and around and len(around) == len(before[number])) or returns:
            slow.add(number)
    return slow


def _bodies(sass: Sass, lined: bool) -> list[_Body]:
    found: dict[int | tuple[int], _Body] = {}
    for number, block in enumerate(sass.blocks):
        if block.cold:
            continue
        name: int | tuple[int] = (number,) if block.loop is None else block.loop
        moved: dict[Key, float] = defaultdict(float)
        barriers = 0
        for instruction in sass.instructions[block.first : block.last + 1]:
            key = key_of(instruction, lined=lined)
            if key is not None:
                moved[key] += instruction.width / 8
            barriers += instruction.kind == "bar"
        body = found.setdefault(
            name, _Body((), block.loop, {}, 0, 1.0 if block.loop is None else float("inf"))
        )
        body.blocks = (*body.blocks, number)
        for key, size in moved.items():
            body.moved[key] = body.moved.get(key, 0.0) + size
        body.barriers += barriers
    return [b for b in found.values() if b.moved or (b.barriers and b.loop is not None)]


def _runs(body: _Body, left: dict[Key, float], rivals: set[Key], barriers: float) -> float:
    """Runs that the accesses not yet explained allow."""
    if not body.moved:
        return barriers / body.barriers
    trusted = [k for k in body.moved if k[1]] or list(body.moved)
    allowed = min(left.get(k, 0.0) / body.moved[k] for k in trusted)
    if body.barriers and body.loop is not None and not any(k[1] for k in trusted):
        allowed = min(allowed, barriers / body.barriers)
    if any(k in rivals for k in trusted):
        # Smaller bodies take the remainder; a little slack for guards that end a warp early.
        return float(int(allowed + 0.02)) if allowed >= 1.0 or body.loop is None else 0.0
    return allowed
