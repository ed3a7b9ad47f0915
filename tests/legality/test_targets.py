"""The schedules that everything must carry are proved; small damage to them is refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Origin, Stmt, Store
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Status, Verdict
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled

SOURCE = {
    "vecadd": lifted.vecadd,
    "softmax_block": lifted.softmax,
    "softmax_warp": lifted.softmax,
    "transpose_tiled": lifted.transpose,
    "transpose_float4": lifted.transpose,
    "matmul_tiled": lifted.matmul,
    "saxpy_bound": lifted.saxpy_in_place,
}


def edit(k: Kernel, f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Kernel:
    changed = replace(k, body=rewrite(k.body, f))
    assert changed != k, "the edit changed nothing"
    return changed


def codes(v: Verdict) -> set[str]:
    return {d.code for d in v.diagnostics}


def refused(source: Kernel, target: Kernel, code: str) -> Verdict:
    v = prove(source, target)
    assert v.status is Status.REFUTED, v
    assert code in codes(v), v.diagnostics
    return v


@pytest.mark.parametrize("name", sorted(SOURCE))
def test_target_schedules_are_proved(name: str) -> None:
    v = prove(SOURCE[name](), scheduled.SCHEDULED[name]())
    assert v.status is Status.PROVED, v.diagnostics


def test_missing_barrier_is_a_race_with_a_witness() -> None:
    v = refused(lifted.transpose(), scheduled.transpose_tiled(barriers=False), "E-RACE")
    witness = v.diagnostics[0].witness
    assert witness is not None and "t.0.i=" in witness and "rows=" in witness


def test_wrong_provenance() -> None:
    def swap(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.origin is not None:
            i, j = s.origin.instance
            return replace(s, origin=Origin(s.origin.stmt, (j, i)))
        return None

    refused(lifted.transpose(), edit(scheduled.transpose_tiled(), swap), "E-COVERAGE")
