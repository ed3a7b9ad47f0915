"""Conditions of running sums that nothing else holds in place: without each of them one of these fails.

Some of what is refused here is harmless in itself; the prover does not follow it, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import islpy as isl
import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import Binary, Call, Const, Expr, Load
from evolve.ir.kernel import Kernel
from evolve.ir.poly import NonAffineError
from evolve.ir.scaled import rescaling
from evolve.ir.stmt import Alloc, Leaf, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, Space
from evolve.ir.visit import leaves, map_expr, rewrite
from evolve.legality import exponentials, online
from evolve.legality.exponentials import WrongError
from evolve.legality.flow import FlowError
from evolve.legality.pairing import MismatchError
from evolve.legality.prove import prove
from evolve.legality.verdict import Verdict
from evolve.transforms.apply import apply_program
from tests.kernels_ir import buf

PEAKS = """
__global__ void peaks(const float *x, const float *v, float *p, float *y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float peak = -INFINITY, top = -INFINITY, sum = 0.0f, mean = 0.0f;
    for (int c = 0; c < cols; c++) peak = fmaxf(peak, v[r * cols + c]);
    for (int c = 0; c < cols; c++) top = fmaxf(top, x[r * cols + c]);
    for (int c = 0; c < cols; c++) {
        float e[1];
        e[0] = expf(x[r * cols + c] - top);
        sum += e[0];
        mean += e[0] * v[r * cols + c];
    }
    y[r] = sum + mean + peak;
}
"""
PROGRAM = "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\nonline(c_2, c_3)"
Edit = Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]


@cache
def source() -> Kernel:
    return lift("peaks.cu", text=PEAKS).kernel


@cache
def target() -> Kernel:
    return apply_program(source(), parse(PROGRAM)).kernel


def edited(k: Kernel, *edits: Edit) -> Kernel:
    for f in edits:
        new = replace(k, body=rewrite(k.body, f))
        assert new != k
        k = new
    return k


def said(k: Kernel, start: Kernel | None = None) -> list[str]:
    """What is said of the running sums of a kernel that is not proved."""
    verdict = prove(start or source(), finish(k))
    assert not verdict.proved
    return [d.message for d in verdict.diagnostics if d.code == "E-ONLINE"]


def assert_said(k: Kernel, words: str, start: Kernel | None = None) -> None:
    found = said(k, start)
    assert any(words in message for message in found), found


def test_as_the_transform_leaves_it_it_is_proved() -> None:
    verdict = prove(source(), finish(target()))
    assert verdict.proved, verdict.diagnostics


def test_a_sum_to_which_nothing_is_added_yet_is_what_it_starts_with() -> None:
    early = PEAKS.replace("mean = 0.0f;", "mean = 0.0f;\n    p[r] = sum;")
    start = lift("peaks.cu", text=early).kernel
    assert prove(start, finish(apply_program(start, parse(PROGRAM)).kernel)).proved


def _ends(s: Stmt) -> bool:
    found = rescaling(s) if isinstance(s, Leaf) else None
    return found is not None and found.ends


# ---- what ends a query


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Verdict:
    def check(self: object) -> None:
        raise error

    monkeypatch.setattr(online._Sum, "check", check)
    return prove(source(), finish(target()), skip=(repr(error),))


ERRORS = {
    "refuted": WrongError("it is wrong"),
    "unknown": NonAffineError("it is not affine"),
}


@pytest.mark.parametrize("status", ERRORS)
def test_whatever_ends_a_query_is_a_finding(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = broken(monkeypatch, ERRORS[status])
    assert verdict.status.value == status
    assert {d.code for d in verdict.diagnostics} == {"E-ONLINE"}


def test_a_value_that_cannot_be_followed_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = broken(monkeypatch, FlowError(Diagnostic("E-FLOW", "a chain without end"), refuted=False))
    assert verdict.status.value == "unknown"
    assert {d.message for d in verdict.diagnostics} == {"a chain without end"}
    one = Const(1.0, DType.F32)
    verdict = broken(monkeypatch, MismatchError(one, one))
    assert {d.code for d in verdict.diagnostics} == {"E-ONLINE"}


def test_a_sum_is_found_as_one_instance_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def several(
        model: object, writers: list[online.Statement], cells: object, st: online.Statement
    ) -> object:
        every = st.frame.map_to(writers[0].name, []).range()
        both = isl.Map.from_domain_and_range(st.instances, isl.Set.universe(every.get_space()))
        wide = both.add_dims(isl.dim_type.out, 1)
        return [(writers[0], wide)]

    monkeypatch.setattr(online, "previous", several)
    verdict = prove(source(), finish(target()), skip=("nothing, but asked anew",))
    assert "several instances at once" in verdict.diagnostics[0].message


# ---- how a sum ends


def test_an_ended_sum_does_not_go_on() -> None:
    """Twice the last factor is once: the second is 1, or no number where the first is none."""

    def again(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, s) if _ends(s) else None

    assert_said(edited(target(), again), "has ended")


def test_a_sum_is_not_copied() -> None:
    late = Alloc(buf("late", space=Space.REGISTER))

    def copied(s: Stmt) -> tuple[Stmt, ...] | None:
        if not _ends(s) or not isinstance(s, Store):
            return None
        return (s, late, Store("late", (), Load(s.buffer, s.indices, DType.F32)))

    assert_said(edited(target(), copied), "copies a running sum")


def _of_both(e: Expr) -> Expr:
    return replace(e, buffer="both") if isinstance(e, Load) and e.buffer == "top" else e


def with_both() -> Kernel:
    """A maximum of all that the source takes maxima of, to which the sum is brought at the end."""

    def declared(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Store) or s.buffer != "top":
            return None
        return (s, Alloc(buf("both", space=Space.REGISTER)), replace(s, buffer="both"))

    def gathered(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, replace(s, buffer="both")) if isinstance(s, Reduce) and s.monoid == MAX else None

    def brought(s: Stmt) -> Stmt | None:
        if not _ends(s) or not isinstance(s, Store):
            return None
        product = s.value
        assert isinstance(product, Binary) and isinstance(product.rhs, Call)
        (apart,) = product.rhs.args
        assert isinstance(apart, Binary)
        apart = replace(apart, rhs=map_expr(apart.rhs, _of_both))
        return replace(s, value=replace(product, rhs=replace(product.rhs, args=(apart,))))

    return edited(target(), declared, gathered, brought)


def test_a_sum_ends_with_the_maximum_of_the_source() -> None:
    assert_said(with_both(), "ends with another maximum than the source has")


def test_a_maximum_starts_like_that_of_the_source() -> None:
    def unclaimed(s: Stmt) -> Stmt | None:
        return replace(s, origin=None) if isinstance(s, Store) and s.buffer == "top" else None

    assert_said(edited(target(), unclaimed), "does not start like the source's")


# ---- what the exponentials are


def test_the_maximum_is_of_one_sweep() -> None:
    def merged(s: Stmt) -> Stmt | None:
        return replace(s, buffer="top") if isinstance(s, Reduce) and s.buffer == "peak" else None

    start = edited(source(), merged)
    assert_said(edited(target(), merged), "is not that of one sweep like its own", start)


def test_exponentials_are_relative_to_a_maximum() -> None:
    """In the source to a sum of the same elements, in the target to their maximum."""

    def summed(s: Stmt) -> Stmt | None:
        return replace(s, monoid=SUM) if isinstance(s, Reduce) and s.buffer == "top" else None

    start = edited(source(), summed)
    assert_said(target(), "is not relative to a maximum", start)


def test_a_power_is_an_exponential_wherever_it_is_added() -> None:
    def zero(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Store) or s.buffer != "e":
            return None
        return (s, Store("e", s.indices, Const(0.0, DType.F32)))

    assert_said(edited(target(), zero), "adds something else than exponentials")


def test_an_exponential_stands_for_one_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = exponentials.pair_loads

    def twice(*args: object) -> list[object]:
        found = list(pairs(*args))  # type: ignore[arg-type]
        return [*found, *found]

    monkeypatch.setattr(exponentials, "pair_loads", twice)
    verdict = prove(source(), finish(target()), skip=("nothing, but asked once more",))
    assert "stands for several exponentials" in verdict.diagnostics[0].message


def kept(k: Kernel) -> Kernel:
    """The exponentials kept in the array p."""

    def origin_of(s: Leaf) -> tuple[Expr, ...]:
        assert s.origin is not None
        return s.origin.instance

    def change(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, Alloc) and s.buffer.name == "e":
            return ()
        if isinstance(s, Store | Reduce) and s.buffer in ("e", "sum", "mean") and s.origin is not None:
            at = origin_of(s)

            def element(e: Expr) -> Expr:
                return Load("p", at, DType.F32) if isinstance(e, Load) and e.buffer == "e" else e

            new = replace(s, value=map_expr(s.value, element))
            return replace(new, buffer="p", indices=at) if s.buffer == "e" else new
        return None

    rows, cols = (b.extents for b in k.buffers if b.name == "x").__next__()
    buffers = tuple(replace(b, extents=(rows, cols)) if b.name == "p" else b for b in k.buffers)
    return edited(replace(k, buffers=buffers), change)


def test_exponentials_of_their_time_are_not_kept_in_an_array() -> None:
    start = kept(source())
    assert prove(start, finish(kept(source()))).proved
    assert_said(kept(target()), "outlives it", start)


# ---- how often

ROWS = """
__global__ void rows(const int *length, const float *x, float *y, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float top = -INFINITY, sum = 0.0f;
    for (int k = 0; k < length[r]; k++) top = fmaxf(top, x[r * 64 + k]);
    for (int k = 0; k < length[r]; k++) sum += expf(x[r * 64 + k] - top);
    y[r] = sum;
}
"""


def test_how_often_something_is_added_is_not_read_from_memory() -> None:
    """A last factor after both sweeps of rows whose length memory gives: 1, and not followed."""
    start = lift("rows.cu", text=ROWS).kernel
    factor = next(leaf for leaf, _ in leaves(target().body) if _ends(leaf) and leaf.buffer == "sum")

    def ended(s: Stmt) -> tuple[Stmt, ...] | None:
        return (factor, s) if isinstance(s, Store) and s.buffer == "y" else None

    assert_said(edited(start, ended), "data says how often", start)
