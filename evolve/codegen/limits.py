"""What is refused before it reaches a compiler, because it would take minutes there and run badly."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from math import prod

from evolve.codegen.errors import CodegenError
from evolve.codegen.place import Place
from evolve.ir.affine import Ranges
from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.layout import Layout
from evolve.ir.stmt import Buffer
from evolve.ir.visit import map_block_exprs, variables

MAX_REGISTERS = 256
"""32-bit registers that the buffers of one thread may take; the hardware has 255."""

MAX_INSTANCES = 4096
"""Statements of a kernel after unrolling: about a second in NVRTC, which cannot be interrupted."""


def check_registers(layouts: Mapping[str, Layout], buffers: Mapping[str, Buffer]) -> None:
    """Raises CodegenError when the register buffers of a thread cannot be in registers."""
    total = 0
    for name, layout in layouts.items():
        total += prod(layout.slots) * (2 if buffers[name].dtype.size == 8 else 1)
    if total > MAX_REGISTERS:
        raise CodegenError(
            f"the register buffers take {total} registers a thread, and there are {MAX_REGISTERS - 1}",
            hint="spread them over more threads, or stage in shared memory",
        )


def add_instances(before: int, place: Place, unrolled: AbstractSet[str], ranges: Ranges) -> int:
    """`before` and the copies that unrolling makes of a statement at `place`. Raises CodegenError."""
    copies = 1
    for loop in place.loops:
        _, last = ranges.of(loop.var)
        if loop.var in unrolled and last is not None:
            copies *= last + 1
    if before + copies > MAX_INSTANCES:
        raise CodegenError(
            f"unrolling makes more than {MAX_INSTANCES} statements", hint="unroll fewer or shorter loops"
        )
    return before + copies


def check_askable(kernel: Kernel) -> None:
    """Raises CodegenError when the code would depend on a size that no parameter has."""
    used: set[str] = set()

    def note(e: Expr) -> Expr:
        used.update(variables(e))
        return e

    map_block_exprs(kernel.body, note)
    for fact in kernel.assumptions:
        note(fact)
    missing = sorted(used & kernel.implied)
    if missing:
        raise CodegenError(f"the code would need {missing[0]}, which is no parameter of the kernel")
