"""reuse."""

from __future__ import annotations

from dataclasses import replace

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import Expr, Load, index
from evolve.ir.kernel import Kernel
from evolve.ir.visit import map_block_exprs, map_expr, walk
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import MoveLimits, legal_moves
from evolve.transforms.names import NameTable
from tests.transforms.fixtures import KERNELS, applied, assert_same

CHUNKS = (
    "specialize(cols % 4 == 0)\nsplit([c, c_2], 4)\nonline(c.o, c_2.o)\ndistribute(c.i)\ndistribute(c_2.i)\n"
    "reuse(s, instead_of=s_2)"
)


def test_what_is_computed_twice_in_an_iteration_is_computed_once() -> None:
    at = applied("scores", "online(c, c_2)\nreuse(s, instead_of=s_2)")
    assert "s_2" not in str([s.stmt for s in walk(at.kernel.body)])
    assert_same(KERNELS["scores"](), at.kernel, 3, 7)
    assert prove(KERNELS["scores"](), at.kernel).proved
    assert "reuse(s, instead_of=s_2)" not in legal_moves(at.kernel, at.names)


def test_it_is_offered_where_one_is_there_for_the_other() -> None:
    at = applied("scores", "online(c, c_2)")
    moves = [m for m in legal_moves(at.kernel, at.names) if m.startswith("reuse")]
    assert moves == ["reuse(s, instead_of=s_2)"]


def test_chunks_keep_what_they_computed() -> None:
    kernel = applied("scores", CHUNKS).kernel
    for rows, cols in ((3, 4), (2, 24)):
        assert_same(KERNELS["scores"](), kernel, rows, cols)
    assert prove(KERNELS["scores"](), kernel).proved


def other_column(k: Kernel) -> Kernel:
    """Scores of the chunk's first column in place of each."""

    def first(e: Expr) -> Expr:
        taken = isinstance(e, Load) and e.buffer == "s" and "c_2" in str(e.indices)
        return replace(e, indices=(index(0),)) if isinstance(e, Load) and taken else e

    return replace(k, body=map_block_exprs(k.body, lambda e: map_expr(e, first)))


def test_the_score_of_another_column_is_refused() -> None:
    verdict = prove(KERNELS["scores"](), other_column(applied("scores", CHUNKS).kernel))
    assert verdict.status is Status.REFUTED
    assert {d.code for d in verdict.diagnostics} <= {"E-FLOW", "E-ONLINE"}


def test_scores_in_place_of_weights_are_refused() -> None:
    kernel = applied("scores", f"{CHUNKS}\nreuse(s, instead_of=p)").kernel
    verdict = prove(KERNELS["scores"](), kernel)
    assert verdict.status is Status.REFUTED


SUMS = """
__global__ void sums(const float *x, float *y, float *z, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0.0f, t = 0.0f;
    for (int k = 0; k < 32; k++) { s += x[r * 32 + k]; t += x[r * 32 + k]; }
    y[r] = s;
    z[r] = 2.0f * t;
}
"""


def test_under_exact_no_sum_stands_for_another() -> None:
    source = lift("k.cu", None, SUMS).kernel
    at = apply_program(source, parse("reuse(s, instead_of=t)"))
    target = finish(at.kernel)
    assert prove(source, target).proved
    refused = prove(source, target, Limits(numerics="exact"))
    (reason,) = refused.diagnostics
    assert refused.status is Status.REFUTED and reason.code == "E-NUMERICS" and "order" in reason.message
    assert reason.repair == "leave the statement out, or run with --numerics reassociate"
    for numerics, offered in (("exact", False), ("reassociate", True)):
        moves = legal_moves(source, NameTable(), MoveLimits(numerics=numerics))
        assert any(m.startswith("reuse") for m in moves) == offered
