"""How long one warp takes alone: its instructions in order, each waiting for its operands.

NVIDIA's warps issue in order. An instruction whose operand is a load's result stops the warp, so the machine
code alone says which memory latencies overlap and which add up. The walk follows the code with a table of
when each register is ready; loops run a few iterations and the rest is extrapolated from their steady pace.

Latencies of fixed-latency instructions are 4 clocks on Volta and later (Jia et al. 2018, "Dissecting the
NVIDIA Volta GPU architecture via microbenchmarking"; Luo et al. 2024 for Hopper); those of the others are the
same papers' round figures. Memory latencies come from the profile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

_FIXED = 4.0
_LATENCY = {
    "mufu": 18.0,
    "conversion": 14.0,
    "special_register": 20.0,
    "constant": 25.0,
    "uniform": 8.0,
    "shfl": 23.0,
    "vote": 10.0,
    "fp64": 8.0,
    "tensor": 33.0,
    "texture": 80.0,
}
SHARED_CLOCKS = 29.0
BARRIER_CLOCKS = 20.0

# Iterations of a loop that are walked, and the share at the end that gives its pace. Small bodies need many:
# accesses to one sector take turns at missing.
_WALKED = (3, 24)
_WALKED_INSTRUCTIONS = 1200
_PACED = 2 / 3

_MEMORY = ("ldg", "stg", "lds", "sts", "ldl", "stl", "ldgsts", "atomic")
_NO_TARGET = ("stg", "sts", "stl", "ldgsts", "bar", "branch", "fence", "nop")
_COPIES = "copies"
"""What a wait for all asynchronous copies reads, beside registers: it is ready when the last of them is."""
_REGISTER = re.compile(r"\b(U?R)(\d+)(\.64)?\b")
_PREDICATE = re.compile(r"\b(U?P\d)\b")


@dataclass(frozen=True)
class Access:
    """What a load or store costs a warp: clocks until its data is there, clocks it keeps the load-store unit.

    `misses` of a site's requests, a fraction, take `miss` instead of `hit` clocks; they are spread evenly.
    """

    hit: float
    miss: float
    misses: float
    wavefronts: float


AccessModel = Callable[[Instruction], Access]


@dataclass(frozen=True)
class Chain:
    """Clocks from a warp's first instruction to its last; those of them that it waits for global memory, and
    for its own spilled registers; and those that it waits, for anything, in loops with barriers."""

    clocks: float
    memory_clocks: float
    local_clocks: float
    synced_clocks: float = 0.0


@dataclass(frozen=True)
class _Step:
    """An instruction, decoded once. `loads`: global, local or nothing; `group`: accesses whose misses take
    turns (one line of the text); `copies`: from global to shared memory, while the warp goes on."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    latency: float
    access: Access | None
    loads: str
    barrier: bool
    group: int
    copies: bool


@dataclass
class _Walk:
    sass: Sass
    steps: Sequence[_Step]
    trips: Mapping[int, float]
    blocks: Sequence[float]
    now: float = 0.0
    unit_free: float = 0.0
    stalled: dict[str, float] = field(default_factory=lambda: {"global": 0.0, "local": 0.0, "synced": 0.0})
    synced: bool = False
    ready: dict[str, float] = field(default_factory=dict)
    from_memory: dict[str, str] = field(default_factory=dict)
    missed: dict[int, float] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)
    owed: dict[int, float] = field(default_factory=dict)


def chain(sass: Sass, trips: Mapping[int, float], access: AccessModel, blocks: Sequence[float] = ()) -> Chain:
    """Walks one warp. `trips` as for `Sass.weigh`; `access` gives each memory instruction's cost;
    `blocks` each block's executions: those that do not run (outside of loops: below one half) are left out.
    """
    walk = _Walk(sass, [_decode(i, access) for i in sass.instructions], trips, blocks)
    _run(walk, None)
    return Chain(walk.now, walk.stalled["global"], walk.stalled["local"], walk.stalled["synced"])


def _run(walk: _Walk, parent: int | None) -> None:
    """Runs the blocks directly in loop `parent` (None: outside of all) and the loops inside it, in order."""
    items: list[tuple[int, int | None]] = [
        (loop.blocks[0], i) for i, loop in enumerate(walk.sass.loops) if loop.parent == parent
    ]
    items += [(n, None) for n, b in enumerate(walk.sass.blocks) if b.loop == parent and not b.cold]
    for number, loop in sorted(items, key=lambda item: item[0]):
        if loop is not None:
            _repeat(walk, loop)
            continue
        if walk.blocks and not _due(walk, number, parent):
            continue
        block = walk.sass.blocks[number]
        for step in walk.steps[block.first : block.last + 1]:
            _issue(walk, step)


def _due(walk: _Walk, number: int, parent: int | None) -> bool:
    """Whether a block runs this time: those that a branch often jumps over take turns at it."""
    if parent is None:
        return walk.blocks[number] >= 0.5
    whole = max(walk.blocks[b] for b in walk.sass.loops[parent].blocks if walk.sass.blocks[b].loop == parent)
    share = walk.blocks[number] / whole if whole > 0 else 0.0
    # At a barrier all warps wait for those that take the branch.
    if share >= (0.5 if walk.synced else 1.0):
        return True
    owed = walk.owed.get(number, 0.5) + share
    walk.owed[number] = owed - 1.0 if owed >= 1.0 else owed
    return owed >= 1.0


