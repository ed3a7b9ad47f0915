"""What a warp executes in all, checked against the arithmetic that the kernel's meaning needs.

Trip counts are inferred from memory accesses. A loop without any, or one whose accesses mislead, would make a
kernel look faster than it is; but no correct program does less arithmetic than there are distinct values to
compute. Where the machine code with its trip counts falls short of that, the inferred loops are scaled up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from evolve.devices.counted import counted_loops
from evolve.devices.trips import Counts
from evolve.toolchain.instructions import Instruction, Mix
from evolve.toolchain.sass import Sass

_ARITHMETIC = ("fp32_fma", "fp32_add", "fp32_mul", "fp32_other", "fp16", "mufu")
_TWO_RESULTS = ("FFMA2", "FADD2", "FMUL2", "FMNMX3")
_SLACK = 0.98


@dataclass(frozen=True)
class Work:
    """Trip counts that are consistent with the arithmetic. `scaled` is what the inferred ones were multiplied
    by, 1 where nothing was wrong; `share` is executed over needed fp32 results afterwards (1 where the need
    is not known), below 1 when no loop could make up for what is missing."""

    counts: Counts
    scaled: float
    share: float


def executed(sass: Sass, counts: Counts) -> Mix:
    """Instructions that a warp executes."""
    total = Mix()
    for block, times in zip(sass.blocks, counts.blocks, strict=True):
        if not block.cold and times > 0:
            total = total + Mix.of(iter(sass.instructions[block.first : block.last + 1])) * times
    return total


def conserved(sass: Sass, counts: Counts, needed: float) -> Work:
    """`counts` with at least `needed` fp32 results a thread.

    Matrix units and half precision in pairs do several results an instruction: kernels with tensor
    instructions are left alone.
    """
    if needed <= 0 or executed(sass, counts)["tensor"]:
        return Work(counts, 1.0, 1.0)
    each = [_results(sass.instructions[b.first : b.last + 1]) if not b.cold else 0.0 for b in sass.blocks]
    done = [n * times for n, times in zip(each, counts.blocks, strict=True)]
    have = sum(done)
    if have >= _SLACK * needed:
        return Work(counts, 1.0, have / needed)
    roots = _inferred(sass, counts, each)
    inside = {b for i in roots for b in sass.loops[i].blocks}
    growing = sum(done[b] for b in inside)
    if growing <= 0:
        return Work(counts, 1.0, have / needed)
    by = (needed - (have - growing)) / growing
    loops = {i: times * (by if i in roots else 1.0) for i, times in counts.loops.items()}
    blocks = tuple(times * (by if n in inside else 1.0) for n, times in enumerate(counts.blocks))
    return Work(Counts(loops, blocks), by, 1.0)


def _results(code: Collection[Instruction]) -> float:
    return float(sum((i.kind in _ARITHMETIC) * (2 if i.opcode in _TWO_RESULTS else 1) for i in code))


def _inferred(sass: Sass, counts: Counts, each: list[float]) -> set[int]:
    """Of every nest the outermost loop with arithmetic whose trips do not stand in the code."""
    counted = counted_loops(sass)
    found: set[int] = set()
    covered: set[int] = set()
    for index, loop in enumerate(sass.loops):
        if loop.parent in covered:
            covered.add(index)
        elif index not in counted and any(each[b] * counts.blocks[b] > 0 for b in loop.blocks):
            found.add(index)
            covered.add(index)
    return found
