"""How long one warp takes when it runs alone: its instructions in order, each waiting for what it reads.

NVIDIA's schedulers issue a warp's instructions in program order, at most one a clock, and an instruction
waits until the registers it reads or overwrites are ready. Replaying that over the disassembly tells how many
loads a warp has in flight before it must wait, which static counts do not. Bandwidth, other warps and
barriers are left out on purpose: they are what an estimate adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

_REGISTER = re.compile(r"(?<![\w.])(U?)(R|P)(\d+)(\.64)?")
_PREDICATE = re.compile(r"^!?U?P(\d|T)$")
_WARM_UP = 3
_AVERAGED = 4
_DOUBLE_WIDE = {"WIDE", "64"}
_STORES = ("stg_", "sts_", "stl_")
_PREDICATE_RESULTS = {"FCHK", "PLOP3", "UPLOP3", "R2P"}
_NO_RESULT = {"branch", "bar", "fence", "nop", "bulk_copy"}

Register = tuple[str, int]


@dataclass(frozen=True)
class Latencies:
    """Clocks from issue until the result can be read.

    The defaults for arithmetic, shuffles and shared memory are the microbenchmarked figures of Jia et al.,
    Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking (2018), which later parts keep within a
    few clocks. `global_load` is the caller's: it depends on which cache answers.
    """

    global_load: float
    local_load: float = 28.0
    shared_load: float = 23.0
    constant: float = 8.0
    shuffle: float = 23.0
    special: float = 18.0
    conversion: float = 14.0
    fp64: float = 8.0
    special_register: float = 20.0
    arithmetic: float = 4.0

    def of(self, instruction: Instruction) -> float:
        """The latency of one instruction's result."""
        kind = instruction.kind
        if kind.startswith("ldg_") or kind in ("atomic", "texture"):
            # An atomic on shared memory comes back as fast as a load from it.
            return self.shared_load if instruction.opcode == "ATOMS" else self.global_load
        if kind.startswith("lds_"):
            return self.shared_load
        if kind.startswith("ldl_"):
            return self.local_load
        return {
            "constant": self.constant,
            "shfl": self.shuffle,
            "vote": self.shuffle,
            "mufu": self.special,
            "conversion": self.conversion,
            "fp64": self.fp64,
            "special_register": self.special_register,
        }.get(kind, self.arithmetic)


def warp_clocks(sass: Sass, trips: Mapping[int, float], latencies: Latencies) -> float:
    """Clocks from a lone warp's first instruction to its last, loop `i` running `trips[i]` iterations each
    time it is entered (once when not named). Cold code is left out; both arms of a branch count."""
    total = region_clocks(_region(sass, None), latencies)
    times: list[float] = []
    for index, loop in enumerate(sass.loops):
        outer = 1.0 if loop.parent is None else times[loop.parent]
        times.append(outer * trips.get(index, 1.0))
        body = _region(sass, index)
        if not body or times[index] == 0:
            continue
        per_iteration = region_clocks(body, latencies, repeated=True)
        first = region_clocks(body, latencies)
        # The last iteration's results are waited for by whoever reads them, once per entry of the loop.
        entries = outer if trips.get(index, 1.0) >= 1 else 0.0
        total += per_iteration * times[index] + max(0.0, first - per_iteration) * entries
    return total


def loads_in_flight(sass: Sass, loop: int | None, latencies: Latencies) -> float:
    """Global loads of one warp that are under way at a time, on average, in a loop (None: outside loops).

    By Little's law: loads per iteration times their latency over the clocks of an iteration; 0 without loads.
    """
    body = _region(sass, loop)
    loads = sum(instruction.kind.startswith("ldg_") for instruction in body)
    if not loads:
        return 0.0
    clocks = region_clocks(body, latencies, repeated=loop is not None, drain=loop is None)
    return loads * latencies.global_load / clocks


