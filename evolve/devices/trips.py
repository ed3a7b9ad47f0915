"""How often the parts of a kernel's machine code run, inferred from the traced memory accesses.

The trace says how many bytes a warp moves at each line of the text, the machine code in which loop the loads
and stores of that line are. Compilers unroll: one loop of the text becomes a main loop of, say, sixteen
copies, straight code for eight, a loop of four and a loop of single ones, and the large bodies run as often
as they can. So the bodies with accesses of a line take their share largest first, each as many whole
iterations as the rest allows, and the smallest takes what is left.

Loops that count between constants are read off the code instead. Barriers and stores are trusted before
loads, which the compiler may merge or reuse where the host did not; and accesses that every iteration makes
before guarded ones, which some warps leave out (a tile that is filled by half of the block).
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
    """A loop's own blocks, or one straight block (`most` 1): bytes by key of one run.

    `always` holds the keys whose every access is made in each run: neither predicated nor behind a branch.
    """

    blocks: tuple[int, ...]
    loop: int | None
    moved: dict[Key, float]
    barriers: int
    most: float
    always: set[Key]

    @property
    def size(self) -> float:
        return sum(self.moved.values())


def trip_counts(sass: Sass, traffic: Traffic) -> Counts:
    """Executions of loops and blocks. A loop that touches no memory and meets no barrier counts one
    iteration per entry: nothing in the trace tells how often it runs."""
    lined = has_lines(sass, traffic)
    bodies = _bodies(sass, lined)
    traced = traced_bytes(traffic, lined=lined)
    counted = counted_loops(sass)
    runs = _explain(sass, bodies, traced, traffic.barriers, counted)
    total = {bodies[i].loop: times for i, times in runs.items() if bodies[i].loop is not None}
    loops: dict[int, float] = {}
    entered: list[float] = []
    for index, loop in enumerate(sass.loops):
        outer = 1.0 if loop.parent is None else entered[loop.parent]
        all_runs = outer * counted[index] if index in counted else total.get(index, outer)
        loops[index] = all_runs / outer if outer > 0 else 0.0
        entered.append(all_runs if outer > 0 else 0.0)
    slow = _slow_paths(sass)
    straight = {bodies[i].blocks[0]: times for i, times in runs.items() if bodies[i].loop is None}
    shares = _guarded_shares(sass, bodies, traced, entered, lined)
    blocks = []
    for number, block in enumerate(sass.blocks):
        if number in slow:
            blocks.append(0.0)
        elif block.loop is None:
            blocks.append(straight.get(number, 1.0))
        else:
            blocks.append(entered[block.loop] * shares.get(number, 1.0))
    return Counts(loops, tuple(blocks))


def _explain(
    sass: Sass, bodies: list[_Body], traced: dict[Key, float], barriers: float, counted: dict[int, int]
) -> dict[int, float]:
    """Runs of each body that does not count between constants, by its place in `bodies`."""
    left = dict(traced)
    runs: dict[int, float] = {}
    for body in bodies:
        # What outermost counted loops do is known beforehand.
        if body.loop is not None and body.loop in counted and sass.loops[body.loop].parent is None:
            barriers = _take(body, counted[body.loop], left, barriers)
    # Every warp of a block meets a barrier equally often, whatever its other guards: where only one loop of
    # the text has barriers, they count its iterations exactly.
    synced = {frozenset(b.moved) for b in bodies if b.barriers and b.loop is not None and b.moved}
    exact = len(synced) == 1 and not any(b.barriers and b.loop in counted for b in bodies)
    for i in sorted(range(len(bodies)), key=lambda i: (-bodies[i].size, bodies[i].blocks)):
        body = bodies[i]
        if body.loop in counted:
            continue
        others = [
            b
            for j, b in enumerate(bodies)
            if j not in runs
            and j != i
            and b.loop not in counted
            and not b.moved.keys().isdisjoint(body.moved)
        ]
        runs[i] = min(_runs(body, left, others, barriers, exact), body.most)
        barriers = _take(body, runs[i], left, barriers)
    return runs


def _take(body: _Body, runs: float, left: dict[Key, float], barriers: float) -> float:
    for key, moved in body.moved.items():
        left[key] = max(0.0, left.get(key, 0.0) - runs * moved)
    return max(0.0, barriers - runs * body.barriers)


def _runs(body: _Body, left: dict[Key, float], others: list[_Body], barriers: float, exact: bool) -> float:
    """Runs that the accesses not yet explained allow.

    Accesses behind a guard that only some warps pass were traced less often than the loop ran, and loads
    that the compiler merged are in the code less often than they were traced. So stores that are always
    made decide, then loads that are, then whatever guarded access asks for the most.
    """
    looped = body.loop is not None
    if not body.moved:
        return barriers / body.barriers
    ratio = {k: left.get(k, 0.0) / moved for k, moved in body.moved.items()}
    stores = [k for k in ratio if k[1]]
    trusted = [k for k in stores if k in body.always]
    if trusted or not looped:
        trusted = trusted or stores or list(ratio)
        allowed = min(ratio[k] for k in trusted)
    else:
        # Keys that loops of another part of the text have too (an inlined function) tell less.
        shared = {k for b in others if b.moved.keys() != body.moved.keys() for k in b.moved}
        trusted = [k for k in ratio if k in body.always and not k[1]]
        guarded = [k for k in ratio if k not in body.always and (k[1] or not trusted)]
        allowed = min((ratio[k] for k in trusted), default=0.0)
        own = [k for k in guarded if k not in shared]
        allowed = max(allowed, max((ratio[k] for k in own), default=0.0))
        if not trusted and not own:
            allowed = min(ratio[k] for k in guarded)
        trusted += guarded
    if body.barriers and looped:
        met = barriers / body.barriers
        if exact or not any(k[1] for k in trusted):
            allowed = met if exact else min(allowed, met)
    rivals = {k for b in others for k in b.moved}
    if any(k in rivals for k in trusted):
        # Smaller bodies take the remainder; a little slack for guards that end a warp early.
        return float(int(allowed + 0.02)) if allowed >= 1.0 or not looped else 0.0
    return allowed


def _guarded_shares(
    sass: Sass, bodies: list[_Body], traced: dict[Key, float], entered: list[float], lined: bool
) -> dict[int, float]:
    """The share of their loop's iterations in which blocks behind a branch run, where accesses tell it."""
    owners: dict[Key, int] = defaultdict(int)
    for body in bodies:
        if body.loop is None or entered[body.loop] > 0:
            for key in body.moved:
                owners[key] += 1
    shares = {}
    for body in bodies:
        if body.loop is None or entered[body.loop] <= 0:
            continue
        for number in body.blocks:
            block = sass.blocks[number]
            keys = {key_of(i, lined=lined) for i in sass.instructions[block.first : block.last + 1]}
            told = [k for k in keys if k is not None and k not in body.always and owners[k] == 1]
            if told and number not in unavoidable(sass, body.loop):
                most = max(traced.get(k, 0.0) / body.moved[k] for k in told)
                shares[number] = min(1.0, most / entered[body.loop])
    return shares


