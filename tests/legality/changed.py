"""Kernels from text after a program, changed by hand, and what the prover says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Stmt
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Verdict
from evolve.transforms.apply import apply_program

Change = Callable[[Stmt], "Stmt | tuple[Stmt, ...] | None"]
"""What `rewrite` makes of a statement."""


def source(text: str) -> Kernel:
    """The kernel as it is lifted."""
    return lift("kernel.cu", None, text).kernel


def target(text: str, program: str) -> Kernel:
    """The kernel after the program, barriers placed."""
    return finish(apply_program(source(text), parse(program)).kernel)


def verdict(text: str, program: str, change: Change | None = None) -> Verdict:
    """What is said of the kernel after the program, then changed. Raises AssertionError if nothing is."""
    made = target(text, program)
    if change is not None:
        changed = rewrite(made.body, change)
        assert changed != made.body, "nothing was changed"
        made = replace(made, body=changed)
    return prove(source(text), made)
