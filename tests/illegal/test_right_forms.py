"""Forms of collectives that no program makes and that are right: proved, and they run clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evolve.compiler.compile import Source, finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import Const, Expr, Load, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, For, Leaf, Stmt, Store
from evolve.ir.types import LoopKind
from evolve.ir.verify import verify
from evolve.ir.visit import map_expr
from evolve.legality.prove import prove
from evolve.transforms.apply import apply_program
from tests.illegal.forging import F32, change, good, the, with_loop
from tests.illegal.lifted import Workload, source, workload
from tests.illegal.running import run_kernel
from tests.interpreter import run
from tests.legality.test_data_loops import DOTS, DOTS_BY, ROWS_OF_THREADS

Form = tuple[str, Callable[[], Kernel], dict[str, int]]


def held_as(k: Kernel, buffer: str, *extents: int, at: tuple[Expr, ...]) -> Kernel:
    """The kernel with a buffer of other extents, accessed at one place."""

    def read(e: Expr) -> Expr:
        return replace(e, indices=at) if isinstance(e, Load) and e.buffer == buffer else e

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name == buffer:
            return replace(s, buffer=replace(s.buffer, extents=tuple(map(index, extents))))
        if isinstance(s, Leaf):
            new = replace(s, value=map_expr(s.value, read))
            return replace(new, indices=at) if s.buffer == buffer else new
        return None

    return change(k, one)


def totals_of_rows_in_one_buffer() -> Kernel:
    """Declared around the rows of threads, of which each scans for itself."""
    k = held_as(good("cumsum", 1), "acc", 4, at=(var("r.i"),))
    declared = the(k, lambda s: isinstance(s, Alloc) and s.buffer.name == "acc")
    k = change(k, lambda s: () if s == declared else None)
    return with_loop(k, "r.o", lambda s: replace(s, body=Block((declared, *s.body.stmts))))


def totals_before_in_a_register_of_each_thread() -> Kernel:
    """Each thread writes its own in its turn."""
    k = held_as(good("cumsum"), "acc_before", at=())
    start = Store("acc_before", (), Const(-0.0, F32))

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, start) if isinstance(s, Alloc) and s.buffer.name == "acc_before" else None

    return change(k, one)


def rows_combined_by_the_block() -> Kernel:
    """Partials of all rows of threads in one buffer, each row combined apart."""

    def one(s: Stmt) -> Stmt | None:
        warp = isinstance(s, For) and s.kind is LoopKind.COMBINE_WARP
        return replace(s, kind=LoopKind.COMBINE_BLOCK) if isinstance(s, For) and warp else None

    return change(good("scores", 3), one)


FORMS: list[Form] = [
    ("cumsum", totals_of_rows_in_one_buffer, {"rows": 8, "cols": 70}),
    ("cumsum", totals_before_in_a_register_of_each_thread, {"rows": 5, "cols": 256}),
    ("scores", rows_combined_by_the_block, {"rows": 8, "cols": 24}),
]


@pytest.mark.parametrize(("name", "build", "sizes"), FORMS, ids=[f.__name__ for _, f, _ in FORMS])
def test_it_is_right(name: str, build: Callable[[], Kernel], sizes: dict[str, int], cache: Path) -> None:
    kernel = build()
    verify(kernel)
    verdict = prove(source(name).kernel, kernel)
    assert verdict.proved, verdict.diagnostics
    out = run_kernel(source(name), kernel, workload(name, dict(sizes)), cache)
    assert out.clean, out


@pytest.mark.parametrize("rows", ["bind(r, grid.x)\n", ROWS_OF_THREADS])
def test_warps_meet_once_for_each_entry_of_their_rows(rows: str, cache: Path) -> None:
    lifted = lift("dots.cu", text=DOTS)
    target = finish(apply_program(lifted.kernel, parse(rows + DOTS_BY.format(32))).kernel)
    rng = np.random.default_rng(0)
    lengths = [0, 3, 1, 5, 0, 2, 4]
    scalars = {"rows": 7, "depth": 70, "col_size": sum(lengths), "b_size": 5}
    arrays = {
        "rowptr": np.cumsum([0, *lengths]).astype(np.int32),
        "col": rng.integers(0, 5, sum(lengths)).astype(np.int32),
        "a": rng.normal(size=(7, 70)).astype(np.float32),
        "b": rng.normal(size=(5, 70)).astype(np.float32),
        "y": np.zeros(7, np.float32),
    }
    given = {name: a for name, a in arrays.items() if name != "y"}
    wanted = {"y": run(lifted.kernel, given, scalars)["y"]}
    work = Workload(scalars, arrays, frozenset({"y"}), frozenset(), wanted)
    out = run_kernel(Source(lifted.kernel, lifted.original, lifted.no_wrap), target, work, cache)
    assert out.clean, out
