"""Scheduled kernels built by hand, in the shape in which transform programs leave them.

Each has the lifted form of `tests.kernels_ir` with the same name as its source. `barriers=False`
leaves the barriers out, as transforms do before `legality.barriers.place`.
"""

from __future__ import annotations

from evolve.ir.expr import (
    BinaryOp,
    Call,
    Const,
    Expr,
    Load,
    Var,
    add,
    ceildiv,
    compare,
    conjunction,
    floordiv,
    index,
    mod,
    mul,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from tests.kernels_ir import buf, checked, ld, op

F32 = DType.F32
I32 = DType.I32
SERIAL, UNROLL, VECTOR = LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.VECTOR
GRID_X, GRID_Y = LoopKind.GRID_X, LoopKind.GRID_Y
THREAD_X, THREAD_Y = LoopKind.THREAD_X, LoopKind.THREAD_Y
WARP, BLOCK = LoopKind.COMBINE_WARP, LoopKind.COMBINE_BLOCK
REGISTER, SHARED = Space.REGISTER, Space.SHARED


def loop(name: str, extent: Expr | int, kind: LoopKind, *body: Stmt, note: str = "") -> For:
    return For(name, index(extent) if isinstance(extent, int) else extent, kind, Block(body), note)


def at(*terms: tuple[str, int]) -> Expr:
    """sum(loop * stride)."""
    out: Expr | None = None
    for name, stride in terms:
        term = var(name) if stride == 1 else mul(var(name), stride)
        out = term if out is None else add(out, term)
    assert out is not None
    return out


def fact_equal(name: str, value: int) -> Expr:
    return compare(BinaryOp.EQ, var(name), value)


def fact_multiple(name: str, divisor: int) -> Expr:
    return compare(BinaryOp.EQ, mod(var(name), divisor), 0)


def guarded(cond: Expr, *body: Stmt) -> If:
    return If(cond, Block(body))


def sizes(*names: str) -> tuple[Scalar, ...]:
    return tuple(Scalar(n, I32, True) for n in names)


def vecadd(threads: int = 256, *, multiple_of_4: bool = True) -> Kernel:
    """split(i, 4 * threads); split(i.i, 4); bind(i.o, grid.x); bind(i.i.o, thread.x); vectorize(i.i.i, 4)."""
    n = var("n")
    i = at(("i.o", 4 * threads), ("i.i.o", 4), ("i.i.i", 1))
    s = Store("c", (i,), op(BinaryOp.ADD, ld("a", i), ld("b", i)), Origin("S0", (i,)))
    body = loop("i.i.i", 4, VECTOR, guarded(compare(BinaryOp.LT, i, n), s), note="vectorize(i.i.i, 4)")
    body = loop("i.i.o", threads, THREAD_X, body, note="split(i.i, 4)")
    body = loop("i.o", ceildiv(n, 4 * threads), GRID_X, body, note=f"split(i, {4 * threads})")
    return checked(
        Kernel(
            "vecadd",
            ("a", "b", "c", "n"),
            (buf("a", n), buf("b", n), buf("c", n)),
            sizes("n"),
            Block((body,)),
            (fact_multiple("n", 4),) if multiple_of_4 else (),
        )
    )


def softmax_block(cols: int = 8192, threads: int = 256) -> Kernel:
    """One block a row, the row in registers, 4 columns a vector."""
    rows, row = var("rows"), var("row")
    chunk = 4 * threads
    trips = cols // chunk
    assert trips * chunk == cols

    def column(loop_name: str) -> Expr:
        return at((f"{loop_name}.o.o", chunk), (f"{loop_name}.o.i", 4), (f"{loop_name}.i", 1))

    def nest(name: str, inner: LoopKind, stmt: Stmt) -> For:
        lane = loop(f"{name}.i", 4, inner, stmt, note=f"split({name}, 4)")
        thread = loop(f"{name}.o.i", threads, THREAD_X, lane, note=f"split({name}.o, {threads})")
        return loop(f"{name}.o.o", trips, UNROLL, thread, note=f"split({name}.o, {threads})")

    def xr(name: str) -> Load:
        return Load("xr", (index(0), column(name)), F32)

    def e(name: str) -> Expr:
        return Call("exp", (op(BinaryOp.SUB, xr(name), ld("m")),), F32)

    def reduction(
        acc: str, name: str, s0: str, s1: str, value: Expr, init: float, start: float
    ) -> list[Stmt]:
        monoid = MAX if acc == "m" else SUM
        part = f"{acc}_part"
        t = f"{name}.o.i"
        step = Reduce(part, (var(t),), monoid, value, Origin(s1, (row, column(name))))
        combine = Reduce(acc, (), monoid, Load(part, (var(f"{t}.all"),), F32))
        return [
            Alloc(buf(acc, space=REGISTER)),
            Store(acc, (), Const(init, F32), Origin(s0, (row,))),
            Alloc(buf(part, index(threads), space=REGISTER)),
            loop(f"{t}.init", threads, THREAD_X, Store(part, (var(f"{t}.init"),), Const(start, F32))),
            nest(name, SERIAL, step),
            loop(f"{t}.all", threads, BLOCK, combine, note=f"block_reduce({t})"),
        ]

    y_value = op(BinaryOp.DIV, e("c_3"), ld("s"))
    body: list[Stmt] = [
        Alloc(buf("xr", index(1), index(cols), space=REGISTER)),
        nest("xr.1", VECTOR, Store("xr", (index(0), column("xr.1")), ld("x", row, column("xr.1")))),
        *reduction("m", "c", "S0", "S1", xr("c"), float("-inf"), float("-inf")),
        *reduction("s", "c_2", "S2", "S3", e("c_2"), 0.0, -0.0),
        nest("c_3", VECTOR, Store("y", (row, column("c_3")), y_value, Origin("S4", (row, column("c_3"))))),
    ]
    return checked(
        Kernel(
            "softmax",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, index(cols)), buf("y", rows, index(cols))),
            sizes("rows", "cols"),
            Block((loop("row", rows, GRID_X, *body, note="bind(row, grid.x)"),)),
            (fact_equal("cols", cols),),
        )
    )


