"""Kernels of the transform tests, and whether two forms of one compute the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evolve.dsl.parser import parse
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    add,
    index,
    mul,
    var,
)
from evolve.ir.kernel import Contents, Kernel, Scalar
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, If, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from evolve.ir.visit import map_block_exprs, map_expr
from evolve.transforms.apply import Applied, apply_program
from tests import kernels_ir
from tests.interpreter import run
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin

SIZES = (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True))


def column_sum() -> Kernel:
    """y[c] = sum over r of x[r, c], accumulated in memory."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    body = (
        Store("y", (c,), Const(0.0, F32), origin("S0", "c")),
        loop("r", rows, Reduce("y", (c,), SUM, ld("x", r, c), origin("S1", "c", "r"))),
    )
    return checked(
        Kernel(
            "column_sum",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols)),
            SIZES,
            Block((loop("c", cols, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def column_total() -> Kernel:
    """column_sum as the frontend lifts it: accumulated in a register, stored once."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    body = (
        Alloc(buf("acc", space=Space.REGISTER)),
        Store("acc", (), Const(0.0, F32), origin("S0", "c")),
        loop("r", rows, Reduce("acc", (), SUM, ld("x", r, c), origin("S1", "c", "r"))),
        Store("y", (c,), ld("acc"), origin("S2", "c")),
    )
    return checked(
        Kernel(
            "column_total",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols)),
            SIZES,
            Block((loop("c", cols, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def moments() -> Kernel:
    """y[row] = sum of x plus sum of squares of x over the row: two loops that may be joined."""
    rows, cols, row = var("rows"), var("cols"), var("row")
    square = op(BinaryOp.MUL, ld("x", row, var("c_2")), ld("x", row, var("c_2")))
    body = (
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S0", "row")),
        loop("c", cols, Reduce("s", (), SUM, ld("x", row, var("c")), origin("S1", "row", "c"))),
        Alloc(buf("q", space=Space.REGISTER)),
        Store("q", (), Const(0.0, F32), origin("S2", "row")),
        loop("c_2", cols, Reduce("q", (), SUM, square, origin("S3", "row", "c_2"))),
        Store("y", (row,), op(BinaryOp.ADD, ld("s"), ld("q")), origin("S4", "row")),
    )
    return checked(
        Kernel(
            "moments",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", rows)),
            SIZES,
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def triangle() -> Kernel:
    """y[i, j] = x[i, j] for j <= i."""
    n, i, j = var("n"), var("i"), var("j")
    inner = loop("j", add(i, 1), Store("y", (i, j), ld("x", i, j), origin("S0", "i", "j")))
    return checked(
        Kernel(
            "triangle",
            ("x", "y", "n"),
            (buf("x", n, n), buf("y", n, n)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, inner, kind=LoopKind.PARALLEL),)),
        )
    )


def running() -> Kernel:
    """y[row, c] = sum of x[row, 0..c]: a scan, whose order matters."""
    return _running("running", "x", "y")


def cascade() -> Kernel:
    """y[row, c] = sum of y[row, 0..c], in place."""
    return _running("cascade", "y")


def _running(name: str, source: str, *others: str) -> Kernel:
    rows, cols, row, c = var("rows"), var("cols"), var("row"), var("c")
    body = (
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S0", "row")),
        loop(
            "c",
            cols,
            Reduce("s", (), SUM, ld(source, row, c), origin("S1", "row", "c")),
            Store("y", (row, c), ld("s"), origin("S2", "row", "c")),
        ),
    )
    arrays = (source, *others)
    return checked(
        Kernel(
            name,
            (*arrays, "rows", "cols"),
            tuple(buf(a, rows, cols) for a in arrays),
            SIZES,
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def pooling() -> Kernel:
    """y[row] = sum of exp(x - max x) v over sum of exp(x - max x): a weighted mean."""
    rows, cols, row, c = var("rows"), var("cols"), var("row"), var("c_2")
    power = Call("exp", (op(BinaryOp.SUB, ld("x", row, c), ld("m")),), F32)
    weighted = op(BinaryOp.MUL, ld("v", row, c), power)
    body = (
        Alloc(buf("m", space=Space.REGISTER)),
        Store("m", (), Const(float("-inf"), F32), origin("S0", "row")),
        loop("c", cols, Reduce("m", (), MAX, ld("x", row, var("c")), origin("S1", "row", "c"))),
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S2", "row")),
        Alloc(buf("o", space=Space.REGISTER)),
        Store("o", (), Const(0.0, F32), origin("S3", "row")),
        loop(
            "c_2",
            cols,
            Reduce("s", (), SUM, power, origin("S4", "row", "c_2")),
            Reduce("o", (), SUM, weighted, origin("S5", "row", "c_2")),
        ),
        Store("y", (row,), op(BinaryOp.DIV, ld("o"), ld("s")), origin("S6", "row")),
    )
    return checked(
        Kernel(
            "pooling",
            ("x", "v", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("v", rows, cols), buf("y", rows)),
            SIZES,
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def scores() -> Kernel:
    """Attention of four features: for s[c] = x[row] . w[c], the mean of v[c] weighted by exp(s[c] - max s).

    Lifted as people write it: the scores computed twice, the exponential in a variable.
    """
    rows, cols, row = var("rows"), var("cols"), var("row")
    four = index(4)

    def score(into: str, c: str, k: str, first: int) -> tuple[Stmt, ...]:
        product = op(BinaryOp.MUL, ld("x", row, var(k)), ld("w", var(c), var(k)))
        at = origin(f"S{first + 1}", "row", c, k)
        return (
            Alloc(buf(into, space=Space.REGISTER)),
            Store(into, (), Const(0.0, F32), origin(f"S{first}", "row", c)),
            loop(k, four, Reduce(into, (), SUM, product, at)),
        )

    def scaled(s: str) -> Expr:
        return op(BinaryOp.MUL, ld(s), Const(2.0, F32))

    power = Call("exp", (op(BinaryOp.SUB, scaled("s_2"), ld("m")),), F32)
    weighted = op(BinaryOp.MUL, ld("p"), ld("v", var("c_2"), var("e_2")))
    mean = op(BinaryOp.DIV, ld("a", var("e_3")), ld("t"))
    body = (
        Alloc(buf("m", space=Space.REGISTER)),
        Store("m", (), Const(float("-inf"), F32), origin("S0", "row")),
        loop(
            "c", cols, *score("s", "c", "k", 1), Reduce("m", (), MAX, scaled("s"), origin("S3", "row", "c"))
        ),
        Alloc(buf("t", space=Space.REGISTER)),
        Store("t", (), Const(0.0, F32), origin("S4", "row")),
        Alloc(buf("a", four, space=Space.REGISTER)),
        loop("e", four, Store("a", (var("e"),), Const(0.0, F32), origin("S5", "row", "e"))),
        loop(
            "c_2",
            cols,
            *score("s_2", "c_2", "k_2", 6),
            Alloc(buf("p", space=Space.REGISTER)),
            Store("p", (), power, origin("S8", "row", "c_2")),
            Reduce("t", (), SUM, ld("p"), origin("S9", "row", "c_2")),
            loop("e_2", four, Reduce("a", (var("e_2"),), SUM, weighted, origin("S10", "row", "c_2", "e_2"))),
        ),
        loop("e_3", four, Store("y", (row, var("e_3")), mean, origin("S11", "row", "e_3"))),
    )
    return checked(
        Kernel(
            "scores",
            ("x", "w", "v", "y", "rows", "cols"),
            (buf("x", rows, four), buf("w", cols, four), buf("v", cols, four), buf("y", rows, four)),
            SIZES,
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def tempered() -> Kernel:
    """softmax of x where the exponents are 2 x and the maximum is that of x."""
    softmax = kernels_ir.softmax()
    two = Const(2.0, F32)

    def doubled(e: Expr) -> Expr:
        if isinstance(e, Call):
            (arg,) = e.args
            assert isinstance(arg, Binary)
            return replace(e, args=(replace(arg, lhs=op(BinaryOp.MUL, two, arg.lhs)),))
        return e

    body = map_block_exprs(softmax.body, lambda e: map_expr(e, doubled))
    return checked(replace(softmax, name="tempered", body=body))


def layernorm() -> Kernel:
    """y = (x - mean) * rsqrt(var + eps) * gamma + beta over each row."""
    rows, cols, row = var("rows"), var("cols"), var("row")
    count = Cast(cols, F32)

    def centred(c: str) -> Expr:
        return op(BinaryOp.SUB, ld("x", row, var(c)), ld("mean"))

    spread = op(BinaryOp.ADD, op(BinaryOp.DIV, ld("v"), count), Const(1e-5, F32))
    scaled = op(BinaryOp.MUL, op(BinaryOp.MUL, centred("c_3"), ld("rstd")), ld("gamma", var("c_3")))
    body = (
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S0", "row")),
        loop("c", cols, Reduce("s", (), SUM, ld("x", row, var("c")), origin("S1", "row", "c"))),
        Alloc(buf("mean", space=Space.REGISTER)),
        Store("mean", (), op(BinaryOp.DIV, ld("s"), count), origin("S2", "row")),
        Alloc(buf("v", space=Space.REGISTER)),
        Store("v", (), Const(0.0, F32), origin("S3", "row")),
        loop(
            "c_2",
            cols,
            Reduce(
                "v", (), SUM, op(BinaryOp.MUL, centred("c_2"), centred("c_2")), origin("S4", "row", "c_2")
            ),
        ),
        Alloc(buf("rstd", space=Space.REGISTER)),
        Store("rstd", (), Call("rsqrt", (spread,), F32), origin("S5", "row")),
        loop(
            "c_3",
            cols,
            Store(
                "y",
                (row, var("c_3")),
                op(BinaryOp.ADD, scaled, ld("beta", var("c_3"))),
                origin("S6", "row", "c_3"),
            ),
        ),
    )
    return checked(
        Kernel(
            "layernorm",
            ("x", "gamma", "beta", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("gamma", cols), buf("beta", cols), buf("y", rows, cols)),
            SIZES,
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
        )
    )


def mirrored() -> Kernel:
    """y[i] = x[i] + x[n - 1 - i]."""
    n, i = var("n"), var("i")
    there = ld("x", add(add(n, -1), mul(i, -1)))
    s = Store("y", (i,), op(BinaryOp.ADD, ld("x", i), there), origin("S0", "i"))
    return checked(
        Kernel(
            "mirrored",
            ("x", "y", "n"),
            (buf("x", n), buf("y", n)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, s, kind=LoopKind.PARALLEL),)),
        )
    )


def last() -> Kernel:
    """y[row] = the last element of each row, by storing every element in turn."""
    rows, cols, row, c = var("rows"), var("cols"), var("row"), var("c")
    inner = loop("c", cols, Store("y", (row,), ld("x", row, c), origin("S0", "row", "c")))
    return checked(
        Kernel(
            "last",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", rows)),
            SIZES,
            Block((loop("row", rows, inner, kind=LoopKind.PARALLEL),)),
        )
    )


def accumulate() -> Kernel:
    """y[c] += sum over r of x[r, c], in memory."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    inner = loop("r", rows, Reduce("y", (c,), SUM, ld("x", r, c), origin("S0", "c", "r")))
    return checked(
        Kernel(
            "accumulate",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols)),
            SIZES,
            Block((loop("c", cols, inner, kind=LoopKind.PARALLEL),)),
        )
    )


def histogram() -> Kernel:
    """h[x[i]] += 1 for values of 0 to 7."""
    n, i = var("n"), var("i")
    where = Cast(Load("x", (i,), DType.I32), DType.INDEX)
    s = Reduce("h", (where,), SUM, Const(1, DType.I32), origin("S0", "i"), atomic=True)
    return checked(
        Kernel(
            "histogram",
            ("x", "h", "n"),
            (replace(buf("x", n), dtype=DType.I32), replace(buf("h", index(8)), dtype=DType.I32)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, s, kind=LoopKind.PARALLEL),)),
            contents=(Contents("x", index(0), index(8)),),
        )
    )


