"""Lifted kernels built by hand, as the frontend is expected to build them: shared by many tests."""

from __future__ import annotations

from evolve.ir.expr import Binary, BinaryOp, Call, Const, Expr, Load, Var, add, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Buffer, For, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from evolve.ir.verify import verify

F32 = DType.F32


def buf(name: str, *extents: Expr, space: Space = Space.GLOBAL, dtype: DType = F32) -> Buffer:
    return Buffer(name, dtype, extents, space)


def ld(name: str, *indices: Expr, dtype: DType = F32) -> Load:
    return Load(name, indices, dtype)


def op(o: BinaryOp, a: Expr, b: Expr) -> Binary:
    return Binary(o, a, b, F32)


def origin(stmt: str, *loops: str) -> Origin:
    return Origin(stmt, tuple(var(x) for x in loops))


def loop(name: str, extent: Expr, *body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(name, extent, kind, Block(body))


def checked(k: Kernel) -> Kernel:
    verify(k)
    return k


def vecadd() -> Kernel:
    n, i = var("n"), var("i")
    s = Store("c", (i,), op(BinaryOp.ADD, ld("a", i), ld("b", i)), origin("S0", "i"))
    return checked(
        Kernel(
            "vecadd",
            ("a", "b", "c", "n"),
            (buf("a", n), buf("b", n), buf("c", n)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, s, kind=LoopKind.PARALLEL),)),
        )
    )


def total() -> Kernel:
    """out[0] = sum of x, by one thread."""
    k = var("k")
    body = (
        Alloc(buf("sum", space=Space.REGISTER)),
        Store("sum", (), Const(0.0, F32), origin("S0")),
        loop("k", var("n"), Reduce("sum", (), SUM, ld("x", k), origin("S1", "k"))),
        Store("out", (Const(0, DType.INDEX),), ld("sum"), origin("S2")),
    )
    return checked(
        Kernel(
            "total",
            ("x", "out", "n"),
            (buf("x", var("n")), buf("out", Const(1, DType.INDEX))),
            (Scalar("n", DType.I32, True),),
            Block(body),
        )
    )


def softmax() -> Kernel:
    rows, cols, r = var("rows"), var("cols"), var("row")
    m, s = ld("m"), ld("s")

    def e(c: str) -> Expr:
        return Call("exp", (op(BinaryOp.SUB, ld("x", r, var(c)), m),), F32)

    body = (
        Alloc(buf("m", space=Space.REGISTER)),
        Store("m", (), Const(float("-inf"), F32), origin("S0", "row")),
        loop("c", cols, Reduce("m", (), MAX, ld("x", r, var("c")), origin("S1", "row", "c"))),
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S2", "row")),
        loop("c_2", cols, Reduce("s", (), SUM, e("c_2"), origin("S3", "row", "c_2"))),
        loop(
            "c_3",
            cols,
            Store("y", (r, var("c_3")), op(BinaryOp.DIV, e("c_3"), s), origin("S4", "row", "c_3")),
        ),
    )
    return checked(
        Kernel(
            "softmax",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", rows, cols)),
            (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True)),
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def transpose() -> Kernel:
    rows, cols, i, j = var("rows"), var("cols"), var("i"), var("j")
    s = Store("y", (j, i), ld("x", i, j), origin("S0", "i", "j"))
    inner = loop("j", cols, s, kind=LoopKind.PARALLEL)
    return checked(
        Kernel(
            "transpose",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols, rows)),
            (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True)),
            Block((loop("i", rows, inner, kind=LoopKind.PARALLEL),)),
        )
    )


def matmul() -> Kernel:
    m, n, kk = var("M"), var("N"), var("K")
    i, j, k = var("i"), var("j"), var("k")
    body = (
        Alloc(buf("sum", space=Space.REGISTER)),
        Store("sum", (), Const(0.0, F32), origin("S0", "i", "j")),
        loop(
            "k",
            kk,
            Reduce(
                "sum", (), SUM, op(BinaryOp.MUL, ld("A", i, k), ld("B", k, j)), origin("S1", "i", "j", "k")
            ),
        ),
        Store("C", (i, j), ld("sum"), origin("S2", "i", "j")),
    )
    inner = loop("j", n, *body, kind=LoopKind.PARALLEL)
    return checked(
        Kernel(
            "matmul",
            ("A", "B", "C", "M", "N", "K"),
            (buf("A", m, kk), buf("B", kk, n), buf("C", m, n)),
            tuple(Scalar(x, DType.I32, True) for x in ("M", "N", "K")),
            Block((loop("i", m, inner, kind=LoopKind.PARALLEL),)),
        )
    )


def stencil() -> Kernel:
    """y[i+1][j+1] from the five points around it; loops are over the interior."""
    rows, cols = var("rows"), var("cols")
    i, j = add(var("i"), 1), add(var("j"), 1)
    around = [ld("x", add(i, -1), j), ld("x", add(i, 1), j), ld("x", i, add(j, -1)), ld("x", i, add(j, 1))]
    total: Expr = ld("x", i, j)
    for a in around:
        total = op(BinaryOp.ADD, total, a)
    s = Store("y", (i, j), op(BinaryOp.MUL, Const(0.2, F32), total), origin("S0", "i", "j"))
    inner = loop("j", add(cols, -2), s, kind=LoopKind.PARALLEL)
    return checked(
        Kernel(
            "stencil",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", rows, cols)),
            (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True)),
            Block((loop("i", add(rows, -2), inner, kind=LoopKind.PARALLEL),)),
        )
    )


def saxpy_in_place() -> Kernel:
    """y = alpha * x + y with a data scalar."""
    n, i = var("n"), var("i")
    value = op(BinaryOp.ADD, op(BinaryOp.MUL, Var("alpha", F32), ld("x", i)), ld("y", i))
    return checked(
        Kernel(
            "saxpy",
            ("n", "alpha", "x", "y"),
            (buf("x", n), buf("y", n)),
            (Scalar("n", DType.I32, True), Scalar("alpha", F32, False)),
            Block((loop("i", n, Store("y", (i,), value, origin("S0", "i")), kind=LoopKind.PARALLEL),)),
        )
    )