def softmax_warp(cols: int = 1024, rows_per_block: int = 4) -> Kernel:
    """One warp a row, `rows_per_block` rows a block; the last block is guarded on the row."""
    rows = var("rows")
    row = at(("row.o", rows_per_block), ("row.i", 1))
    trips = cols // 128
    assert trips * 128 == cols

    def column(name: str) -> Expr:
        return at((f"{name}.o.o", 128), (f"{name}.o.i", 4), (f"{name}.i", 1))

    def nest(name: str, inner: LoopKind, stmt: Stmt) -> For:
        return loop(
            f"{name}.o.o", trips, UNROLL, loop(f"{name}.o.i", 32, THREAD_X, loop(f"{name}.i", 4, inner, stmt))
        )

    def xr(name: str) -> Load:
        return Load("xr", (index(0), column(name)), F32)

    def e(name: str) -> Expr:
        return Call("exp", (op(BinaryOp.SUB, xr(name), ld("m")),), F32)

    def reduction(
        acc: str, name: str, s0: str, s1: str, value: Expr, init: float, start: float
    ) -> list[Stmt]:
        monoid = MAX if acc == "m" else SUM
        part = f"{acc}_part"
        t = f"{name}.o.i"
        step = Reduce(part, (var(t),), monoid, value, Origin(s1, (row, column(name))))
        return [
            Alloc(buf(acc, space=REGISTER)),
            Store(acc, (), Const(init, F32), Origin(s0, (row,))),
            Alloc(buf(part, index(32), space=REGISTER)),
            loop(f"{t}.init", 32, THREAD_X, Store(part, (var(f"{t}.init"),), Const(start, F32))),
            nest(name, SERIAL, step),
            loop(
                f"{t}.all",
                32,
                WARP,
                Reduce(acc, (), monoid, Load(part, (var(f"{t}.all"),), F32)),
                note=f"warp_reduce({t})",
            ),
        ]

    value = op(BinaryOp.DIV, e("c_3"), ld("s"))
    body: list[Stmt] = [
        Alloc(buf("xr", index(1), index(cols), space=REGISTER)),
        nest("xr.1", VECTOR, Store("xr", (index(0), column("xr.1")), ld("x", row, column("xr.1")))),
        *reduction("m", "c", "S0", "S1", xr("c"), float("-inf"), float("-inf")),
        *reduction("s", "c_2", "S2", "S3", e("c_2"), 0.0, -0.0),
        nest("c_3", VECTOR, Store("y", (row, column("c_3")), value, Origin("S4", (row, column("c_3"))))),
    ]
    inner = loop("row.i", rows_per_block, THREAD_Y, guarded(compare(BinaryOp.LT, row, rows), *body))
    outer = loop("row.o", ceildiv(rows, rows_per_block), GRID_X, inner, note=f"split(row, {rows_per_block})")
    return checked(
        Kernel(
            "softmax",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, index(cols)), buf("y", rows, index(cols))),
            sizes("rows", "cols"),
            Block((outer,)),
            (fact_equal("cols", cols),),
        )
    )


