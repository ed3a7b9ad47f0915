"""Approximate functions are the source's functions where the contract says so, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.approximate import approximate, approximated, stands_for
from evolve.ir.expr import Binary, BinaryOp, Call, Const, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import map_expr, rewrite
from evolve.legality.prove import RESCALED, UNCONTRACTED, UNSIGNED_ZEROS, prove
from evolve.legality.verdict import Limits, Status, Verdict
from evolve.transforms.apply import apply_program
from evolve.workload.model import Contract
from tests.transforms.fixtures import KERNELS, applied

ONLINE = "online([c], [c_2])"


def verdict(source: Kernel, target: Kernel, numerics: Contract = "reassociate") -> Verdict:
    return prove(source, finish(target), Limits(numerics=numerics))


def codes(v: Verdict) -> set[str]:
    assert v.status is Status.REFUTED
    return {d.code for d in v.diagnostics}


def changed(kernel: Kernel, f: object) -> Kernel:
    """The kernel with `f` on each node of each value."""

    def one(s: Stmt) -> Stmt | None:
        return replace(s, value=map_expr(s.value, f)) if isinstance(s, Store | Reduce) else None  # type: ignore[arg-type]

    return replace(kernel, body=rewrite(kernel.body, one))


def softmax() -> Kernel:
    return KERNELS["softmax"]()


@pytest.mark.parametrize("numerics", ["fast", "mixed"])
def test_approximate_functions_are_a_premise_of_the_loose_contracts(numerics: Contract) -> None:
    v = verdict(softmax(), approximated(softmax()), numerics)
    assert v.proved and len(v.premises) == 2
    assert all(x.startswith(f"numerics {numerics}: ") for x in v.premises)
    assert "expf may be approximate in `s[] sum= fast_exp(" in v.premises[0]
    assert not verdict(softmax(), softmax(), numerics).premises


@pytest.mark.parametrize("numerics", ["exact", "reassociate"])
@pytest.mark.parametrize("buffer", ["s", "y"])
def test_they_are_refused_under_the_others(buffer: str, numerics: Contract) -> None:
    v = verdict(softmax(), approximated(softmax(), {buffer}), numerics)
    assert codes(v) == {"E-NUMERICS"}
    assert numerics in v.diagnostics[0].message and "--numerics fast" in (v.diagnostics[0].repair or "")


def test_what_the_source_calls_is_allowed_anyway() -> None:
    source = approximated(softmax())
    v = verdict(source, source)
    assert v.proved and not v.premises
    assert codes(verdict(source, softmax(), "fast")) == {"E-EXPR"}


def other_function(e: Expr) -> Expr:
    return replace(e, fn="fast_sin") if isinstance(e, Call) and e.fn == "fast_exp" else e


def turned(e: Expr) -> Expr:
    return replace(e, args=e.args[::-1]) if isinstance(e, Call) and e.fn == "fast_div" else e


def quotient_for_product(e: Expr) -> Expr:
    found = isinstance(e, Binary) and e.op is BinaryOp.SUB and e.dtype is DType.F32
    return Call("fast_div", (e.lhs, e.rhs), e.dtype) if found and isinstance(e, Binary) else e


@pytest.mark.parametrize("wrong", [other_function, turned, quotient_for_product])
def test_another_function_is_refused_under_every_contract(wrong: object) -> None:
    bad = changed(approximated(softmax()), wrong)
    assert bad != approximated(softmax())
    assert codes(verdict(softmax(), bad, "fast")) & {"E-EXPR", "E-FLOW"}


def test_no_approximate_function_has_double_precision() -> None:
    x = Const(1.0, DType.F64)
    accurate, fast = Call("exp", (x,), DType.F64), Call("fast_exp", (x,), DType.F64)
    assert approximate(accurate) == accurate and stands_for(accurate, fast) is None
    quotient = Binary(BinaryOp.DIV, x, x, DType.F64)
    assert stands_for(quotient, Call("fast_div", (x, x), DType.F64)) is None


def test_a_running_sum_may_be_approximate_and_rescaled_so() -> None:
    target = applied("softmax", ONLINE).kernel
    assert verdict(softmax(), target).proved
    fast = approximated(target, {"s"})
    assert fast != target and verdict(softmax(), fast, "fast").proved
    assert "E-NUMERICS" in codes(verdict(softmax(), fast))


def test_a_rescaling_is_not_approximate_because_the_source_s_terms_are() -> None:
    source = approximated(softmax())
    target = apply_program(source, parse(ONLINE)).kernel
    assert verdict(source, target).proved  # its rescalings are accurate
    assert codes(verdict(source, approximated(target))) == {"E-NUMERICS"}


def test_nothing_else_is_made_approximate() -> None:
    x = Call("rsqrt", (Call("sqrt", (), DType.F32),), DType.F32)
    assert approximate(x) == x
    assert approximate(Call("pow", (x, x), DType.F32)) == Call("pow", (x, x), DType.F32)


def test_what_a_proof_takes_for_granted_of_floats_is_said() -> None:
    """Zeros of maxima under exact; weights that count in full until they are rescaled."""
    assert verdict(softmax(), softmax(), "exact").premises == (UNCONTRACTED, UNSIGNED_ZEROS)
    assert verdict(KERNELS["matmul"](), KERNELS["matmul"](), "exact").premises == (UNCONTRACTED,)
    assert not verdict(softmax(), applied("softmax", ONLINE).kernel).premises
    pooled = verdict(KERNELS["pooling"](), applied("pooling", "online(c, c_2)").kernel)
    assert pooled.proved and pooled.premises == (RESCALED,)
