"""What running sums add, begin with and are relative to: where that is not the source's, they are refused.

Each of these kernels would be taken for the source by a prover that lacks one of its conditions, and computes
something else, some only of infinite elements.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import BinaryOp, Const, Expr, Load, Select, compare, index, mod, var
from evolve.ir.kernel import Kernel
from evolve.ir.scaled import exp_of_difference, rescaling, safe
from evolve.ir.stmt import Alloc, Block, For, If, Leaf, Origin, Reduce, Stmt, Store
from evolve.ir.types import SUM, Space
from evolve.ir.visit import leaves, map_block_exprs, map_expr, rewrite, substitute_block
from evolve.legality.prove import prove
from evolve.transforms.apply import apply_program
from tests.interpreter import run
from tests.kernels_ir import F32, buf, ld, loop, op
from tests.legality.test_online_conditions import Edit, assert_said, edited, source, target
from tests.transforms.fixtures import KERNELS

ROW_BY_THREAD = "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n"
ROW_BY_LANES = (
    "specialize(cols % 8 == 0 and rows % 4 == 0)\nsplit(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"
    "split([c, c_2], 8)\nwarp_reduce([c.i, c_2.i])\nonline([c.o, c.i], [c_2.o, c_2.i])"
)
BEGINS = """
__global__ void sums(const float *x, float *y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < cols; c++) top = fmaxf(top, x[r * cols + c]);
"""


def differ(start: Kernel, k: Kernel, *, infinite: bool = False) -> bool:
    """Whether two kernels compute something else of large numbers, or of rows with an element of inf."""
    rng = np.random.default_rng(3)
    x, v = (rng.normal(size=(4, 32)) * scale for scale in (2000, 1))
    if infinite:
        x[:, 9] = np.inf
    given = {name: a for name, a in (("x", x), ("v", v)) if name in start.params}
    want, got = (run(f, given, {"rows": 4, "cols": 32})["y"] for f in (start, k))
    return not np.allclose(want, got, rtol=1e-6, equal_nan=True)


def assert_refused(start: Kernel, k: Kernel, words: str, *, infinite: bool = False) -> None:
    assert prove(start, start).proved
    assert differ(start, k, infinite=infinite)
    assert_said(k, words, start)


def instance(s: Leaf) -> tuple[Expr, ...]:
    """The loop variables of the source."""
    assert s.origin is not None
    return s.origin.instance


def another(s: Leaf) -> Origin:
    """One more statement of the source, in the loops of `s`."""
    return Origin("another", instance(s))


# ---- what is in the variable of a power


def added_to(s: Stmt) -> tuple[Stmt, ...] | None:
    if not isinstance(s, Store) or s.buffer != "e":
        return None
    return (s, Reduce("e", s.indices, SUM, ld("v", *instance(s)), another(s)))


def overwritten(s: Stmt) -> tuple[Stmt, ...] | None:
    if not isinstance(s, Store) or s.buffer != "e":
        return None
    odd = compare(BinaryOp.EQ, mod(instance(s)[-1], 2), 1)
    return (s, If(odd, Block((Store("e", s.indices, ld("v", *instance(s)), another(s)),))))


@pytest.mark.parametrize("edit", [added_to, overwritten])
def test_a_power_is_an_exponential_and_nothing_else(edit: Edit) -> None:
    """What else is there would be rescaled with it."""
    start, k = edited(source(), edit), edited(target(), edit)
    assert_refused(start, k, "adds something else than exponentials")


# ---- where a sum begins


def test_a_sum_begins_at_zero() -> None:
    def at_an_element(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or s.buffer != "sum" or s.origin is None:
            return None
        return replace(s, value=ld("v", *s.origin.instance, index(0)))

    start, k = edited(source(), at_an_element), edited(target(), at_an_element)
    assert_refused(start, k, "neither a start at zero nor a step")


def is_step(s: Stmt) -> bool:
    """Whether it brings the sum to a maximum that has grown."""
    found = rescaling(s) if isinstance(s, Leaf) and s.buffer == "sum" else None
    return found is not None and not found.ends


def test_no_sum_begins_with_a_zero_that_is_added() -> None:
    """What was added before that is not rescaled."""

    def then_zero(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Reduce) or s.buffer != "sum":
            return None
        return (s, replace(s, value=Const(0.0, F32), origin=another(s)))

    start = edited(source(), then_zero)
    k = edited(target(), then_zero, lambda s: () if is_step(s) else None)
    assert_refused(start, k, "neither a start at zero nor a step")


def factor(old: str) -> Store:
    """Brings the sum from one maximum to that of the sweep."""
    return Store("sum", (), op(BinaryOp.MUL, ld("sum"), exp_of_difference(ld(old), safe(ld("top")))))


def before_the_sweep(k: Kernel, *more: Stmt) -> Kernel:
    return edited(k, lambda s: (*more, s) if isinstance(s, For) and s.var == "c_2" else None)


def test_the_first_maximum_is_not_above_those_to_come() -> None:
    """Nothing is added yet; zero by an infinite factor is no number."""
    top = next(leaf for leaf, _ in leaves(target().body) if isinstance(leaf, Reduce) and leaf.buffer == "top")
    again = replace(top, buffer="whole", value=map_expr(top.value, _in_loop), origin=_moved(top))
    start = Store("whole", (), Const(float("-inf"), F32))
    whole = (Alloc(buf("whole", space=Space.REGISTER)), start, loop("c_9", var("cols"), again))
    k = before_the_sweep(target(), *whole, factor("whole"))
    assert_refused(source(), k, "to a maximum below the one it had")


def _in_loop(e: Expr) -> Expr:
    return var("c_9") if e == var("c_2") else e


def _moved(s: Reduce) -> Origin:
    assert s.origin is not None
    return replace(s.origin, instance=tuple(map_expr(e, _in_loop) for e in s.origin.instance))


def with_large(s: Stmt) -> tuple[Stmt, ...] | None:
    """Beside each sum's start."""
    if not isinstance(s, Store) or s.buffer != "sum" or s.origin is None:
        return None
    large = Store("large", (), Const(1e30, F32), another(s))
    return (s, Alloc(buf("large", space=Space.REGISTER)), large)


