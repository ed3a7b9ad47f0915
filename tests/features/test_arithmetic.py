"""Counts of distinct operations."""

from evolve.features.arithmetic import operations
from evolve.ir.expr import BinaryOp, Call, Cast, Const, Expr, Var, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Reduce, Stmt, Store
from evolve.ir.types import SUM, DType, LoopKind, Space
from tests import kernels_ir as lifted
from tests.kernels_ir import buf, ld, loop, op

F32 = DType.F32
N = 32


def count(*body: Stmt) -> dict[str, float]:
    n = var("n")
    k = Kernel(
        "k",
        ("x", "y", "n"),
        (buf("x", n, n), buf("y", n, n)),
        (Scalar("n", DType.I32, True),),
        Block(body),
    )
    return dict(operations(k, {"n": N}))


def square(*body: Stmt) -> Stmt:
    inner = loop("j", var("n"), *body, kind=LoopKind.PARALLEL)
    return loop("i", var("n"), inner, kind=LoopKind.PARALLEL)


def store(value: Expr) -> Store:
    return Store("y", (var("i"), var("j")), value)


X = ld("x", var("i"), var("j"))


def test_a_sum_that_every_thread_of_a_row_repeats_counts_once_a_row() -> None:
    ops = count(
        square(
            Alloc(buf("t", space=Space.REGISTER)),
            Store("t", (), Const(0.0, F32)),
            loop("k", var("n"), Reduce("t", (), SUM, ld("x", var("i"), var("k")))),
            store(op(BinaryOp.SUB, X, ld("t"))),
        )
    )
    assert ops == {"f32.add": N * N + N * N}


def test_equal_operations_count_once() -> None:
    e = op(BinaryOp.MUL, X, X)
    assert count(square(store(op(BinaryOp.MAX, e, e)))) == {"f32.mul": N * N, "f32.minmax": N * N}


def test_operand_order_does_not_matter_where_it_commutes() -> None:
    a, b = X, ld("x", var("j"), var("i"))
    both = op(BinaryOp.MAX, op(BinaryOp.MUL, a, b), op(BinaryOp.MUL, b, a))
    assert count(square(store(both)))["f32.mul"] == N * N


def test_a_named_value_is_followed() -> None:
    ops = count(
        square(
            Alloc(buf("d", space=Space.REGISTER)),
            Store("d", (), op(BinaryOp.SUB, X, Const(1.0, F32))),
            store(op(BinaryOp.MUL, ld("d"), op(BinaryOp.SUB, X, Const(1.0, F32)))),
        )
    )
    assert ops == {"f32.add": N * N, "f32.mul": N * N}


def test_work_on_scalars_alone_is_done_once() -> None:
    size = Cast(Var("n", DType.INDEX), F32)
    ops = count(square(store(op(BinaryOp.MUL, X, Call("sqrt", (size,), F32)))))
    assert ops["f32.special.sqrt"] == 1 and ops["f32.mul"] == N * N


def test_a_division_by_what_changes_each_time_is_a_full_one() -> None:
    assert "f32.div" in count(square(store(op(BinaryOp.DIV, Const(1.0, F32), X))))
    by_row = op(BinaryOp.DIV, X, ld("x", var("i"), var("i")))
    assert "f32.div_invariant" in count(square(store(by_row)))


def test_a_value_that_changes_between_two_uses_counts_twice() -> None:
    ops = count(
        square(
            Alloc(buf("t", space=Space.REGISTER)),
            Store("t", (), X),
            store(op(BinaryOp.MUL, ld("t"), X)),
            Store("t", (), Const(2.0, F32)),
            store(op(BinaryOp.MUL, ld("t"), X)),
        )
    )
    assert ops == {"f32.mul": 2 * N * N}


def test_an_update_in_place_depends_on_its_loop() -> None:
    # t = t * x inside a serial loop: every round is a new value.
    j = loop("j", var("n"), Store("t", (), op(BinaryOp.MUL, ld("t"), X)))
    ops = count(
        loop(
            "i",
            var("n"),
            Alloc(buf("t", space=Space.REGISTER)),
            Store("t", (), Const(1.0, F32)),
            j,
            Store("y", (var("i"), var("i")), ld("t")),
            kind=LoopKind.PARALLEL,
        )
    )
    assert ops == {"f32.mul": N * N}


def test_stencil_weights_multiply_once_a_point() -> None:
    ops = operations(lifted.stencil(), {"rows": N, "cols": N})
    assert ops == {"f32.add": 4 * (N - 2) ** 2, "f32.mul": (N - 2) ** 2}
