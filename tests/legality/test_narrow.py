"""Copies of inputs may be rounded to bfloat16 under `mixed`; nothing else may, under no other contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.expr import Cast, Load
from evolve.ir.kernel import Kernel
from evolve.ir.narrow import narrowed
from evolve.ir.stmt import Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import rewrite
from evolve.workload.model import Contract
from tests.legality.test_numerics import codes, verdict
from tests.transforms.fixtures import KERNELS, applied

STAGED = "specialize(cols == 8)\ncopy = stage(x, at=row, scope=register)\n"
ROUNDED = STAGED + "set_precision(copy, bf16)"


def changed(kernel: Kernel, buffer: str, f: Callable[[Store], Stmt]) -> Kernel:
    """The kernel with `f` on each store into a buffer."""

    def one(s: Stmt) -> Stmt | None:
        return f(s) if isinstance(s, Store) and s.buffer == buffer else None

    return replace(kernel, body=rewrite(kernel.body, one))


def test_a_rounded_copy_is_a_premise_of_mixed() -> None:
    v = verdict(KERNELS["softmax"](), applied("softmax", ROUNDED).kernel, "mixed")
    assert v.proved and len(v.premises) == 1
    assert v.premises[0].startswith("numerics mixed: x may be rounded to bfloat16 in `copy[")


@pytest.mark.parametrize("numerics", ["exact", "reassociate", "fast"])
def test_it_is_refused_under_the_others(numerics: Contract) -> None:
    v = verdict(KERNELS["softmax"](), applied("softmax", ROUNDED).kernel, numerics)
    assert codes(v) == {"E-NUMERICS"}
    assert "--numerics mixed" in (v.diagnostics[0].repair or "")


def test_a_copy_of_a_rounded_copy_is_proved() -> None:
    """Rounded once, and said once."""
    text = ROUNDED.replace("register", "shared") + "\nmine = stage(copy, at=c, scope=register)"
    v = verdict(KERNELS["softmax"](), applied("softmax", text).kernel, "mixed")
    assert v.proved and len(v.premises) == 1


def test_the_wrong_element_is_refused_though_it_is_rounded() -> None:
    def other(s: Store) -> Stmt:
        assert isinstance(s.value, Cast) and isinstance(s.value.arg, Load)
        row, column = s.value.arg.indices
        return replace(s, value=replace(s.value, arg=replace(s.value.arg, indices=(column, row))))

    target = changed(applied("softmax", ROUNDED).kernel, "copy", other)
    assert codes(verdict(KERNELS["softmax"](), target, "mixed")) & {"E-FLOW", "E-BOUNDS", "E-EXPR"}


@pytest.mark.parametrize("buffer", ["m", "s"])
def test_an_intermediate_result_is_not_rounded(buffer: str) -> None:
    source = KERNELS["softmax"]()
    with pytest.raises(RefusedError) as refused:
        applied("softmax", f"set_precision({buffer}, bf16)")
    assert refused.value.diagnostic.code == "E-PRECISION"

    def one(s: Stmt) -> Stmt | None:
        mine = isinstance(s, Reduce) and s.buffer == buffer
        return replace(s, value=Cast(s.value, DType.BF16)) if mine else None

    forced = narrowed(source, buffer)
    forced = replace(forced, body=rewrite(forced.body, one))
    assert {"E-EXPR"} <= codes(verdict(source, forced, "mixed"))


def test_a_copy_of_what_the_kernel_writes_is_not_rounded() -> None:
    def other(s: Store) -> Stmt:
        assert isinstance(s.value, Cast) and isinstance(s.value.arg, Load)
        return replace(s, value=replace(s.value, arg=replace(s.value.arg, buffer="y")))

    target = changed(applied("softmax", ROUNDED).kernel, "copy", other)
    assert "E-NUMERICS" in codes(verdict(KERNELS["softmax"](), target, "mixed"))


def test_an_asynchronous_copy_does_not_round() -> None:
    target = changed(applied("softmax", ROUNDED).kernel, "copy", lambda s: replace(s, asynchronous=True))
    assert not verdict(KERNELS["softmax"](), target, "mixed").proved
    with pytest.raises(RefusedError) as refused:
        applied("softmax", ROUNDED.replace("register", "shared") + "\nmake_async(copy)")
    assert refused.value.diagnostic.code == "E-ASYNC-COPY"
    with pytest.raises(RefusedError) as refused:
        started = STAGED.replace("register", "shared") + "make_async(copy)\n"
        applied("softmax", started + "set_precision(copy, bf16)")
    assert refused.value.diagnostic.code == "E-PRECISION"