def transpose_tiled(tile: int = 32, rows_at_once: int = 8, *, pad: int = 1, barriers: bool = True) -> Kernel:
    """A padded shared tile; both sides coalesced, every access guarded for partial tiles."""
    rows, cols = var("rows"), var("cols")
    trips = tile // rows_at_once
    t0 = at(("t.0.o", rows_at_once), ("t.0.i", 1))
    ji = at(("j.i.o", rows_at_once), ("j.i.i", 1))

    def row(local: Expr) -> Expr:
        return add(mul(var("i.o"), tile), local)

    def col(local: Expr) -> Expr:
        return add(mul(var("j.o"), tile), local)

    def inside(i: Expr, j: Expr) -> Expr:
        return conjunction((compare(BinaryOp.LT, i, rows), compare(BinaryOp.LT, j, cols)))

    copy_i, copy_j = row(t0), col(var("t.1"))
    out_i, out_j = row(var("i.i")), col(ji)
    copy = guarded(inside(copy_i, copy_j), Store("t", (t0, var("t.1")), ld("x", copy_i, copy_j)))
    write = guarded(
        inside(out_i, out_j),
        Store("y", (out_j, out_i), ld("t", var("i.i"), ji), Origin("S0", (out_i, out_j))),
    )
    body: list[Stmt] = [
        Alloc(Buffer("t", F32, (index(tile), index(tile)), SHARED, (0, pad))),
        loop(
            "t.0.o",
            trips,
            UNROLL,
            loop("t.0.i", rows_at_once, THREAD_Y, loop("t.1", tile, THREAD_X, copy)),
            note="t = stage(x, at=j.o, scope=shared)",
        ),
        *([Barrier()] if barriers else []),
        loop(
            "j.i.o", trips, UNROLL, loop("j.i.i", rows_at_once, THREAD_Y, loop("i.i", tile, THREAD_X, write))
        ),
    ]
    grid = loop("j.o", ceildiv(cols, tile), GRID_X, *body, note=f"tile([i, j], [{tile}, {tile}])")
    return checked(
        Kernel(
            "transpose",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols, rows)),
            sizes("rows", "cols"),
            Block((loop("i.o", ceildiv(rows, tile), GRID_Y, grid, note=f"tile([i, j], [{tile}, {tile}])"),)),
        )
    )


def transpose_float4(tile: int = 64, rows_at_once: int = 16, *, barriers: bool = True) -> Kernel:
    """64x64 tile, float4 on both global sides, scalar on the padded shared side; sizes divide."""
    rows, cols = var("rows"), var("cols")
    trips, lanes = tile // rows_at_once, tile // 4
    t0 = at(("t.0.o", rows_at_once), ("t.0.i", 1))
    t1 = at(("t.1.o", 4), ("t.1.i", 1))
    ji = at(("j.i.o", rows_at_once), ("j.i.i", 1))
    ii = at(("i.i.o", 4), ("i.i.i", 1))
    copy_i, copy_j = add(mul(var("i.o"), tile), t0), add(mul(var("j.o"), tile), t1)
    out_i, out_j = add(mul(var("i.o"), tile), ii), add(mul(var("j.o"), tile), ji)
    copy = Store("t", (t0, t1), ld("x", copy_i, copy_j))
    write = Store("y", (out_j, out_i), ld("t", ii, ji), Origin("S0", (out_i, out_j)))

    def nest(outer: str, ty: str, tx: str, lane: str, stmt: Stmt) -> For:
        inner = loop(tx, lanes, THREAD_X, loop(lane, 4, VECTOR, stmt, note=f"vectorize({lane}, 4)"))
        return loop(outer, trips, UNROLL, loop(ty, rows_at_once, THREAD_Y, inner))

    body: list[Stmt] = [
        Alloc(Buffer("t", F32, (index(tile), index(tile)), SHARED, (0, 1))),
        nest("t.0.o", "t.0.i", "t.1.o", "t.1.i", copy),
        *([Barrier()] if barriers else []),
        nest("j.i.o", "j.i.i", "i.i.o", "i.i.i", write),
    ]
    grid = loop("j.o", floordiv(cols, tile), GRID_X, *body)
    return checked(
        Kernel(
            "transpose",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols, rows)),
            sizes("rows", "cols"),
            Block((loop("i.o", floordiv(rows, tile), GRID_Y, grid),)),
            (fact_multiple("rows", tile), fact_multiple("cols", tile)),
        )
    )