def segments() -> Kernel:
    """y[row] = sum of x[start[row]] to x[start[row + 1] - 1]."""
    rows, row, k = var("rows"), var("row"), var("k")
    first, following = (Cast(Load("start", (i,), DType.I32), DType.INDEX) for i in (row, add(row, index(1))))
    body = (
        Alloc(buf("sum", space=Space.REGISTER)),
        Store("sum", (), Const(0.0, F32), origin("S0", "row")),
        loop(
            "k",
            add(following, mul(first, -1)),
            Reduce("sum", (), SUM, ld("x", add(first, k)), origin("S1", "row", "k")),
        ),
        Store("y", (row,), ld("sum"), origin("S2", "row")),
    )
    return checked(
        Kernel(
            "segments",
            ("start", "x", "y", "rows"),
            (replace(buf("start", add(rows, 1)), dtype=DType.I32), buf("x", var("entries")), buf("y", rows)),
            (Scalar("rows", DType.I32, True), Scalar("entries", DType.I32, True, implied=True)),
            Block((loop("row", rows, *body, kind=LoopKind.PARALLEL),)),
            contents=(Contents("start", index(0), add(var("entries"), 1), nondecreasing=True),),
        )
    )


def smooth() -> Kernel:
    """y[row, i] = t[i] + t[i + 4] with t[k] = 0.25 x[row, k] + 0.5 x[row, k + 1], kept in an array."""
    row, k, i = var("row"), var("k"), var("i")
    weighted = [op(BinaryOp.MUL, Const(w, F32), ld("x", row, add(k, n))) for n, w in enumerate((0.25, 0.5))]
    body = (
        Alloc(buf("t", index(20), space=Space.REGISTER)),
        loop("k", index(20), Store("t", (k,), op(BinaryOp.ADD, *weighted), origin("S0", "row", "k"))),
        loop(
            "i",
            index(16),
            Store("y", (row, i), op(BinaryOp.ADD, ld("t", i), ld("t", add(i, 4))), origin("S1", "row", "i")),
        ),
    )
    return checked(
        Kernel(
            "smooth",
            ("x", "y", "rows"),
            (buf("x", var("rows"), index(21)), buf("y", var("rows"), index(16))),
            SIZES[:1],
            Block((loop("row", var("rows"), *body, kind=LoopKind.PARALLEL),)),
        )
    )


