"""Schedules that the target programs do not use: every one is executed under all checks."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.module import render, render_kernel
from evolve.codegen.rendered import concretise
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    add,
    ceildiv,
    compare,
    index,
    mul,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen.conftest import Runner
from tests.codegen.modules import bare_module, kernel_of
from tests.codegen.scheduled_ir import (
    BLOCK,
    F32,
    GRID_X,
    REGISTER,
    SERIAL,
    SHARED,
    THREAD_X,
    THREAD_Y,
    UNROLL,
    VECTOR,
    WARP,
    at,
    fact_multiple,
    guarded,
    loop,
)
from tests.kernels_ir import buf, checked, ld, op

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def row_sums(kind: LoopKind, threads: int, rows_per_block: int, steps: int) -> Kernel:
    """y[r] = sum of x[r, :], `rows_per_block` rows a block along thread.y, the total kept in memory."""
    r = at(("r.o", rows_per_block), ("r.i", 1))
    c = at(("c.o", threads), ("c.i", 1))
    body: list[Stmt] = [
        Alloc(buf("part", index(threads), space=REGISTER)),
        loop("c.z", threads, THREAD_X, Store("part", (var("c.z"),), Const(-0.0, F32))),
        loop(
            "c.o",
            steps,
            SERIAL,
            loop("c.i", threads, THREAD_X, Reduce("part", (var("c.i"),), SUM, ld("x", r, c))),
        ),
        Store("y", (r,), Const(0.0, F32)),
        loop("c.all", threads, kind, Reduce("y", (r,), SUM, ld("part", var("c.all")))),
    ]
    nest = loop(
        "r.o", ceildiv(var("rows"), rows_per_block), GRID_X, loop("r.i", rows_per_block, THREAD_Y, *body)
    )
    buffers = (buf("x", var("rows"), index(threads * steps)), buf("y", var("rows")))
    return kernel_of("x y rows", buffers, nest, fact_multiple("rows", rows_per_block))


@pytest.mark.parametrize(
    ("kind", "threads", "rows"),
    [
        (BLOCK, 64, 1),
        (BLOCK, 64, 3),
        (BLOCK, 32, 2),
        (BLOCK, 160, 1),
        (BLOCK, 48, 1),
        (BLOCK, 24, 3),
        (BLOCK, 1, 2),
        (WARP, 32, 4),
        (WARP, 8, 4),
        (WARP, 8, 5),
        (WARP, 1, 3),
        (BLOCK, 1024, 1),
    ],
)
def test_reductions_of_every_width(run_rendered: Runner, kind: LoopKind, threads: int, rows: int) -> None:
    rendered = render(bare_module(row_sums(kind, threads, rows, 3)))
    assert compile_cuda(rendered.text).ok
    x = normal(2 * rows, threads * 3)
    out = run_rendered(rendered, {"x": x, "y": np.zeros(2 * rows, np.float32)}, {"rows": 2 * rows}, {"y"})
    np.testing.assert_allclose(out["y"], x.astype(np.float64).sum(axis=1), rtol=1e-4, atol=1e-4)


def test_block_reduction_in_a_loop_reuses_its_scratch_safely(run_rendered: Runner) -> None:
    """One block goes over all rows: every iteration writes the same scratch."""
    t = 64
    body: list[Stmt] = [
        Alloc(buf("part", index(t), space=REGISTER)),
        loop("c.z", t, THREAD_X, Store("part", (var("c.z"),), Const(float("-inf"), F32))),
        loop("c", t, THREAD_X, Reduce("part", (var("c"),), MAX, ld("x", var("r"), var("c")))),
        Alloc(buf("m", space=REGISTER)),
        Store("m", (), Const(float("-inf"), F32)),
        loop("c.all", t, BLOCK, Reduce("m", (), MAX, ld("part", var("c.all")))),
        loop(
            "d",
            t,
            THREAD_X,
            Store("y", (var("r"), var("d")), op(BinaryOp.SUB, ld("x", var("r"), var("d")), ld("m"))),
        ),
    ]
    k = kernel_of(
        "x y rows",
        (buf("x", var("rows"), index(t)), buf("y", var("rows"), index(t))),
        loop("r", var("rows"), SERIAL, *body),
    )
    x = normal(7, t)
    out = run_rendered(render(bare_module(k)), {"x": x, "y": np.zeros_like(x)}, {"rows": 7}, {"y"})
    np.testing.assert_array_equal(out["y"], x - x.max(axis=1, keepdims=True))


def test_shorter_thread_loops_are_guarded_and_block_level_writes_are_made_once(run_rendered: Runner) -> None:
    """A loop of 16 threads beside one of 64, and a store outside both."""
    b = var("b")
    body: list[Stmt] = [
        Alloc(Buffer("s", F32, (index(64),), SHARED)),
        loop("i", 64, THREAD_X, Store("s", (var("i"),), ld("x", b, var("i")))),
        Barrier(),
        loop(
            "j",
            16,
            THREAD_X,
            Store(
                "y", (b, var("j")), op(BinaryOp.ADD, ld("s", var("j")), ld("s", add(mul(var("j"), -1), 63)))
            ),
        ),
        Store("z", (b,), ld("s", index(5))),
    ]
    k = kernel_of(
        "x y z n",
        (buf("x", var("n"), index(64)), buf("y", var("n"), index(16)), buf("z", var("n"))),
        loop("b", var("n"), GRID_X, *body),
    )
    x = normal(3, 64)
    arrays = {"x": x, "y": np.zeros((3, 16), np.float32), "z": np.zeros(3, np.float32)}
    out = run_rendered(render(bare_module(k)), arrays, {"n": 3}, {"y", "z"})
    np.testing.assert_array_equal(out["y"], x[:, :16] + x[:, ::-1][:, :16])
    np.testing.assert_array_equal(out["z"], x[:, 5])


def vector_kernel(*stmts: Stmt, width: int = 4, facts: tuple[Expr, ...] = ()) -> Kernel:
    nest = loop(
        "i.o",
        ceildiv(var("n"), 32 * width),
        GRID_X,
        loop("i.t", 32, THREAD_X, loop("i.v", width, VECTOR, *stmts)),
    )
    return kernel_of("x y n", (buf("x", var("n")), buf("y", var("n"))), nest, *facts)


def place_in(width: int) -> Expr:
    return at(("i.o", 32 * width), ("i.t", width), ("i.v", 1))


def test_float2(run_rendered: Runner) -> None:
    i = place_in(2)
    s = Store("y", (i,), op(BinaryOp.MUL, ld("x", i), ld("x", i)))
    k = vector_kernel(guarded(compare(BinaryOp.LT, i, var("n")), s), width=2, facts=(fact_multiple("n", 2),))
    rendered = render(bare_module(k))
    assert "float2" in rendered.text and "float4" not in rendered.text
    x = normal(70)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 70}, {"y"})
    np.testing.assert_array_equal(out["y"], x * x)


@pytest.mark.parametrize("dtype", [DType.U8, DType.BOOL])
@pytest.mark.parametrize("width", [2, 4])
def test_masks_in_vectors(run_rendered: Runner, dtype: DType, width: int) -> None:
    """The mask is read twice: for a choice, and to be copied."""
    i = place_in(width)
    seen: Expr = Load("m", (i,), dtype)
    chosen = seen if dtype is DType.BOOL else Binary(BinaryOp.NE, seen, Const(0, dtype), DType.BOOL)
    stmts = (Store("y", (i,), Select(chosen, ld("x", i), Const(-1.0, F32), F32)), Store("o", (i,), seen))
    threads = loop("i.t", 32, THREAD_X, loop("i.v", width, VECTOR, *stmts))
    nest = loop("i.o", ceildiv(var("n"), 32 * width), GRID_X, threads)
    n = var("n")
    masks = tuple(Buffer(b, dtype, (n,), Space.GLOBAL) for b in "mo")
    arrays = (buf("x", n), buf("y", n), *masks)
    k = kernel_of("x y m o n", arrays, nest, fact_multiple("n", 32 * width))
    rendered = render(bare_module(k))
    assert f"uchar{width} m{width} = *reinterpret_cast<const uchar{width}*>" in rendered.text
    x = normal(256)
    mask = (np.arange(256) % 3).astype(np.uint8 if dtype is DType.U8 else np.bool_)
    given = {"x": x, "y": np.zeros_like(x), "m": mask, "o": np.zeros_like(mask)}
    out = run_rendered(rendered, given, {"n": 256}, {"y", "o"})
    np.testing.assert_array_equal(out["y"], np.where(mask, x, np.float32(-1)))
    np.testing.assert_array_equal(out["o"], mask)


def test_temporaries_in_a_vector_loop_are_one_a_lane(run_rendered: Runner) -> None:
    i = place_in(4)
    stmts = (
        Alloc(buf("d", space=REGISTER)),
        Store("d", (), op(BinaryOp.SUB, ld("x", i), Const(1.0, F32))),
        Store("y", (i,), op(BinaryOp.MUL, ld("d"), ld("d"))),
    )
    k = vector_kernel(*stmts, facts=(fact_multiple("n", 128),))
    rendered = render(bare_module(k))
    assert "float d[4];" in rendered.text
    x = normal(256)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 256}, {"y"})
    np.testing.assert_array_equal(out["y"], (x - 1) * (x - 1))


def test_lanes_that_depend_on_each_other_stay_in_order(run_rendered: Runner) -> None:
    """A running maximum over the lanes: each reads what the one before wrote."""
    i = place_in(4)
    stmts = (
        Alloc(buf("best", space=REGISTER)),
        Store("best", (), Const(float("-inf"), F32)),
        loop("i.v", 4, VECTOR, Reduce("best", (), MAX, ld("x", i)), Store("y", (i,), ld("best"))),
    )
    nest = loop("i.o", ceildiv(var("n"), 128), GRID_X, loop("i.t", 32, THREAD_X, *stmts))
    k = kernel_of("x y n", (buf("x", var("n")), buf("y", var("n"))), nest, fact_multiple("n", 128))
    x = normal(256)
    out = run_rendered(render(bare_module(k)), {"x": x, "y": np.zeros_like(x)}, {"n": 256}, {"y"})
    np.testing.assert_array_equal(out["y"].reshape(-1, 4), np.maximum.accumulate(x.reshape(-1, 4), axis=1))


@pytest.mark.parametrize(("apart", "wide"), [(4, True), (3, False), (2, False)])
def test_lanes_may_write_two_places_that_are_whole_vectors_apart(
    run_rendered: Runner, apart: int, wide: bool
) -> None:
    """Where they are not, a lane overwrites what an earlier one wrote."""
    span = 4 + apart
    i, j = place_in(4), at(("i.o", 32 * span), ("i.t", span), ("i.v", 1))
    twice = op(BinaryOp.ADD, ld("x", i), ld("x", i))
    stmts = (Store("y", (add(j, apart),), ld("x", i)), Store("y", (j,), twice))
    threads = loop("i.t", 32, THREAD_X, loop("i.v", 4, VECTOR, *stmts))
    nest = loop("i.o", ceildiv(var("n"), 128), GRID_X, threads)
    y = buf("y", mul(ceildiv(var("n"), 4), span))
    k = kernel_of("x y n", (buf("x", var("n")), y), nest, fact_multiple("n", 128))
    rendered = render(bare_module(k))
    assert ("float4" in rendered.text) is wide
    x = normal(256).reshape(64, 4)
    want = np.zeros((64, span), np.float32)
    for lane in range(4):
        want[:, lane + apart] = x[:, lane]
        want[:, lane] = 2 * x[:, lane]
    arrays = {"x": x.reshape(-1), "y": np.zeros(64 * span, np.float32)}
    out = run_rendered(rendered, arrays, {"n": 256}, {"y"})
    np.testing.assert_array_equal(out["y"].reshape(64, span), want)


def test_a_load_on_one_side_of_a_choice_is_not_made_ahead() -> None:
    i = place_in(4)
    inside = compare(BinaryOp.LT, i, var("n"))
    k = vector_kernel(
        Store("y", (i,), Select(inside, ld("x", i), Const(0.0, F32), F32)), facts=(fact_multiple("n", 128),)
    )
    text, _ = render_kernel(k)
    assert "const float4 x4" not in text and "float4 y4" in text


def test_a_guard_in_a_register_stays_in_its_loop(run_rendered: Runner) -> None:
    """`if (left > 0)` changes from iteration to iteration, so it must not move out of the loop."""
    left = ld("left")
    more = Binary(BinaryOp.GT, left, Const(0.0, F32), DType.BOOL)
    body: list[Stmt] = [
        Alloc(buf("left", space=REGISTER)),
        Store("left", (), Const(3.0, F32)),
        Alloc(buf("sum", space=REGISTER)),
        Store("sum", (), Const(0.0, F32)),
        loop(
            "j",
            8,
            SERIAL,
            guarded(
                more, Reduce("sum", (), SUM, ld("x", var("j"))), Reduce("left", (), SUM, Const(-1.0, F32))
            ),
        ),
        loop("t", 1, THREAD_X, Store("y", (var("b"),), ld("sum"))),
    ]
    k = kernel_of("x y n", (buf("x", index(8)), buf("y", var("n"))), loop("b", var("n"), GRID_X, *body))
    x = normal(8)
    out = run_rendered(render(bare_module(k)), {"x": x, "y": np.zeros(2, np.float32)}, {"n": 2}, {"y"})
    np.testing.assert_allclose(out["y"], np.full(2, x[:3].sum()), rtol=1e-6)


def test_loops_of_one_iteration_vanish(run_rendered: Runner) -> None:
    n = var("n")
    i = add(mul(add(mul(var("b"), 1), var("u")), 32), var("t"))
    s = guarded(
        compare(BinaryOp.LT, i, n),
        Store("y", (i,), op(BinaryOp.MUL, ld("x", i), Cast(add(var("u"), 3), F32))),
    )
    nest = loop(
        "b", ceildiv(n, 32), GRID_X, loop("u", ceildiv(index(1), 4), UNROLL, loop("t", 32, THREAD_X, s))
    )
    k = kernel_of("x y n", (buf("x", n), buf("y", n)), nest)
    rendered = render(bare_module(k))
    assert "for (" not in rendered.text.split("// The original")[0]
    x = normal(50)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 50}, {"y"})
    np.testing.assert_array_equal(out["y"], 3 * x)


@pytest.mark.parametrize("n", [1, 31, 128, 129, 1000])
def test_whole_and_partial_tiles(run_rendered: Runner, n: int) -> None:
    i = at(("b", 128), ("u", 32), ("t", 1))
    s = guarded(compare(BinaryOp.LT, i, var("n")), Store("y", (i,), ld("x", i)))
    k = kernel_of(
        "x y n",
        (buf("x", var("n")), buf("y", var("n"))),
        loop("b", ceildiv(var("n"), 128), GRID_X, loop("u", 4, UNROLL, loop("t", 32, THREAD_X, s))),
    )
    rendered = render(bare_module(k))
    assert "if (b * 128 + 127 < n) {" in rendered.text
    assert "} else {  // a partial tile" in rendered.text
    x = normal(n)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": n}, {"y"})
    np.testing.assert_array_equal(out["y"], x)


def test_sizes_of_other_integer_types(run_rendered: Runner) -> None:
    i = at(("b", 32), ("t", 1))
    s = guarded(compare(BinaryOp.LT, i, var("n")), Store("y", (i,), ld("x", i)))
    body = Block((loop("b", ceildiv(var("n"), 32), GRID_X, loop("t", 32, THREAD_X, s)),))
    k = checked(
        Kernel(
            "k",
            ("x", "y", "n"),
            (buf("x", var("n")), buf("y", var("n"))),
            (Scalar("n", DType.U64, True),),
            body,
        )
    )
    rendered = render(bare_module(k))
    assert "unsigned long long n_arg" in rendered.text
    assert concretise(rendered, {"n": 2**31})[0] == -1
    x = normal(33)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 33}, {"y"})
    np.testing.assert_array_equal(out["y"], x)