def unavoidable(sass: Sass, index: int) -> set[int]:
    """Blocks of a loop that every iteration which comes round again has passed."""
    loop = sass.loops[index]
    inside = set(loop.blocks)
    header = loop.blocks[0]
    latches = {b for b in inside if header in sass.blocks[b].successors}
    found = {header}
    for removed in inside - {header}:
        seen, waiting = {header}, [header]
        while waiting:
            for n in sass.blocks[waiting.pop()].successors:
                if n in inside and n != removed and n not in seen:
                    seen.add(n)
                    waiting.append(n)
        if not seen & latches:
            found.add(removed)
    return found


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
    always = {i: unavoidable(sass, i) for i in range(len(sass.loops))}
    guarded: dict[int | tuple[int], set[Key]] = defaultdict(set)
    for number, block in enumerate(sass.blocks):
        if block.cold:
            continue
        name: int | tuple[int] = (number,) if block.loop is None else block.loop
        branched = block.loop is not None and number not in always[block.loop]
        moved: dict[Key, float] = defaultdict(float)
        barriers = 0
        for instruction in sass.instructions[block.first : block.last + 1]:
            key = key_of(instruction, lined=lined)
            if key is not None:
                moved[key] += instruction.width / 8
                if branched or instruction.predicate is not None:
                    guarded[name].add(key)
            barriers += instruction.kind == "bar"
        body = found.setdefault(
            name, _Body((), block.loop, {}, 0, 1.0 if block.loop is None else float("inf"), set())
        )
        body.blocks = (*body.blocks, number)
        for key, size in moved.items():
            body.moved[key] = body.moved.get(key, 0.0) + size
        body.barriers += barriers
    for name, body in found.items():
        body.always = set(body.moved) - guarded[name]
    return [b for b in found.values() if b.moved or (b.barriers and b.loop is not None)]
