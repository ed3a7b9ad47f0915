"""What is offered next, most of it not made, is what would be offered of all results, asked anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.program import Program
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.transforms.apply import apply_program
from evolve.transforms.call import Begun, Call
from evolve.transforms.changes import changes
from evolve.transforms.fits import CONDITIONS, Fit
from evolve.transforms.launched import Launched
from evolve.transforms.moves import MoveLimits, candidates
from evolve.transforms.names import NameTable
from evolve.transforms.taken import Taken, bytes_of, taken, taken_by
from tests.illegal.lifted import EXAMPLES, source

LIMITS = MoveLimits()
EACH = 12
KERNELS = ("attention", "column_sum", "layernorm", "matmul", "spmv", "total", "transpose")
"""Registers that threads share out, rows of several lengths, two launches, tiles in shared memory."""


def state(name: str) -> tuple[Kernel, NameTable]:
    """A kernel after two thirds of its program: threads are bound, and more can be."""
    statements = parse((EXAMPLES / "programs" / f"{name}.dsl").read_text()).statements
    at = apply_program(source(name).kernel, Program(statements[: -(-len(statements) * 2 // 3)]))
    return at.kernel, at.names


def begun(kernel: Kernel, names: NameTable) -> dict[str, Begun]:
    """Candidates whose preconditions hold, up to `EACH` of a primitive from all over the kernel."""
    by: dict[str, dict[str, Begun]] = defaultdict(dict)
    for text, *_ in candidates(kernel, LIMITS):
        with suppress(RefusedError):
            by[text.split("(")[0]][text] = Begun(Call(kernel, names, parse_statement(text)))
    return {text: found[text] for found in by.values() for text in list(found)[:: -(-len(found) // EACH)]}


def held_anew(kernel: Kernel) -> dict[str, bool]:
    return {n: all(holds(Launched(p), LIMITS) for p in launches(kernel)) for n, holds in CONDITIONS.items()}


def in_any_order(found: Taken) -> list[Counter[object]]:
    """A reordered nest takes the same, and so does a tile whose elements lie otherwise."""
    shared = ((b.name, bytes_of(b)) for b in found.shared)
    return [Counter(x) for x in (found.threads, found.grid, found.combines, shared, found.registers)]


def grounds(kernel: Kernel) -> dict[str, object]:
    """What the conditions look at."""
    threads, grid, combines, shared, registers = in_any_order(taken(kernel.body))
    return {
        "threads": (kernel.max_threads, threads),
        "lanes": (kernel.lanes, threads),
        "shared": shared,
        "grid": grid,
        "combines": (combines, threads),
        "registers": (registers, threads),
    }


@pytest.mark.parametrize("name", KERNELS)
def test_offered_is_what_the_results_keep(name: str) -> None:
    kernel, names = state(name)
    before, ground, fit = held_anew(kernel), grounds(kernel), Fit(kernel, LIMITS)
    for text, move in begun(kernel, names).items():
        result = move.result()[0]
        now = grounds(result)
        looked_at = [n for n in CONDITIONS if before[n] and now[n] != ground[n]]
        after = held_anew(result) if looked_at else {}
        assert fit.keeps(move) == all(after[n] for n in looked_at), text
        if move.has_said and move.takes is None:
            assert now == ground, text
        found = changes(kernel.body, result.body)
        gone, new = in_any_order(taken_by(found.gone)), in_any_order(taken_by(found.new))
        is_same = in_any_order(taken(kernel.body)) == in_any_order(taken(result.body))
        assert (gone == new) == is_same, text
