"""Programs that assume something of a parameter: proved under that, guarded by it, and refused without."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Kernel
from evolve.ir.types import DType
from evolve.legality.prove import prove
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import MoveLimits, legal_moves
from evolve.transforms.names import NameTable
from tests.transforms.fixtures import KERNELS

POOL = """
__global__ void pool(const float *x, float *y, int n, int m, int mode, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    if (mode == 1) {
        for (int k = 0; k < m; k++) s += x[i * m + k];
    } else {
        for (int k = 0; k < m; k++) s = fmaxf(s, x[i * m + k]);
    }
    if (scale == 1.0f) y[i] = s; else y[i] = s * scale;
}
"""
PROGRAM = "assume(mode == 1 and scale == 1)\nbind(i, grid.x)\nsplit(k, 32)\nwarp_reduce(k.i)"


def source() -> Kernel:
    return KERNELS["activation"]()


def given(program: str) -> Kernel:
    return finish(apply_program(source(), parse(program)).kernel)


def fact(op: BinaryOp, name: str, value: int) -> Expr:
    return Binary(op, Var(name, DType.I32), Const(value, DType.I32), DType.BOOL)


@pytest.mark.parametrize(
    "program",
    [
        "assume(mode != 2)",
        "assume(mode == 2)",
        "assume(mode < 2 and bias == 1)\nsplit(i, 4)\nbind(i.o, grid.x)\nbind(i.i, thread.x)",
        "assume(mode == 1 and bias < 0 and alpha <= 1)\nsplit(i, 2)\nunroll(i.i)",
        "assume(alpha == 3 and mode == 0)",
    ],
)
def test_what_is_assumed_is_decided_in_the_source_too(program: str) -> None:
    v = prove(source(), given(program))
    assert v.proved, v.diagnostics


def test_without_its_facts_a_target_is_refused() -> None:
    target = given("assume(mode != 2 and bias == 1)\nsplit(i, 4)")
    assert prove(source(), target).proved
    assert not prove(source(), replace(target, assumptions=())).proved
    assert not prove(source(), replace(target, assumptions=target.assumptions[:1])).proved


@pytest.mark.parametrize(
    "weaker",
    [
        (fact(BinaryOp.NE, "mode", 2), fact(BinaryOp.GE, "bias", 0)),
        (fact(BinaryOp.NE, "mode", 2), fact(BinaryOp.NE, "bias", 1)),
        (fact(BinaryOp.NE, "mode", 3), fact(BinaryOp.EQ, "bias", 1)),
        (fact(BinaryOp.LE, "mode", 2), fact(BinaryOp.EQ, "bias", 1)),
        (fact(BinaryOp.EQ, "mode", 2), fact(BinaryOp.EQ, "bias", 1)),
        (fact(BinaryOp.NE, "mode", 2), fact(BinaryOp.EQ, "bias", 0)),
    ],
)
def test_other_facts_do_not_carry_the_target(weaker: tuple[Expr, ...]) -> None:
    target = given("assume(mode != 2 and bias == 1)\nsplit(i, 4)")
    assert not prove(source(), replace(target, assumptions=weaker)).proved


def test_the_other_branch_is_refused() -> None:
    summed, scaled = given("assume(mode == 2)"), given("assume(mode != 2)")
    for taken, facts in ((summed, scaled.assumptions), (scaled, summed.assumptions)):
        assert not prove(source(), replace(taken, assumptions=facts)).proved


def test_moves_are_the_conditions_that_the_launches_decide() -> None:
    data = {"mode": (1, 1), "bias": (0, 1), "alpha": (0.5, 2.5)}
    found = legal_moves(source(), NameTable(), MoveLimits(data=data))
    assert [m for m in found if m.startswith("assume")] == ["assume(mode != 2)"]
    assert not any(m.startswith("assume") for m in legal_moves(source(), NameTable()))


@cache
def pool() -> KernelProblem:
    timed = "timed = [{n = 4096, m = 1024, mode = 1, scale = 1.0}]"
    return open_problem(ProblemRequest("k.cu", POOL, workload_text=timed, device="sim:h200-sxm"))


def test_the_guard_is_asked_at_launch_and_the_original_runs_where_it_fails() -> None:
    compiled = pool().compile(pool().parse(PROGRAM))
    assert compiled.verdict == "PROVED", compiled.diagnostics
    rendered = render(compiled.payload)
    at = {"n": 64, "m": 64, "mode": 1, "scale": 1.0}
    assert concretise(rendered, at)[0] == 0
    for other in ({"mode": 2}, {"mode": 0}, {"scale": 0.5}, {"scale": float("nan")}):
        variant, launches = concretise(rendered, at | other)
        assert variant == -1 and launches[0].kernel.endswith("_original")
    text = pool().render(compiled)
    assert "if (mode_ == 1\n        && scale == 1.0f\n" in re.sub(r" *//.*", "", text)
    assert "const long long mode_ = mode;" in text


def test_it_is_executed_and_scored_and_nothing_is_proved_without_it() -> None:
    compiled = pool().compile(pool().parse(PROGRAM))
    assert pool().score(compiled).status == "scored"
    without = pool().compile(pool().parse(PROGRAM.split("\n", 1)[1]))
    assert without.verdict == "UNKNOWN"
    other = pool().compile(pool().parse("assume(mode == 2 and scale == 1)"))
    assert [d["code"] for d in other.diagnostics] == ["E-GUARD-TIMED"]
    moves = pool().legal_moves("")
    assert {"assume(mode == 1)", "assume(scale == 1)"} <= set(moves)
