"""Applying statements and programs to a kernel."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Program, Statement
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, For, If
from evolve.ir.verify import verify
from evolve.transforms import patterns
from evolve.transforms.call import Begun, Call
from evolve.transforms.edit import tidy
from evolve.transforms.names import NameTable

_FAMILIES = (
    *("balance", "grids", "hints", "iteration", "knowledge", "layouts", "loops", "mapping"),
    *("memory", "nests", "online", "overlap", "precision", "prefetch", "private", "recompute", "reductions"),
    *("resources", "reuse", "scans", "turns", "writes"),
)
for _family in _FAMILIES:
    import_module(f"evolve.transforms.{_family}")  # registers its primitives

MAX_DEPTH = 48
MAX_LOOPS = 256
"""Nesting of loops and guards, and loops in all: far beyond what a GPU kernel is written with."""


@dataclass(frozen=True)
class Applied:
    """A transformed kernel. `steps[i]` is the kernel after statement i; `names` what its names mean now."""

    kernel: Kernel
    names: NameTable
    steps: tuple[Kernel, ...]


def apply(kernel: Kernel, statement: Statement, names: NameTable) -> tuple[Kernel, NameTable]:
    """The kernel after one statement.

    Raises RefusedError with a code of the primitive's description in `dsl_spec/` when its
    precondition does not hold, or E-SIZE; the kernel is then unchanged. A precondition is cheap and local:
    whether the result computes the same is for `evolve.legality` to prove.
    """
    result, new_names = Begun(Call(kernel, names, statement)).result()
    _check_size(result)
    result = tidy(result)
    verify(result)
    return result, new_names


def _check_size(kernel: Kernel) -> None:
    """Raises RefusedError E-SIZE: passes walk the nest recursively, so its depth is bounded here."""
    pending = [(kernel.body, 0)]
    loops = 0
    while pending:
        block, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise RefusedError("E-SIZE", f"loops and guards would be nested deeper than {MAX_DEPTH}")
        for s in block.stmts:
            if isinstance(s, Block):
                pending.append((s, depth))
            elif isinstance(s, For | If):
                loops += isinstance(s, For)
                pending += [(s.body, depth + 1)]
                pending += [(s.orelse, depth + 1)] if isinstance(s, If) else []
    if loops > MAX_LOOPS:
        raise RefusedError("E-SIZE", f"the kernel would have more than {MAX_LOOPS} loops")


def apply_program(kernel: Kernel, program: Program) -> Applied:
    """All statements in order. Raises RefusedError blamed on the statement that does not apply.

    Programs that begin alike share that work: this thread remembers the last few.
    """
    states = _known(kernel, program.statements)
    for number in range(len(states), len(program.statements)):
        statement = program.statements[number]
        before = states[-1] if states else (kernel, NameTable())
        try:
            states.append(apply(before[0], statement, before[1]))
        except RefusedError as e:
            e.diagnostic = e.diagnostic.at(number, statement.line)
            raise
        finally:
            _remember(kernel, program.statements, states)
    last, names = states[-1] if states else (kernel, NameTable())
    return Applied(last, names, tuple(k for k, _ in states))


State = tuple[Kernel, NameTable]
_KEEP = 16
_memory = threading.local()


def forget() -> None:
    """Drops what this thread remembers of programs: for tests and timings."""
    _memory.__dict__.clear()


def _known(kernel: Kernel, statements: tuple[Statement, ...]) -> list[State]:
    """The states after as many of the statements as some program began with."""
    best: tuple[State, ...] = ()
    for source, begun, states in getattr(_memory, "runs", ()):
        alike = 0
        while alike < min(len(states), len(statements)) and begun[alike] == statements[alike]:
            alike += 1
        if alike > len(best) and (source is kernel or source == kernel):
            best = states[:alike]
    return list(best)


def _remember(kernel: Kernel, statements: tuple[Statement, ...], states: list[State]) -> None:
    runs: list[tuple[Kernel, tuple[Statement, ...], tuple[State, ...]]] = getattr(_memory, "runs", [])
    if runs and runs[-1][1] is statements:
        runs.pop()
    _memory.runs = [*runs[-_KEEP + 1 :], (kernel, statements, tuple(states))]


patterns.register(apply)