def _repeat(walk: _Walk, loop: int) -> None:
    trips = walk.trips.get(loop, 1.0)
    if trips < 0.5:
        return
    whole = max(1, round(trips))
    fewest, most = _WALKED
    body = walk.sass.loops[loop].mix.total
    walked = min(whole, max(fewest, min(most, int(_WALKED_INSTRUCTIONS / max(body, 1.0)))))
    entries = walk.entered.get(loop, 0)
    walk.entered[loop] = entries + 1
    if entries >= 2:  # its pace is known to be steady by now
        walked = min(walked, fewest)
    marks = [(walk.now, dict(walk.stalled))]
    outside, walk.synced = walk.synced, walk.synced or walk.sass.loops[loop].mix["bar"] > 0
    for _ in range(walked):
        _run(walk, loop)
        marks.append((walk.now, dict(walk.stalled)))
    walk.synced = outside
    if whole > walked:
        paced = max(1, int(walked * _PACED))
        now, stalled = marks[-1 - paced]
        times = (whole - walked) / paced
        _skip(walk, (walk.now - now) * times)
        for space, clocks in stalled.items():
            walk.stalled[space] += (walk.stalled[space] - clocks) * times


def _skip(walk: _Walk, clocks: float) -> None:
    walk.now += clocks
    walk.unit_free += clocks
    walk.ready = {name: at + clocks for name, at in walk.ready.items()}


def _issue(walk: _Walk, step: _Step) -> None:
    ready = walk.ready
    at = arrives = walk.now
    space = ""
    for name in (*step.sources, *step.targets):
        when = ready.get(name, 0.0)
        if when > at:  # max() would double the walk's time
            at = when
        if when > arrives and walk.from_memory.get(name):
            arrives, space = when, walk.from_memory[name]
    if space:
        walk.stalled[space] += arrives - walk.now
    if walk.synced:
        walk.stalled["synced"] += at - walk.now + (BARRIER_CLOCKS if step.barrier else 0.0)
    walk.now = at + 1.0
    done = at + step.latency
    if step.access is not None:
        cost = step.access
        start = max(at, walk.unit_free)
        walk.unit_free = start + cost.wavefronts
        # What is touched for the first time is nowhere near.
        debt = walk.missed.get(step.group, 1.0) + cost.misses
        missed = cost.misses > 0 and debt >= 1.0 - 1e-9
        walk.missed[step.group] = debt - 1.0 if missed else debt
        done = start + cost.wavefronts - 1.0 + (cost.miss if missed else cost.hit)
    elif step.barrier:
        walk.now += BARRIER_CLOCKS
    for name in step.targets:
        ready[name] = done
        walk.from_memory[name] = step.loads
    if step.copies:
        ready[_COPIES] = max(done, ready.get(_COPIES, 0.0))
        walk.from_memory[_COPIES] = "global"


def _decode(instruction: Instruction, access: AccessModel) -> _Step:
    kind = instruction.kind
    stem = kind.partition("_")[0]
    sources, targets = _registers(instruction, stem)
    line = -1 if instruction.line is None else instruction.line
    return _Step(
        sources=sources,
        targets=targets,
        latency=_LATENCY.get(kind, _FIXED),
        access=access(instruction) if stem in _MEMORY else None,
        loads={"ldg": "global", "atomic": "global", "ldl": "local"}.get(stem, ""),
        barrier=kind == "bar",
        group=2 * line + (stem in _NO_TARGET),
        copies=stem == "ldgsts",
    )


def _registers(instruction: Instruction, stem: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Registers and predicates that an instruction reads, and those that it writes."""
    operands = instruction.operands
    sources: list[str] = []
    targets: list[str] = []
    if instruction.predicate:
        sources += _PREDICATE.findall(instruction.predicate)
    writes = stem not in _NO_TARGET
    wide = max(1, instruction.width // 32) if stem in _MEMORY else 1
    pairs = stem == "fp64" or "WIDE" in instruction.modifiers or "64" in instruction.modifiers
    for position, operand in enumerate(operands):
        is_target = writes and (position == 0 or (position == 1 and operand.startswith(("P", "UP"))))
        span = 1
        if wide > 1:
            span = wide if position == (0 if writes else len(operands) - 1) else 1
        elif pairs and stem not in _MEMORY and (position == 0 or stem == "fp64"):
            span = 2
        found = [
            f"{file}{int(number) + offset}"
            for file, number, pair in _REGISTER.findall(operand)
            for offset in range(max(span, 2 if pair else 1))
        ]
        found += _PREDICATE.findall(operand)
        (targets if is_target else sources).extend(found)
    if instruction.opcode == "DEPBAR" and "0x0" in operands:
        sources.append(_COPIES)
    return tuple(sources), tuple(targets)
