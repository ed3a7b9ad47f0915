"""Conditions of comparing statements and what they read that nothing else holds in place.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.compiler.compile import finish
from evolve.ir.expr import (
    TRUE,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    compare,
    index,
    mod,
    mul,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, For, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, Space
from evolve.ir.visit import loads, map_expr
from evolve.legality.prove import prove
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin
from tests.legality.changed import Change, target, verdict
from tests.legality.changed import source as lifted
from tests.legality.edits import codes
from tests.legality.judge import Launch, why_wrong

N, AT = var("n"), var("i")
FIRST = (index(0),)
SIZE = (Scalar("n", DType.I32, True),)


def kernel(*body: Stmt) -> Kernel:
    """From n elements of x and n integers of k to n of y and z, in order."""
    arrays = (buf("x", N), buf("k", N, dtype=DType.I32), buf("y", N), buf("z", N))
    return checked(Kernel("of", ("x", "k", "y", "z", "n"), arrays, SIZE, Block(body)))


def each(value: Expr, *before: Stmt) -> Kernel:
    """y[i] = value for each i, after other statements."""
    return kernel(*before, loop("i", N, Store("y", (AT,), value, origin("S0", "i"))))


def register(name: str) -> Alloc:
    return Alloc(buf(name, space=Space.REGISTER))


def summed(into: str, name: str, *, at: str, of: str = "x") -> For:
    return loop(at, N, Reduce(into, (), SUM, ld(of, var(at)), origin(name, at)))


def started(into: str, name: str, value: float = 0.0) -> tuple[Stmt, ...]:
    return register(into), Store(into, (), Const(value, F32), origin(name))


def kept(into: str, value: str, name: str) -> Store:
    return Store(into, FIRST, ld(value), origin(name))


def found(source: Kernel, made_of_it: Kernel) -> set[str]:
    """The codes of what is not proved; the source itself is."""
    assert prove(source, finish(source)).proved
    made = prove(source, finish(made_of_it))
    assert not made.proved
    return codes(made)


def proved(source: Kernel, made_of_it: Kernel, **sizes: int) -> bool:
    """Whether it is proved; what is must run to the same end."""
    made = finish(made_of_it)
    assert why_wrong(source, made, Launch(sizes)) is None
    return prove(source, made).proved


# ---- contributions


def test_a_combination_adds_its_partial_as_it_is() -> None:
    """Not twice what it holds, nor what it holds with another sign."""
    start, end = started("acc", "S0"), kept("y", "acc", "S2")
    source = kernel(*start, summed("acc", "S1", at="j"), end)
    partial = (register("part"), Store("part", (), Const(-0.0, F32)), summed("part", "S1", at="j"))

    def combined(value: Expr) -> Kernel:
        return kernel(*start, *partial, Reduce("acc", (), SUM, value), end)

    assert prove(source, combined(ld("part"))).proved
    assert found(source, combined(op(BinaryOp.MUL, ld("part"), Const(2.0, F32)))) == {"E-REDUCTION"}
    assert found(source, combined(op(BinaryOp.ADD, ld("part"), Const(1.0, F32)))) == {"E-REDUCTION"}


def test_a_partial_may_start_with_the_neutral_literal_of_the_source() -> None:
    start, end = started("acc", "S0", -0.0), kept("y", "acc", "S2")
    source = kernel(*start, summed("acc", "S1", at="j"), end)
    partial = (*started("part", "S0", -0.0), summed("part", "S1", at="j"))
    fold = Reduce("acc", (), SUM, ld("part"))
    assert proved(source, kernel(*start, *partial, fold, end), n=3)
    other = (*started("part", "S0"), summed("part", "S1", at="j"))
    assert found(source, kernel(*start, *other, fold, end)) & {"E-EXPR", "E-REDUCTION"}


def test_a_variable_may_gather_a_maximum_and_then_a_sum() -> None:
    """Which operations a value has seen are those since it was stored last."""
    again = Store("acc", (), Const(0.0, F32), origin("S3"))
    largest = loop("j", N, Reduce("acc", (), MAX, ld("x", var("j")), origin("S1", "j")))
    end = (kept("y", "acc", "S2"), again, summed("acc", "S4", at="m"), kept("z", "acc", "S5"))
    source = kernel(*started("acc", "S0", float("-inf")), largest, *end)
    assert prove(source, finish(source)).proved
    assert prove(source, kernel(*started("acc", "S0", float("-inf")), largest, *end)).proved


def test_equal_contributions_of_two_sums_do_not_meet_in_one() -> None:
    """Both sums are of x: each of their contributions stands for the other, but one sum takes one."""
    s, t = started("s", "S0"), started("t", "S1")
    ends = (kept("y", "s", "S4"), kept("z", "t", "S5"))
    source = kernel(*s, *t, summed("s", "S2", at="j"), summed("t", "S3", at="m"), *ends)
    other = Reduce("s", (), SUM, ld("x", var("j")), origin("S3", "j"))
    mine = Reduce("s", (), SUM, ld("x", var("j")), origin("S2", "j"))

    def into_s(*adds: Stmt) -> Kernel:
        return kernel(*s, *t, loop("j", N, *adds), summed("t", "S3", at="m"), *ends)

    assert prove(source, into_s(mine)).proved
    assert found(source, into_s(mine, other)) == {"E-REDUCTION"}


# ---- subscripts and conditions


def test_a_chosen_value_is_one_however_the_choice_is_said() -> None:
    a, b = ld("x", AT), Cast(ld("k", AT, dtype=DType.I32), F32)

    def choice(cond: Expr) -> Kernel:
        return each(Select(cond, a, b, F32))

    later = choice(compare(BinaryOp.GE, AT, 1))
    assert prove(later, choice(compare(BinaryOp.NE, AT, 0))).proved
    assert found(later, choice(compare(BinaryOp.NE, AT, 1))) == {"E-EXPR"}


def test_a_condition_may_be_one_on_loops_where_it_is_asked_only() -> None:
    """`i * j < 4` is none on a loop over j; for j = 1, of which the target has a copy, it is `i < 4`."""
    n, i, j = N, AT, var("j")

    def pairs(*body: Stmt) -> Kernel:
        arrays = (buf("x", n), buf("y", n, index(2)))
        return checked(Kernel("pairs", ("x", "y", "n"), arrays, SIZE, Block((loop("i", n, *body),))))

    def chosen(j: Expr, cond: Expr) -> Store:
        value = Select(cond, ld("x", i), Const(0.0, F32), F32)
        return Store("y", (i, j), value, Origin("S0", (i, j)))

    source = pairs(loop("j", index(2), chosen(j, compare(BinaryOp.LT, mul(i, j), 4))))
    first, few = chosen(index(0), TRUE), compare(BinaryOp.LT, i, 4)
    assert prove(source, pairs(first, chosen(index(1), few))).proved
    assert found(source, pairs(first, chosen(index(1), TRUE))) == {"E-EXPR"}


SQUARES = mod(mul(AT, AT), 64)


def test_a_place_that_cannot_be_said_is_no_other_place() -> None:
    plain, squared = each(ld("x", AT)), each(ld("x", SQUARES))
    assert prove(squared, finish(squared)).proved
    assert found(plain, squared) == {"E-EXPR"}
    assert found(squared, plain) == {"E-EXPR"}


def test_a_place_is_chosen_alike_where_the_choice_is_settled() -> None:
    given = Cast(ld("k", AT, dtype=DType.I32), DType.INDEX)
    chosen = Select(compare(BinaryOp.GE, AT, 0), AT, given, DType.INDEX)
    for a, b in ((AT, chosen), (chosen, AT), (chosen, chosen)):
        assert proved(each(ld("x", a)), each(ld("x", b)), n=3)
    other = replace(chosen, then=given, orelse=AT)
    assert found(each(ld("x", chosen)), each(ld("x", other))) == {"E-EXPR"}


def test_what_is_read_at_places_that_cannot_be_said_does_not_change_meanwhile() -> None:
    """Its first element is another while y is computed, and afterwards what it was."""
    source = each(ld("x", SQUARES))
    keep, spoil, restore = (
        Store("t", (), ld("x", *FIRST)),
        Store("x", FIRST, ld("x", index(1))),
        Store("x", FIRST, ld("t")),
    )
    nest = each(ld("x", SQUARES)).body.stmts
    assert prove(source, kernel(register("t"), keep, *nest)).proved
    guard = compare(BinaryOp.GE, N, 2)
    start = replace(source, assumptions=(guard,))
    changed = replace(kernel(register("t"), keep, spoil, *nest, restore), assumptions=(guard,))
    assert prove(start, finish(start)).proved
    assert "E-EXPR" in codes(prove(start, changed))


# ---- types


def test_an_integer_that_is_rounded_on_its_way_is_another_number() -> None:
    number = ld("k", AT, dtype=DType.I32)
    rounded = Cast(Cast(number, DType.BF16), F32)
    assert found(each(Cast(number, F32)), each(rounded)) == {"E-EXPR"}


def test_an_element_that_is_converted_is_no_element_that_was_rounded() -> None:
    assert found(each(ld("x", AT)), each(Cast(ld("k", AT, dtype=DType.I32), F32))) == {"E-EXPR"}


# ---- what is computed again

CHOSEN = """
__global__ void chosen(const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float t[16];
  for (int k = 0; k < 16; ++k)
    t[k] = k < 8 ? x[r * 16 + k] : 2.0f * x[r * 16 + k];
  for (int c = 0; c < 16; ++c)
    y[r * 16 + c] = t[c];
}
"""
GUARDED = """
__global__ void guarded(const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float t[16];
  for (int k = 0; k < 8; ++k)
    t[k] = x[r * 16 + k] - x[r * 16 + 15 - k];
  for (int c = 0; c < 16; ++c)
    y[r * 16 + c] = c < 8 ? t[c] : 0.0f;
}
"""
CHAINED = """
__global__ void chained(const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float t[16], u[16];
  for (int k = 0; k < 8; ++k)
    t[k] = x[r * 16 + k] - x[r * 16 + 15 - k];
  for (int k = 0; k < 16; ++k)
    u[k] = k < 8 ? t[k] : x[r * 16 + k];
  for (int c = 0; c < 16; ++c)
    y[r * 16 + c] = c > 3 ? u[c] : 0.0f;
}
"""
UNFILLED = GUARDED.replace("c < 8 ? t[c] : 0.0f", "t[c]")
"""Of which half the sums are of what was never written."""


def in_place(of: Callable[[Load], Expr]) -> Change:
    """y is given what `of` makes of the element of x that it would be given."""

    def one(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or s.buffer != "y":
            return None
        return replace(s, value=of(next(x for x in loads(s.value) if x.buffer == "x")))

    return one


def test_what_is_computed_again_is_chosen_as_what_was_stored() -> None:
    assert verdict(CHOSEN, "inline(t)").proved
    always = verdict(CHOSEN, "inline(t)", in_place(lambda first: first))
    assert codes(always) == {"E-EXPR"}


def test_only_what_is_read_is_computed_again() -> None:
    assert proved(lifted(GUARDED), target(GUARDED, "inline(t)"), rows=2)
    assert "E-EXPR" in codes(verdict(GUARDED, "inline(t)", in_place(lambda first: first)))


def test_a_guard_around_what_is_computed_again_is_asked_where_it_is() -> None:
    assert proved(lifted(CHAINED), target(CHAINED, "inline(t)\ninline(u)"), rows=2)

    def always(s: Stmt) -> Stmt | None:
        return replace(s, value=map_expr(s.value, unguarded)) if isinstance(s, Store) else None

    def unguarded(e: Expr) -> Expr:
        return e.then if isinstance(e, Select) and isinstance(e.orelse, Load) else e

    assert codes(verdict(CHAINED, "inline(t)\ninline(u)", always)) == {"E-EXPR"}


def test_what_was_never_written_is_not_computed_again() -> None:
    assert codes(verdict(UNFILLED, "inline(t)")) == {"E-EXPR"}