def activation() -> Kernel:
    """y = x * alpha, with a bias, as it is or halved, by parameters; mode 2 sums what is before instead."""
    n, i, j, alpha = var("n"), var("i"), var("j"), Var("alpha", F32)
    biased = Binary(BinaryOp.NE, Var("bias", DType.I32), Const(0, DType.I32), DType.BOOL)
    scaled = op(BinaryOp.MUL, ld("x", i), alpha)
    value = Select(biased, op(BinaryOp.ADD, scaled, ld("b", i)), scaled, F32)
    halved = Binary(BinaryOp.GT, alpha, Const(1.0, F32), DType.BOOL)
    half = Select(halved, op(BinaryOp.MUL, value, Const(0.5, F32)), value, F32)
    running = (
        Store("y", (i,), Const(0.0, F32), origin("S1", "i")),
        loop("j", i, Reduce("y", (i,), SUM, ld("x", j), origin("S2", "i", "j"))),
    )
    mode = Binary(BinaryOp.EQ, Var("mode", DType.I32), Const(2, DType.I32), DType.BOOL)
    either = If(mode, Block(running), Block((Store("y", (i,), half, origin("S0", "i")),)))
    scalars = (("n", DType.I32, True), ("bias", DType.I32, False), ("mode", DType.I32, False))
    return checked(
        Kernel(
            "activation",
            ("x", "b", "y", "n", "bias", "mode", "alpha"),
            (buf("x", n), buf("b", n), buf("y", n)),
            (*(Scalar(*s) for s in scalars), Scalar("alpha", F32, False)),
            Block((loop("i", n, either, kind=LoopKind.PARALLEL),)),
        )
    )


