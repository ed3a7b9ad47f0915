"""The schedules that everything must carry are proved, quickly, and say what the proof rests on."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from evolve.ir.expr import Expr, add, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Origin, Store
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.legality.edits import at_store, edit, origin, refused

SOURCE = {
    "vecadd": lifted.vecadd,
    "softmax_block": lifted.softmax,
    "softmax_warp": lifted.softmax,
    "transpose_tiled": lifted.transpose,
    "transpose_float4": lifted.transpose,
    "matmul_tiled": lifted.matmul,
    "saxpy_bound": lifted.saxpy_in_place,
}


@pytest.mark.parametrize("name", sorted(SOURCE))
def test_target_schedules_are_proved(name: str) -> None:
    v = prove(SOURCE[name](), scheduled.SCHEDULED[name]())
    assert v.status is Status.PROVED, v.diagnostics
    assert v.proved and not v.diagnostics


@pytest.mark.parametrize("k", [f() for f in dict.fromkeys(SOURCE.values())], ids=lambda k: str(k.name))
def test_a_kernel_is_itself(k: Kernel) -> None:
    assert prove(k, k).proved


def test_scope_and_assumptions_are_stated() -> None:
    v = prove(lifted.softmax(), scheduled.softmax_block())
    assert v.scope == "fixed{cols=8192}"
    assert "cols == 8192" in v.assumptions
    v = prove(lifted.transpose(), scheduled.transpose_float4())
    assert v.scope == "symbolic"
    assert {"rows mod 64 == 0", "rows // 64 <= 65535"} <= set(v.assumptions)
    assert any("overlap" in a for a in v.assumptions)


def test_checks_are_listed_with_times() -> None:
    v = prove(lifted.transpose(), scheduled.transpose_tiled())
    assert [c.name for c in v.checks] == [
        "model",
        "limits",
        "layout",
        "uniform",
        "bounds",
        "equality",
        "races",
        "vector",
        "online",
        "coverage",
        "flow",
    ]
    assert all(c.ms >= 0 for c in v.checks)


def test_matmul_is_quick_and_the_second_time_free() -> None:
    source, target = lifted.matmul(), scheduled.matmul_tiled()
    prove(lifted.matmul(), scheduled.transpose_tiled())  # warm
    start = time.perf_counter()
    first = prove(source, target)
    assert time.perf_counter() - start < 5.0
    start = time.perf_counter()
    assert prove(source, target) is first
    assert time.perf_counter() - start < 0.1


def test_missing_barrier_is_a_race_with_a_witness() -> None:
    v = refused(lifted.transpose(), scheduled.transpose_tiled(barriers=False), "E-RACE")
    witness = v.diagnostics[0].witness
    assert witness is not None
    assert "t.0.i=" in witness and "j.i.i=" in witness and "rows=" in witness


def test_wrong_provenance() -> None:
    def swapped(s: Store) -> Store:
        assert s.origin is not None
        return replace(s, origin=Origin(s.origin.stmt, s.origin.instance[::-1]))

    source, target = lifted.transpose(), scheduled.transpose_tiled()
    refused(source, edit(target, at_store("y", swapped)), "E-COVERAGE")
    refused(source, edit(target, at_store("y", origin(var("i.o"), var("j.o")))), "E-DUPLICATE")


def test_wrong_provenance_that_covers_everything() -> None:
    """Claims to perform n-1-i: a bijection of the domain, but not what is computed."""
    backwards = sub(sub(var("n"), 1), element())
    v = refused(
        lifted.saxpy_in_place(), edit(scheduled.saxpy_bound(), at_store("y", origin(backwards))), "E-FLOW"
    )
    assert any(d.witness for d in v.diagnostics)


def element() -> Expr:
    return add(mul(var("i.o"), 128), var("i.i"))
