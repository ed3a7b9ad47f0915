"""What every sketch begins with: what timed launches say of flags, and what the numerics contract allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evolve.agents.expert.sketch import Sketch
from evolve.ir.approximate import approximable
from evolve.ir.expr import Binary, Const, Var
from evolve.ir.kernel import Kernel
from evolve.ir.settled import decided, held, under
from evolve.ir.types import DType
from evolve.workload.model import FAST_CONTRACTS


def assumed(kernel: Kernel, timed: Sequence[Mapping[str, int | float]]) -> tuple[Kernel, str]:
    """The kernel as the timed launches use it, and the statement that says so; itself and "" if they decide
    nothing of it."""
    data = {s.name: s.dtype for s in kernel.scalars if not s.is_size}
    values = {n: tuple(t[n] for t in timed if n in t) for n in data}
    conditions = list(decided(kernel, values))
    facts = tuple(
        Binary(op, Var(n, data[n]), Const(held(number, data[n]), data[n]), DType.BOOL)
        for n, op, number in conditions
    )
    if not facts:
        return kernel, ""
    text = " and ".join(f"{n} {op.value} {number}" for n, op, number in conditions)
    return replace(under(kernel, facts), assumptions=(*kernel.assumptions, *facts)), f"assume({text})\n"


def loosened(kernel: Kernel, numerics: str) -> str:
    """Statements that make approximate whatever may be under the contract."""
    if numerics not in FAST_CONTRACTS:
        return ""
    return "".join(f"set_precision({name}, fast)\n" for name in approximable(kernel))


def begun(sketches: Sequence[Sketch], head: str) -> list[Sketch]:
    """The sketches behind these statements."""
    return [replace(s, text=head + s.text) for s in sketches] if head else list(sketches)
