"""Conditions on what is proved against what, on limits, and on what a verdict says.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.ir.expr import BinaryOp, Const, add, compare, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, For, Origin, Reduce, Stmt, Store
from evolve.ir.types import SUM, LoopKind, Space
from evolve.ir.visit import loads, substitute, walk
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits
from tests.illegal.forging import scheduled as rows_by
from tests.illegal.lifted import source
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin, transpose, vecadd
from tests.legality.changed import source as lifted
from tests.legality.changed import verdict
from tests.legality.edits import codes

EXACT = Limits(numerics="exact")
COUNTED = """
__global__ void counted(const float *x, const int *count, float *y, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    float s = 0.0f;
    for (int k = 0; k < count[n - 1 - r]; k++) s += x[k];
    y[r] = s;
  }
}
"""
GREATEST = """
__global__ void greatest(const {type} *x, {type} *y, int rows) {{
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {{
    {type} m = x[r * 8];
    for (int c = 1; c < 8; c++) m = {max}(m, x[r * 8 + c]);
    y[r] = m;
  }}
}}
"""


def test_statements_of_the_source_have_names_of_their_own() -> None:
    """Two of one name; the target does the second, and leaves the first."""
    k = vecadd()
    (nest,) = k.body.stmts
    assert isinstance(nest, For)
    (own,) = nest.body.stmts
    assert isinstance(own, Store)
    other = replace(own, indices=(add(var("i"), var("n")),))
    wide = (*k.buffers[:2], replace(k.buffers[2], extents=(add(var("n"), var("n")),)))

    def of(*body: Stmt) -> Kernel:
        return checked(replace(k, buffers=wide, body=Block((replace(nest, body=Block(body)),))))

    second = replace(other, origin=origin("S1", "i"))
    assert prove(of(own, second), finish(of(own, second))).proved
    assert codes(prove(of(own, other), finish(of(other)))) == {"E-SOURCE"}


def test_a_claim_names_all_loops_of_what_it_claims() -> None:
    idle = Alloc(buf("t", space=Space.REGISTER))
    value = op(BinaryOp.ADD, ld("a", var("i")), ld("b", var("i")))
    k = finish(vecadd())
    (nest,) = k.body.stmts
    assert isinstance(nest, For)

    def claiming(*instance: str) -> set[str]:
        more = Store("t", (), value, Origin("S0", tuple(map(var, instance))))
        body = replace(nest, body=Block((*nest.body.stmts, idle, more)))
        return codes(prove(vecadd(), replace(k, body=Block((body,)))))

    assert claiming("i") == set()
    for wrong in ((), ("i", "i")):
        assert claiming(*wrong) == {"E-COVERAGE"}


def test_each_extent_is_that_of_the_source() -> None:
    start = transpose()
    (x, y), rows, cols = start.buffers, var("rows"), var("cols")
    for extents in ((add(rows, 1), cols), (rows, add(cols, 1))):
        target = finish(replace(start, buffers=(replace(x, extents=extents), y)))
        assert codes(prove(start, target)) == {"E-SIGNATURE"}


def test_a_verdict_says_for_which_sizes_it_holds() -> None:
    k = finish(vecadd())
    assert prove(vecadd(), k).scope == "symbolic"
    for_one = replace(k, assumptions=(compare(BinaryOp.EQ, var("n"), 64),))
    assert prove(vecadd(), for_one).scope == "fixed{n=64}"


@pytest.mark.parametrize(("type_", "function", "zeros"), [("float", "fmaxf", 1), ("int", "max", 0)])
def test_only_floats_have_zeros_of_two_signs(type_: str, function: str, zeros: int) -> None:
    kernel = lifted(GREATEST.format(type=type_, max=function))
    found = prove(kernel, finish(kernel), EXACT)
    assert found.proved
    assert sum("zero" in x for x in found.premises) == zeros


def test_how_often_a_loop_runs_may_be_read_where_the_sizes_say() -> None:
    """count[63 - r] for count[n - 1 - r] where n is 64, and not another one."""
    fixed = "specialize(n == 64)\nbind(r, thread.x)"

    def next_one(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or not loads(s.extent):
            return None
        return replace(s, extent=substitute(s.extent, {"r": sub(var("r"), 1)}))

    assert verdict(COUNTED, fixed).proved
    assert codes(verdict(COUNTED, fixed, next_one)) & {"E-COVERAGE", "E-BOUNDS"}


def test_under_exact_a_sum_of_the_same_in_another_order_does_not_do() -> None:
    """y[0] is a sum over x, then z, and y[1] one over z, then x. The target has the first for both."""

    def summed(into: str, first: int, *arrays: str) -> tuple[Stmt, ...]:
        start = Store(into, (), Const(0.0, F32), origin(f"S{first}"))
        sweeps = [
            loop(f"k{n}", index(4), Reduce(into, (), SUM, ld(x, var(f"k{n}")), origin(f"S{n}", f"k{n}")))
            for n, x in enumerate(arrays, start=first + 1)
        ]
        return Alloc(buf(into, space=Space.REGISTER)), start, *sweeps

    def of(*body: Stmt) -> Kernel:
        arrays = (buf("x", index(4)), buf("z", index(4)), buf("y", index(2)))
        return checked(Kernel("of", ("x", "z", "y"), arrays, (), Block(body)))

    one, other = summed("s", 0, "x", "z"), summed("t", 3, "z", "x")
    first = Store("y", (index(0),), ld("s"), origin("S6"))
    second = Store("y", (index(1),), ld("t"), origin("S7"))
    start = of(*one, *other, first, second)
    target = of(*one, first, replace(second, value=ld("s")))
    assert prove(start, start, EXACT).proved
    assert prove(start, target).proved
    assert codes(prove(start, target, EXACT)) == {"E-NUMERICS"}


def by_lanes() -> Kernel:
    """Rows summed up by a warp each."""
    return rows_by("row_sum", "split(c, 32)\nbind(r, grid.x)\nwarp_reduce(c.i)")


def test_what_lanes_exchange_needs_no_shared_memory() -> None:
    """Only what a whole block combines goes through it, whatever loops there are besides."""
    start, target = source("row_sum").kernel, by_lanes()
    kinds = {s.stmt.kind for s in walk(target.body) if isinstance(s.stmt, For)}
    assert LoopKind.COMBINE_WARP in kinds
    assert prove(start, target, Limits(shared_bytes=0)).proved


def test_lanes_of_one_dimension_are_neighbours() -> None:
    start, target = source("row_sum").kernel, replace(by_lanes(), lanes=True)
    assert prove(start, target).proved
