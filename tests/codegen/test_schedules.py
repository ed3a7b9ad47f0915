"""Schedules that the target programs do not use: every one is executed under all checks."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render, render_kernel
from evolve.codegen.rendered import concretise
from evolve.ir.expr import (
    TRUE,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Select,
    add,
    ceildiv,
    compare,
    index,
    mul,
    var,
)
from evolve.ir.kernel import Kernel, Module, Original, Scalar, Variant
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen.conftest import Runner
from tests.codegen.scheduled_ir import (
    BLOCK,
    F32,
    GRID_X,
    GRID_Y,
    REGISTER,
    SERIAL,
    SHARED,
    THREAD_X,
    THREAD_Y,
    UNROLL,
    VECTOR,
    WARP,
    at,
    fact_equal,
    fact_multiple,
    guarded,
    loop,
    sizes,
)
from tests.kernels_ir import buf, checked, ld, op

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def kernel(params: str, buffers: tuple[Buffer, ...], body: Stmt, *facts: Expr) -> Kernel:
    names = params.split()
    held = {b.name for b in buffers}
    scalars = sizes(*(n for n in names if n not in held))
    return checked(Kernel("k", tuple(names), buffers, scalars, Block((body,)), facts))


def module_of(k: Kernel) -> Module:
    one = (index(1), index(1), index(1))
    params = ", ".join(f"float* {p}" if any(p == b.name for b in k.buffers) else f"int {p}" for p in k.params)
    return Module(
        (Variant(TRUE, (k,)),),
        Original(f"__global__ void plain({params}) {{}}\n", "plain", one, one),
        k.params,
        k.buffers,
        k.scalars,
    )


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
    return kernel("x y rows", buffers, nest, fact_multiple("rows", rows_per_block))


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
    rendered = render(module_of(row_sums(kind, threads, rows, 3)))
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
    k = kernel(
        "x y rows",
        (buf("x", var("rows"), index(t)), buf("y", var("rows"), index(t))),
        loop("r", var("rows"), SERIAL, *body),
    )
    x = normal(7, t)
    out = run_rendered(render(module_of(k)), {"x": x, "y": np.zeros_like(x)}, {"rows": 7}, {"y"})
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
    k = kernel(
        "x y z n",
        (buf("x", var("n"), index(64)), buf("y", var("n"), index(16)), buf("z", var("n"))),
        loop("b", var("n"), GRID_X, *body),
    )
    x = normal(3, 64)
    arrays = {"x": x, "y": np.zeros((3, 16), np.float32), "z": np.zeros(3, np.float32)}
    out = run_rendered(render(module_of(k)), arrays, {"n": 3}, {"y", "z"})
    np.testing.assert_array_equal(out["y"], x[:, :16] + x[:, ::-1][:, :16])
    np.testing.assert_array_equal(out["z"], x[:, 5])


def vector_kernel(*stmts: Stmt, width: int = 4, facts: tuple[Expr, ...] = ()) -> Kernel:
    nest = loop(
        "i.o",
        ceildiv(var("n"), 32 * width),
        GRID_X,
        loop("i.t", 32, THREAD_X, loop("i.v", width, VECTOR, *stmts)),
    )
    return kernel("x y n", (buf("x", var("n")), buf("y", var("n"))), nest, *facts)


def place_in(width: int) -> Expr:
    return at(("i.o", 32 * width), ("i.t", width), ("i.v", 1))


def test_float2(run_rendered: Runner) -> None:
    i = place_in(2)
    s = Store("y", (i,), op(BinaryOp.MUL, ld("x", i), ld("x", i)))
    k = vector_kernel(guarded(compare(BinaryOp.LT, i, var("n")), s), width=2, facts=(fact_multiple("n", 2),))
    rendered = render(module_of(k))
    assert "float2" in rendered.text and "float4" not in rendered.text
    x = normal(70)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 70}, {"y"})
    np.testing.assert_array_equal(out["y"], x * x)


def test_temporaries_in_a_vector_loop_are_one_a_lane(run_rendered: Runner) -> None:
    i = place_in(4)
    stmts = (
        Alloc(buf("d", space=REGISTER)),
        Store("d", (), op(BinaryOp.SUB, ld("x", i), Const(1.0, F32))),
        Store("y", (i,), op(BinaryOp.MUL, ld("d"), ld("d"))),
    )
    k = vector_kernel(*stmts, facts=(fact_multiple("n", 128),))
    rendered = render(module_of(k))
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
    k = kernel("x y n", (buf("x", var("n")), buf("y", var("n"))), nest, fact_multiple("n", 128))
    x = normal(256)
    out = run_rendered(render(module_of(k)), {"x": x, "y": np.zeros_like(x)}, {"n": 256}, {"y"})
    np.testing.assert_array_equal(out["y"].reshape(-1, 4), np.maximum.accumulate(x.reshape(-1, 4), axis=1))


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
    k = kernel("x y n", (buf("x", index(8)), buf("y", var("n"))), loop("b", var("n"), GRID_X, *body))
    x = normal(8)
    out = run_rendered(render(module_of(k)), {"x": x, "y": np.zeros(2, np.float32)}, {"n": 2}, {"y"})
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
    k = kernel("x y n", (buf("x", n), buf("y", n)), nest)
    rendered = render(module_of(k))
    assert "for (" not in rendered.text.split("// The original")[0]
    x = normal(50)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 50}, {"y"})
    np.testing.assert_array_equal(out["y"], 3 * x)


@pytest.mark.parametrize("n", [1, 31, 128, 129, 1000])
def test_whole_and_partial_tiles(run_rendered: Runner, n: int) -> None:
    i = at(("b", 128), ("u", 32), ("t", 1))
    s = guarded(compare(BinaryOp.LT, i, var("n")), Store("y", (i,), ld("x", i)))
    k = kernel(
        "x y n",
        (buf("x", var("n")), buf("y", var("n"))),
        loop("b", ceildiv(var("n"), 128), GRID_X, loop("u", 4, UNROLL, loop("t", 32, THREAD_X, s))),
    )
    rendered = render(module_of(k))
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
    rendered = render(module_of(k))
    assert "unsigned long long n_arg" in rendered.text
    assert concretise(rendered, {"n": 2**31})[0] == -1
    x = normal(33)
    out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, {"n": 33}, {"y"})
    np.testing.assert_array_equal(out["y"], x)


class TestGuards:
    def test_sizes_below_one_run_the_original_and_an_empty_grid_is_not_launched(self) -> None:
        i = add(at(("b", 32), ("t", 1)), 1)
        s = guarded(
            compare(BinaryOp.LT, at(("b", 32), ("t", 1)), add(var("n"), -2)), Store("y", (i,), ld("x", i))
        )
        nest = loop("b", ceildiv(add(var("n"), -2), 32), GRID_X, loop("t", 32, THREAD_X, s))
        rendered = render(module_of(kernel("x y n", (buf("x", var("n")), buf("y", var("n"))), nest)))
        assert concretise(rendered, {"n": 0})[0] == -1
        assert concretise(rendered, {"n": 1}) == (0, ())
        assert concretise(rendered, {"n": 2}) == (0, ())
        chosen, launches = concretise(rendered, {"n": 3})
        assert chosen == 0 and launches[0].grid == (1, 1, 1)

    def test_grid_limits_and_32_bit_indices(self) -> None:
        s = Store("y", (var("r"), var("t")), ld("x", var("r"), var("t")))
        nest = loop("r", var("n"), GRID_Y, loop("t", 32, THREAD_X, s))
        rendered = render(
            module_of(kernel("x y n", (buf("x", var("n"), index(32)), buf("y", var("n"), index(32))), nest))
        )
        assert concretise(rendered, {"n": 65535})[0] == 0
        assert concretise(rendered, {"n": 65536})[0] == -1
        nest = loop("r", var("n"), GRID_X, loop("t", 32, THREAD_X, s))
        rendered = render(
            module_of(kernel("x y n", (buf("x", var("n"), index(32)), buf("y", var("n"), index(32))), nest))
        )
        assert concretise(rendered, {"n": 2**26})[0] == 0
        assert concretise(rendered, {"n": 2**26 + 1})[0] == -1

    def test_assumptions_are_part_of_the_guard(self) -> None:
        k = kernel(
            "x n",
            (buf("x", var("n")),),
            loop("t", 32, THREAD_X, Store("x", (var("t"),), Const(0.0, F32))),
            fact_equal("n", 32),
        )
        rendered = render(module_of(k))
        assert [concretise(rendered, {"n": n})[0] for n in (31, 32, 33)] == [-1, 0, -1]


class TestRefusals:
    def refused(self, body: Stmt, *facts: Expr) -> str:
        k = kernel("x n", (buf("x", var("n")),), body, *facts)
        with pytest.raises(CodegenError) as caught:
            render_kernel(k)
        return caught.value.message

    def store(self, *loops: str) -> Store:
        return Store(
            "x", (at(*((n, 1) for n in loops)),), Const(0.0, F32), Origin("S0", tuple(map(var, loops)))
        )

    def test_thread_loop_of_unknown_length(self) -> None:
        assert "not a constant" in self.refused(loop("t", var("n"), THREAD_X, self.store("t")))

    def test_grid_loop_inside_another_loop(self) -> None:
        assert "outside a grid loop" in self.refused(
            loop("s", 4, SERIAL, loop("b", var("n"), GRID_X, self.store("b")))
        )

    def test_two_grid_loops_on_one_axis(self) -> None:
        assert "two loops" in self.refused(loop("a", 4, GRID_X, loop("b", var("n"), GRID_X, self.store("b"))))

    def test_statement_beside_a_grid_loop(self) -> None:
        inner = loop("b", var("n"), GRID_X, self.store("b"))
        assert "every block" in self.refused(loop("a", 4, GRID_Y, inner, self.store("a")))

    def test_register_window_of_unknown_size(self) -> None:
        body = (
            Alloc(buf("w", var("n"), space=REGISTER)),
            loop("j", var("n"), SERIAL, Store("w", (var("j"),), ld("x", var("j")))),
        )
        assert "specialize" in self.refused(loop("b", var("n"), GRID_X, *body))

    def test_shared_window_of_unknown_size(self) -> None:
        body = (
            Alloc(buf("w", var("n"), space=SHARED)),
            loop("j", 4, SERIAL, Store("w", (var("j"),), ld("x", var("j")))),
        )
        assert "not a constant" in self.refused(loop("b", var("n"), GRID_X, *body))

    def test_warp_reduction_narrower_than_the_block(self) -> None:
        body = (
            Alloc(buf("p", index(32), space=REGISTER)),
            loop("t", 32, THREAD_X, Store("p", (var("t"),), ld("x", var("t")))),
            loop("u", 64, THREAD_X, Store("x", (var("u"),), Const(0.0, F32))),
            Alloc(buf("m", space=REGISTER)),
            Store("m", (), Const(0.0, F32)),
            loop("all", 32, WARP, Reduce("m", (), SUM, ld("p", var("all")))),
        )
        assert "64 wide" in self.refused(loop("b", var("n"), GRID_X, *body))

    def test_more_registers_than_a_thread_has(self) -> None:
        copy = loop("j", 300, SERIAL, Store("w", (var("j"),), ld("x", var("j"))))
        body = (Alloc(buf("w", index(300), space=REGISTER)), copy)
        assert "300 registers" in self.refused(loop("b", var("n"), GRID_X, *body))

    def test_too_much_unrolling(self) -> None:
        nest = loop("j", 128, UNROLL, loop("k", 128, UNROLL, self.store("b", "j", "k")))
        assert "unrolling" in self.refused(loop("b", var("n"), GRID_X, nest))
