"""Schedules that have no rendering, each refused with its reason."""

from __future__ import annotations

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render_kernel
from evolve.ir.expr import (
    Const,
    Expr,
    index,
    var,
)
from evolve.ir.stmt import Alloc, Origin, Reduce, Stmt, Store
from evolve.ir.types import SUM
from tests.codegen.modules import kernel_of
from tests.codegen.scheduled_ir import (
    F32,
    GRID_X,
    GRID_Y,
    REGISTER,
    SERIAL,
    SHARED,
    THREAD_X,
    UNROLL,
    WARP,
    at,
    loop,
)
from tests.kernels_ir import buf, ld


def refused(body: Stmt, *facts: Expr) -> str:
    k = kernel_of("x n", (buf("x", var("n")),), body, *facts)
    with pytest.raises(CodegenError) as caught:
        render_kernel(k)
    return caught.value.message


def store(*loops: str) -> Store:
    return Store("x", (at(*((n, 1) for n in loops)),), Const(0.0, F32), Origin("S0", tuple(map(var, loops))))


def test_thread_loop_of_unknown_length() -> None:
    assert "not a constant" in refused(loop("t", var("n"), THREAD_X, store("t")))


def test_grid_loop_inside_another_loop() -> None:
    assert "outside a grid loop" in refused(loop("s", 4, SERIAL, loop("b", var("n"), GRID_X, store("b"))))


def test_two_grid_loops_on_one_axis() -> None:
    assert "two loops" in refused(loop("a", 4, GRID_X, loop("b", var("n"), GRID_X, store("b"))))


def test_statement_beside_a_grid_loop() -> None:
    inner = loop("b", var("n"), GRID_X, store("b"))
    assert "every block" in refused(loop("a", 4, GRID_Y, inner, store("a")))


def test_register_window_of_unknown_size() -> None:
    body = (
        Alloc(buf("w", var("n"), space=REGISTER)),
        loop("j", var("n"), SERIAL, Store("w", (var("j"),), ld("x", var("j")))),
    )
    assert "specialize" in refused(loop("b", var("n"), GRID_X, *body))


def test_shared_window_of_unknown_size() -> None:
    body = (
        Alloc(buf("w", var("n"), space=SHARED)),
        loop("j", 4, SERIAL, Store("w", (var("j"),), ld("x", var("j")))),
    )
    assert "not a constant" in refused(loop("b", var("n"), GRID_X, *body))


def test_warp_reduction_narrower_than_the_block() -> None:
    body = (
        Alloc(buf("p", index(32), space=REGISTER)),
        loop("t", 32, THREAD_X, Store("p", (var("t"),), ld("x", var("t")))),
        loop("u", 64, THREAD_X, Store("x", (var("u"),), Const(0.0, F32))),
        Alloc(buf("m", space=REGISTER)),
        Store("m", (), Const(0.0, F32)),
        loop("all", 32, WARP, Reduce("m", (), SUM, ld("p", var("all")))),
    )
    assert "64 wide" in refused(loop("b", var("n"), GRID_X, *body))


def test_more_registers_than_a_thread_has() -> None:
    copy = loop("j", 300, SERIAL, Store("w", (var("j"),), ld("x", var("j"))))
    body = (Alloc(buf("w", index(300), space=REGISTER)), copy)
    assert "300 registers" in refused(loop("b", var("n"), GRID_X, *body))


def test_too_much_unrolling() -> None:
    nest = loop("j", 128, UNROLL, loop("k", 128, UNROLL, store("b", "j", "k")))
    assert "unrolling" in refused(loop("b", var("n"), GRID_X, nest))