def test_nor_does_it_start_above_them() -> None:
    """A large number that the source has, too."""

    start = edited(source(), with_large)
    k = before_the_sweep(edited(target(), with_large), factor("large"))
    assert_refused(start, k, "to a maximum below the one it had")


def test_the_last_maximum_starts_like_the_source_s() -> None:
    """Of the same elements and of a large number that the source has, too."""
    sums = "for (int c = 0; c < cols; c++) sum += expf(x[r * cols + c] - top);"
    start = edited(lift("sums.cu", text=f"{BEGINS}    {sums}\n    y[r] = sum;\n}}").kernel, with_large)
    k = apply_program(start, parse(ROW_BY_LANES)).kernel
    assert prove(start, finish(k)).proved

    def of_large(e: Expr) -> Expr:
        return ld("large") if e == ld("top") else e

    def larger(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if not isinstance(s, For) or s.var not in ("c.i.all", "c.i.scale"):
            return None
        if s.var == "c.i.scale":
            return replace(s, body=map_block_exprs(s.body, lambda e: map_expr(e, of_large)))
        body = substitute_block(s.body, {s.var: var("again")})
        body = rewrite(body, lambda x: replace(x, buffer="large") if isinstance(x, Reduce) else None)
        return (s, replace(s, var="again", body=body))

    assert_refused(start, edited(k, larger), "ends with another maximum than the source has")


# ---- exponents are the source's


def test_a_maximum_of_some_elements_bounds_no_others() -> None:
    def some(s: Stmt) -> Stmt | None:
        even = compare(BinaryOp.EQ, mod(var("c_2"), 2), 0)
        return If(even, Block((s,))) if isinstance(s, Reduce) and s.buffer == "top" else None

    start, k = edited(source(), some), edited(target(), some)
    assert_refused(start, k, "above the maximum so far")


def test_what_the_maximum_is_taken_from_elsewhere_is_not_followed() -> None:
    """Right, and refused: where the source takes the maximum away it evaluates no exponential."""
    sums = "for (int c = 0; c < cols; c++) { float d[1]; d[0] = x[r * cols + c] - top; sum += expf(d[0]); }"
    start = lift("sums.cu", text=f"{BEGINS}    {sums}\n    y[r] = sum;\n}}").kernel
    k = apply_program(start, parse(f"{ROW_BY_THREAD}inline(d)\nonline(c, c_2)")).kernel
    assert not differ(start, k)
    assert_said(k, "not that of its own exponents", start)


def test_the_maximum_may_be_the_source_s_choice() -> None:
    """Where a condition of the source always holds, the target need not ask."""

    def chosen(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != "top":
            return e
        return Select(compare(BinaryOp.LT, var("c_3"), var("cols")), e, Const(0.0, F32), F32)

    def one(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or s.buffer != "e":
            return None
        return replace(s, value=map_expr(s.value, chosen))

    start = edited(source(), one)
    assert prove(start, finish(target())).proved
    assert not differ(start, target())


def test_a_weight_may_come_after_an_exponential() -> None:
    """Of exponents that both sweeps compute."""
    power = next(leaf.value for leaf, _ in leaves(KERNELS["scores"]().body) if leaf.buffer == "p")
    weighted = op(BinaryOp.MUL, power, ld("v", var("c_2"), index(0)))
    start = edited(
        KERNELS["scores"](),
        lambda s: replace(s, value=weighted) if isinstance(s, Reduce) and s.buffer == "t" else None,
    )
    k = apply_program(start, parse("online(c, c_2)")).kernel
    assert prove(start, finish(k)).proved


# ---- a sum of some of the elements that its maximum is of

SOME = "for (int c = 0; c < cols; c++) { if (c / 8 % 2 == 0) sum += expf(x[r * cols + c] - top); }"


def test_a_sum_of_some_elements_is_no_part_of_a_total_because_it_is_kept() -> None:
    """Where one of the others is inf, the source has 0 and a running sum is NaN."""
    kept = f"{BEGINS}    {SOME}\n    float t[1]; t[0] = 2.0f * sum;\n    y[r] = t[0] + 1.0f;\n}}"
    start = lift("sums.cu", text=kept).kernel
    k = apply_program(start, parse(f"{ROW_BY_THREAD}online(c, c_2)")).kernel
    assert_refused(start, k, "ends a sum of other elements than its maximum is of", infinite=True)


def test_nor_is_it_one_of_a_total_in_memory_that_has_no_others() -> None:
    text = BEGINS.replace(", sum = 0.0f", "") + f"    y[r] = 0.0f;\n    {SOME.replace('sum', 'y[r]')}\n}}"
    start = lift("sums.cu", text=text).kernel
    k = apply_program(start, parse(ROW_BY_LANES)).kernel
    assert_refused(start, k, "ends a sum of other elements than its maximum is of", infinite=True)
