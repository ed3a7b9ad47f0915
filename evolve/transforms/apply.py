"""Applying statements and programs to a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Program, Statement
from evolve.ir.kernel import Kernel
from evolve.ir.verify import verify
from evolve.transforms import knowledge, loops, mapping, memory, nests, reductions
from evolve.transforms.call import TRANSFORMS, Call
from evolve.transforms.edit import tidy
from evolve.transforms.names import NameTable

_FAMILIES = (knowledge, loops, mapping, memory, nests, reductions)
"""Imported so that they register their primitives."""


@dataclass(frozen=True)
class Applied:
    """A transformed kernel. `steps[i]` is the kernel after statement i; `names` what its names mean now."""

    kernel: Kernel
    names: NameTable
    steps: tuple[Kernel, ...]


def apply(kernel: Kernel, statement: Statement, names: NameTable) -> tuple[Kernel, NameTable]:
    """The kernel after one statement.

    Raises RefusedError with a code of the primitive's description in `dsl_spec/` when its
    precondition does not hold; the kernel is then unchanged. A precondition is cheap and local:
    whether the result computes the same is for `evolve.legality` to prove.
    """
    result, new_names = TRANSFORMS[statement.primitive](Call(kernel, names, statement))
    result = tidy(result)
    verify(result)
    return result, new_names


def apply_program(kernel: Kernel, program: Program) -> Applied:
    """All statements in order. Raises RefusedError blamed on the statement that does not apply."""
    names = NameTable()
    steps: list[Kernel] = []
    for number, statement in enumerate(program.statements):
        try:
            kernel, names = apply(kernel, statement, names)
        except RefusedError as e:
            e.diagnostic = e.diagnostic.at(number, statement.line)
            raise
        steps.append(kernel)
    return Applied(kernel, names, tuple(steps))