def region_clocks(
    code: Sequence[Instruction], latencies: Latencies, *, repeated: bool = False, drain: bool = False
) -> float:
    """Clocks to issue `code` in order; when `repeated`, per iteration in the steady state.

    With `drain`, a single pass lasts until its last result is ready.
    """
    ready: dict[Register, float] = {}
    clock = 0.0
    if not repeated:
        clock = _issue(code, latencies.of, ready, clock)
        return max([clock, *ready.values()]) if drain else clock
    # The first passes fill the pipeline; one iteration may depend on several before it, so more than one
    # pass is averaged.
    for _ in range(_WARM_UP):
        clock = _issue(code, latencies.of, ready, clock)
    start = clock
    for _ in range(_AVERAGED):
        clock = _issue(code, latencies.of, ready, clock)
    return (clock - start) / _AVERAGED


def _region(sass: Sass, loop: int | None) -> list[Instruction]:
    """The instructions whose innermost loop is `loop`, in address order, without cold ones."""
    return [
        instruction
        for block in sass.blocks
        if block.loop == loop and not block.cold
        for instruction in sass.instructions[block.first : block.last + 1]
    ]


def _issue(
    code: Iterable[Instruction],
    latency: Callable[[Instruction], float],
    ready: dict[Register, float],
    clock: float,
) -> float:
    """Replays `code` from `clock`; returns the clock after the last issue and updates `ready`."""
    for instruction in code:
        written, read = registers(instruction)
        waits = [ready[register] for register in (*written, *read) if register in ready]
        clock = max(clock, *waits) if waits else clock
        done = clock + latency(instruction)
        for register in written:
            ready[register] = done
        clock += 1
    return clock


def registers(instruction: Instruction) -> tuple[frozenset[Register], frozenset[Register]]:
    """What an instruction writes and what it reads, as ("R", 4), ("UR", 4), ("P", 0), ("UP", 0).

    Vectors are spelled out. Reads include the guard; RZ and PT, which never change, are left out.
    """
    written: set[Register] = set()
    read: set[Register] = set(_named(instruction.predicate or ""))
    results = _result_count(instruction)
    for position, operand in enumerate(instruction.operands):
        for kind, number, doubled in _mentions(operand):
            width = 2 if doubled else 1
            if position < results:
                width = max(width, _result_width(instruction) if kind.endswith("R") else 1)
                written |= {(kind, number + step) for step in range(width)}
            else:
                if kind.endswith("R") and "[" not in operand:
                    width = max(width, _source_width(instruction))
                read |= {(kind, number + step) for step in range(width)}
    return frozenset(written), frozenset(read)


def _result_count(instruction: Instruction) -> int:
    """How many of the leading operands are results: predicates, then one register, then carry predicates."""
    kind = instruction.kind
    if kind in _NO_RESULT or kind.startswith(_STORES) or instruction.opcode.startswith("RED"):
        return 0
    operands = instruction.operands
    count = 0
    while count < len(operands) and _PREDICATE.match(operands[count]):
        count += 1
    if "SETP" in instruction.opcode or instruction.opcode in _PREDICATE_RESULTS:
        return min(count, 2)
    if count < len(operands) and "[" not in operands[count]:
        count += 1
    if instruction.opcode in ("IADD3", "UIADD3", "IMAD", "LEA", "VIADD"):
        while count < len(operands) and _PREDICATE.match(operands[count]):
            count += 1
    return count


def _result_width(instruction: Instruction) -> int:
    kind = instruction.kind
    if kind.startswith(("ldg_", "lds_", "ldl_")):
        return max(1, instruction.width // 32)
    if kind == "tensor":
        return 4
    if kind == "fp64" or _DOUBLE_WIDE & set(instruction.modifiers):
        return 2
    return 2 if instruction.opcode == "CS2R" and "32" not in instruction.modifiers else 1


def _source_width(instruction: Instruction) -> int:
    kind = instruction.kind
    if kind.startswith(_STORES):
        return max(1, instruction.width // 32)
    return 2 if kind == "fp64" else 1


def _mentions(operand: str) -> list[tuple[str, int, bool]]:
    return [(u + letter, int(number), bool(wide)) for u, letter, number, wide in _REGISTER.findall(operand)]


def _named(text: str) -> list[Register]:
    return [(kind, number) for kind, number, _ in _mentions(text.lstrip("@!"))]
