"""No check of the prover is idle: without it alone, a named wrong kernel is accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.expr import add, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, For, Origin, Store
from evolve.ir.types import LoopKind
from evolve.legality.prove import CHECKS, prove
from evolve.legality.verdict import Status
from tests.illegal.forcing import force, forgiving
from tests.illegal.forged import FORGED
from tests.illegal.lifted import source
from tests.illegal.programs import programs
from tests.kernels_ir import F32, ld, saxpy_in_place

LET_THROUGH = {
    "limits": "vecadd/block_of_2048_threads_in_two_axes",
    "layout": "swizzle_beyond_the_columns",
    "uniform": "barrier_of_half_the_threads",
    "bounds": "copy_past_the_edge",
    "equality": "product_for_a_sum",
    "races": "sweep/row_barrier_missing",
    "vector": "running_sum/sums_in_vectors",
    "online": "sum_that_keeps_its_scale",
    "coverage": "guard_one_too_narrow",
    "flow": "softmax/max_and_sum_in_one_sweep",
}
"""By check, what it alone refuses: a program of `programs/`, or a kernel of `forged`."""

MINE = {p.id: p for p in programs()}
THEIRS = {f.name: f for f in FORGED}


def wrong_kernel(name: str) -> tuple[Kernel, Kernel]:
    """Source and target."""
    if name in THEIRS:
        f = THEIRS[name]
        return source(f.kernel).kernel, f.build()
    p = MINE[name]
    kernel = source(p.kernel).kernel
    with forgiving(p.passed_over):
        return kernel, force(kernel, parse(p.text))


def test_every_check_is_named() -> None:
    assert LET_THROUGH.keys() == CHECKS.keys()


@pytest.mark.parametrize("check", LET_THROUGH)
def test_without_the_check_it_is_accepted(check: str) -> None:
    kernel, target = wrong_kernel(LET_THROUGH[check])
    assert prove(kernel, target).status is Status.REFUTED
    assert prove(kernel, target, skip={check}).status is Status.PROVED


def racing_source() -> Kernel:
    """y[i] = y[i + 1] on threads: each reads what another writes, so it means nothing in particular."""
    k = saxpy_in_place()
    store = Store("y", (var("i"),), ld("y", add(var("i"), 1)), Origin("S0", (var("i"),)))
    loop = For("i", add(var("n"), -1), LoopKind.PARALLEL, Block((store,)))
    assert store.value.dtype is F32
    return replace(k, body=Block((loop,)), assumptions=())


def test_a_source_that_races_is_refused() -> None:
    kernel = racing_source()
    target = finish(kernel)
    verdict = prove(kernel, target)
    assert verdict.status is Status.REFUTED
    assert verdict.diagnostics[0].code == "E-SOURCE-RACE"
    assert prove(kernel, target, skip={"source-race"}).status is Status.PROVED