def matmul_tiled(*, barriers: bool = True) -> Kernel:
    """128x128 block tiles, 16-deep shared panels, 8x8 register tiles over 16x16 threads."""
    m, n, kk = var("M"), var("N"), var("K")
    bar: list[Stmt] = [Barrier()] if barriers else []

    def ti(copy: int) -> Expr:
        return at((f"i.i.o.{copy}", 8), (f"i.i.i.{copy}", 1))

    def tj(copy: int) -> Expr:
        if copy == 2:
            return at(("j.i.o.2", 8), ("j.i.i.2.o", 4), ("j.i.i.2.i", 1))
        return at((f"j.i.o.{copy}", 8), (f"j.i.i.{copy}", 1))

    def gi(local: Expr) -> Expr:
        return add(mul(var("i.o"), 128), local)

    def gj(local: Expr) -> Expr:
        return add(mul(var("j.o"), 128), local)

    def threads(copy: int, *body: Stmt) -> For:
        return loop(f"i.i.o.{copy}", 16, THREAD_Y, loop(f"j.i.o.{copy}", 16, THREAD_X, *body))

    init = Store("sum", (ti(0), tj(0)), Const(0.0, F32), Origin("S0", (gi(ti(0)), gj(tj(0)))))
    a0, a1 = at(("a.0.o", 16), ("a.0.i", 1)), var("a.1")
    b0, b1 = var("b.0"), at(("b.1.o.o", 64), ("b.1.o.i", 4), ("b.1.i", 1))
    k0 = mul(var("k.o"), 16)
    copy_a = Store("a", (a0, a1), ld("A", gi(a0), add(k0, a1)))
    copy_b = Store("b", (b0, b1), ld("B", add(k0, b0), gj(b1)))
    k = add(k0, var("k.i"))
    step = Reduce(
        "sum",
        (ti(1), tj(1)),
        SUM,
        op(BinaryOp.MUL, ld("a", ti(1), var("k.i")), ld("b", var("k.i"), tj(1))),
        Origin("S1", (gi(ti(1)), gj(tj(1)), k)),
    )
    compute = threads(
        1, loop("k.i", 16, UNROLL, loop("i.i.i.1", 8, UNROLL, loop("j.i.i.1", 8, UNROLL, step)))
    )
    write = Store("C", (gi(ti(2)), gj(tj(2))), ld("sum", ti(2), tj(2)), Origin("S2", (gi(ti(2)), gj(tj(2)))))
    panel: list[Stmt] = [
        Alloc(buf("a", index(128), index(16), space=SHARED)),
        Alloc(buf("b", index(16), index(128), space=SHARED)),
        loop("a.0.o", 8, UNROLL, loop("a.0.i", 16, THREAD_Y, loop("a.1", 16, THREAD_X, copy_a))),
        loop(
            "b.0",
            16,
            THREAD_Y,
            loop("b.1.o.o", 2, UNROLL, loop("b.1.o.i", 16, THREAD_X, loop("b.1.i", 4, VECTOR, copy_b))),
        ),
        *bar,
        compute,
        *bar,
    ]
    body: list[Stmt] = [
        Alloc(buf("sum", index(128), index(128), space=REGISTER)),
        threads(0, loop("i.i.i.0", 8, UNROLL, loop("j.i.i.0", 8, UNROLL, init))),
        loop("k.o", floordiv(kk, 16), SERIAL, *panel, note="split(k, 16)"),
        threads(
            2,
            loop("i.i.i.2", 8, UNROLL, loop("j.i.i.2.o", 2, UNROLL, loop("j.i.i.2.i", 4, VECTOR, write))),
        ),
    ]
    grid = loop("j.o", floordiv(n, 128), GRID_X, *body, note="tile([i, j], [128, 128])")
    return checked(
        Kernel(
            "matmul",
            ("A", "B", "C", "M", "N", "K"),
            (buf("A", m, kk), buf("B", kk, n), buf("C", m, n)),
            sizes("M", "N", "K"),
            Block((loop("i.o", floordiv(m, 128), GRID_Y, grid, note="tile([i, j], [128, 128])"),)),
            (fact_multiple("M", 128), fact_multiple("N", 128), fact_multiple("K", 16)),
        )
    )


def saxpy_bound(threads: int = 128) -> Kernel:
    """One element a thread, in place, with a data scalar."""
    n = var("n")
    i = at(("i.o", threads), ("i.i", 1))
    value = op(BinaryOp.ADD, op(BinaryOp.MUL, Var("alpha", F32), ld("x", i)), ld("y", i))
    s = guarded(compare(BinaryOp.LT, i, n), Store("y", (i,), value, Origin("S0", (i,))))
    return checked(
        Kernel(
            "saxpy",
            ("n", "alpha", "x", "y"),
            (buf("x", n), buf("y", n)),
            (Scalar("n", I32, True), Scalar("alpha", F32, False)),
            Block((loop("i.o", ceildiv(n, threads), GRID_X, loop("i.i", threads, THREAD_X, s)),)),
        )
    )


SCHEDULED = {
    "vecadd": vecadd,
    "softmax_block": softmax_block,
    "softmax_warp": softmax_warp,
    "transpose_tiled": transpose_tiled,
    "transpose_float4": transpose_float4,
    "transpose_dynamic": lambda: transpose_float4(128),
    "matmul_tiled": matmul_tiled,
    "saxpy_bound": saxpy_bound,
}
"""Builders by name."""
