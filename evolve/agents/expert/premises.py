"""What every sketch begins with: what timed launches say of flags, and what the numerics contract allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evolve.agents.expert.sketch import Sketch
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.approximate import approximable
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Kernel
from evolve.ir.settled import decided
from evolve.transforms.apply import apply_program
from evolve.workload.model import FAST_CONTRACTS


def assumed(kernel: Kernel, timed: Sequence[Mapping[str, int | float]]) -> tuple[Kernel, str]:
    """The kernel as the timed launches use it, and the statement that says so; itself and "" if they decide
    nothing of it.

    Of what they decide only what `assume` takes: a comparison that stands where an earlier one says that
    nothing runs is gone by then, and not every number can be written.
    """
    names = (s.name for s in kernel.scalars if not s.is_size)
    values = {n: tuple(t[n] for t in timed if n in t) for n in names}
    taken: list[str] = []
    for name, op, number in decided(kernel, values):
        term = f"{name} {op.value} {number}"
        try:
            kernel = apply_program(kernel, parse(f"assume({term})")).kernel
        except (RefusedError, EvolveError):
            continue
        taken.append(term)
    return kernel, f"assume({' and '.join(taken)})\n" if taken else ""


def loosened(kernel: Kernel, numerics: str) -> str:
    """Statements that make approximate whatever may be under the contract."""
    if numerics not in FAST_CONTRACTS:
        return ""
    return "".join(f"set_precision({name}, fast)\n" for name in approximable(kernel))


def begun(sketches: Sequence[Sketch], head: str) -> list[Sketch]:
    """The sketches behind these statements."""
    return [replace(s, text=head + s.text) for s in sketches] if head else list(sketches)