KERNELS: dict[str, Callable[[], Kernel]] = {
    "vecadd": kernels_ir.vecadd,
    "softmax": kernels_ir.softmax,
    "total": kernels_ir.total,
    "transpose": kernels_ir.transpose,
    "matmul": kernels_ir.matmul,
    "stencil": kernels_ir.stencil,
    "saxpy": kernels_ir.saxpy_in_place,
    "column_sum": column_sum,
    "column_total": column_total,
    "moments": moments,
    "triangle": triangle,
    "running": running,
    "cascade": cascade,
    "tempered": tempered,
    "pooling": pooling,
    "scores": scores,
    "layernorm": layernorm,
    "mirrored": mirrored,
    "last": last,
    "accumulate": accumulate,
    "histogram": histogram,
    "smooth": smooth,
    "segments": segments,
    "activation": activation,
}


def applied(kernel: str, program: str) -> Applied:
    """A program applied to a fixture kernel."""
    return apply_program(KERNELS[kernel](), parse(program))


def sizes_for(kernel: Kernel, *wanted: int) -> dict[str, int | float]:
    """Values of all scalars near `wanted` (in turn) that the kernel's assumptions allow."""
    ranges = ranges_at(kernel)
    out: dict[str, int | float] = {}
    for number, s in enumerate(kernel.scalars):
        if not s.is_size:
            out[s.name] = 1.5 if s.dtype.is_float else 1
            continue
        low, high = ranges.of(s.name)
        divisor = ranges.divisors.get(s.name, 1)
        near = wanted[number % len(wanted)]
        value = max(divisor, -(-near // divisor) * divisor)
        out[s.name] = value if low is None or high is None or low != high else low
    return out


def assert_same(before: Kernel, after: Kernel, *wanted: int, seed: int = 0) -> None:
    """Both kernels give the same arrays on random inputs of sizes that `after` allows."""
    scalars = sizes_for(after, *wanted)
    rng = np.random.default_rng(seed)
    arrays = {}
    for b in before.buffers:
        shape = tuple(_value(e, scalars) for e in b.extents)
        arrays[b.name] = rng.standard_normal(shape) if b.dtype.is_float else rng.integers(0, 8, shape)
    for c in before.contents:
        if c.nondecreasing:
            low, high = _value(c.low, scalars), _value(c.high, scalars)
            inner = np.sort(rng.integers(low, high, len(arrays[c.buffer]) - 2))
            arrays[c.buffer] = np.array([low, *inner, high - 1])
    want, got = run(before, arrays, scalars), run(after, arrays, scalars)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-9, atol=1e-12, err_msg=f"{name} at {scalars}")


def _value(e: object, scalars: dict[str, int | float]) -> int:
    from evolve.ir.affine import simplify
    from evolve.ir.expr import index
    from evolve.ir.visit import substitute

    result = simplify(substitute(e, {n: index(int(v)) for n, v in scalars.items()}))  # type: ignore[arg-type]
    assert isinstance(result, Const)
    return int(result.value)
