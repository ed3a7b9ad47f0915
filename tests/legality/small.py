"""Schedules with tiny tiles, so that running every instance is quick, and random damage to them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from evolve.compiler.compile import finish
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, add, floordiv, index, mul, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import map_expr, rewrite, walk
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.codegen.scheduled_ir import at, fact_multiple, loop
from tests.kernels_ir import buf, checked, ld, op
from tests.transforms.fixtures import KERNELS, applied

F32 = DType.F32


@dataclass(frozen=True)
class Case:
    source: Kernel
    target: Kernel
    sizes: tuple[dict[str, int], ...]


def matmul(*, barriers: bool = True) -> Kernel:
    """4x4 block tiles, 2x2 register tiles over 2x2 threads, panels 2 deep."""
    m, n, kk = var("M"), var("N"), var("K")
    bar: list[Stmt] = [Barrier()] if barriers else []

    def ti(c: int) -> Expr:
        return at((f"io{c}", 2), (f"ii{c}", 1))

    def tj(c: int) -> Expr:
        return at((f"jo{c}", 2), (f"ji{c}", 1))

    def gi(local: Expr) -> Expr:
        return add(mul(var("bi"), 4), local)

    def gj(local: Expr) -> Expr:
        return add(mul(var("bj"), 4), local)

    def nest(c: int, *body: Stmt) -> For:
        return loop(f"io{c}", 2, LoopKind.THREAD_Y, loop(f"jo{c}", 2, LoopKind.THREAD_X, *body))

    def tile(c: int, s: Stmt) -> For:
        return loop(f"ii{c}", 2, LoopKind.UNROLL, loop(f"ji{c}", 2, LoopKind.UNROLL, s))

    k = add(mul(var("ko"), 2), var("ki"))
    init = Store("sum", (ti(0), tj(0)), Const(0.0, F32), Origin("S0", (gi(ti(0)), gj(tj(0)))))
    copy_a = Store(
        "a",
        (at(("a0", 2), ("a0i", 1)), var("a1")),
        ld("A", gi(at(("a0", 2), ("a0i", 1))), add(mul(var("ko"), 2), var("a1"))),
    )
    copy_b = Store(
        "b",
        (var("b0"), at(("b1", 2), ("b1i", 1))),
        ld("B", add(mul(var("ko"), 2), var("b0")), gj(at(("b1", 2), ("b1i", 1)))),
    )
    value = op(BinaryOp.MUL, ld("a", ti(1), var("ki")), ld("b", var("ki"), tj(1)))
    step = Reduce("sum", (ti(1), tj(1)), SUM, value, Origin("S1", (gi(ti(1)), gj(tj(1)), k)))
    write = Store("C", (gi(ti(2)), gj(tj(2))), ld("sum", ti(2), tj(2)), Origin("S2", (gi(ti(2)), gj(tj(2)))))
    panel: list[Stmt] = [
        Alloc(buf("a", index(4), index(2), space=Space.SHARED)),
        Alloc(buf("b", index(2), index(4), space=Space.SHARED)),
        loop(
            "a0",
            2,
            LoopKind.UNROLL,
            loop("a0i", 2, LoopKind.THREAD_Y, loop("a1", 2, LoopKind.THREAD_X, copy_a)),
        ),
        loop(
            "b0",
            2,
            LoopKind.THREAD_Y,
            loop("b1", 2, LoopKind.THREAD_X, loop("b1i", 2, LoopKind.UNROLL, copy_b)),
        ),
        *bar,
        nest(1, loop("ki", 2, LoopKind.UNROLL, tile(1, step))),
        *bar,
    ]
    body = (
        Alloc(buf("sum", index(4), index(4), space=Space.REGISTER)),
        nest(0, tile(0, init)),
        loop("ko", floordiv(kk, 2), LoopKind.SERIAL, *panel),
        nest(2, tile(2, write)),
    )
    grid = loop("bi", floordiv(m, 4), LoopKind.GRID_Y, loop("bj", floordiv(n, 4), LoopKind.GRID_X, *body))
    source = lifted.matmul()
    facts = (fact_multiple("M", 4), fact_multiple("N", 4), fact_multiple("K", 2))
    return checked(replace(source, body=Block((grid,)), assumptions=facts))


def two_launches(kernel: str, program: str, sizes: tuple[dict[str, int], ...]) -> Case:
    """A kernel with a grid reduction."""
    done = applied(kernel, program).kernel
    return Case(KERNELS[kernel](), finish(done), sizes)


def cases() -> dict[str, Case]:
    """Name to case; every target is right."""
    return {
        "transpose": Case(
            lifted.transpose(),
            scheduled.transpose_tiled(4, 2),
            tuple({"rows": r, "cols": c} for r, c in ((1, 1), (4, 4), (5, 6), (3, 9))),
        ),
        "transpose_float4": Case(
            lifted.transpose(),
            scheduled.transpose_float4(8, 4),
            ({"rows": 8, "cols": 8}, {"rows": 8, "cols": 16}, {"rows": 16, "cols": 8}),
        ),
        "softmax": Case(
            lifted.softmax(),
            scheduled.softmax_block(16, 2),
            ({"rows": 1, "cols": 16}, {"rows": 3, "cols": 16}),
        ),
        "matmul": Case(
            lifted.matmul(),
            matmul(),
            tuple({"M": m, "N": n, "K": k} for m, n, k in ((4, 4, 2), (8, 4, 4), (4, 8, 6))),
        ),
        "vecadd": Case(
            lifted.vecadd(),
            scheduled.vecadd(2, multiple_of_4=False),
            tuple({"n": n} for n in (1, 3, 8, 13)),
        ),
        "total": two_launches(
            "total",
            "split(k, 8)\ngrid_reduce(k.o)\nbind(k.o, grid.x)\nsplit(k.i, 4)\nwarp_reduce(k.i.i)\n"
            "split(k.o.all, 2)\nwarp_reduce(k.o.all.i)",
            tuple({"n": n} for n in (1, 8, 13, 30)),
        ),
        "column_total": two_launches(
            "column_total",
            "split(r, 2)\ngrid_reduce(r.o)\nbind(c.part, grid.x)\nbind(r.o, grid.y)\n"
            "split(c, 2)\nbind(c.o, grid.x)\nbind(c.i, thread.x)",
            tuple({"rows": r, "cols": c} for r, c in ((1, 1), (5, 3), (4, 6))),
        ),
        "saxpy": Case(lifted.saxpy_in_place(), scheduled.saxpy_bound(4), tuple({"n": n} for n in (1, 4, 9))),
    }


def _bump(rng: random.Random, e: Expr) -> Expr:
    """One index literal in `e` changed."""
    spots = [0]

    def count(x: Expr) -> Expr:
        if isinstance(x, Const) and x.dtype is DType.INDEX:
            spots[0] += 1
        return x

    map_expr(e, count)
    if not spots[0]:
        return add(e, rng.choice((-1, 1))) if e.dtype is DType.INDEX else e
    chosen, at_ = rng.randrange(spots[0]), [0]
    by = rng.choice((-1, 1, 2))

    def change(x: Expr) -> Expr:
        if isinstance(x, Const) and x.dtype is DType.INDEX:
            at_[0] += 1
            if at_[0] - 1 == chosen:
                return index(int(x.value) + by)
        return x

    return map_expr(e, change)


def _swap_subscripts(e: Expr) -> Expr:
    if isinstance(e, Load) and len(e.indices) == 2:
        return replace(e, indices=(e.indices[1], e.indices[0]))
    return e


def _weaken(e: Expr) -> Expr:
    if isinstance(e, Binary) and e.op is BinaryOp.LT:
        return replace(e, op=BinaryOp.LE)
    if isinstance(e, Binary) and e.op is BinaryOp.AND:
        return e.lhs
    return e


KINDS = (
    LoopKind.SERIAL,
    LoopKind.UNROLL,
    LoopKind.THREAD_X,
    LoopKind.THREAD_Y,
    LoopKind.GRID_X,
    LoopKind.COMBINE_BLOCK,
)


def _damage_leaf(rng: random.Random, s: Store | Reduce) -> Stmt | tuple[Stmt, ...]:
    kind = rng.randrange(9)
    if kind == 0:
        return ()
    if kind == 1:
        return (s, s)
    if kind == 2 and s.origin and s.origin.instance:
        at_ = rng.randrange(len(s.origin.instance))
        parts = list(s.origin.instance)
        parts[at_] = _bump(rng, parts[at_])
        return replace(s, origin=Origin(s.origin.stmt, tuple(parts)))
    if kind == 3 and s.origin and len(s.origin.instance) > 1:
        return replace(s, origin=Origin(s.origin.stmt, s.origin.instance[::-1]))
    if kind == 4 and isinstance(s, Reduce):
        return replace(s, monoid=MAX if s.monoid == SUM else SUM)
    if kind == 5 and isinstance(s.value, Const):
        return replace(s, value=Const(1.0, F32))
    if kind == 6 and s.indices:
        at_ = rng.randrange(len(s.indices))
        parts = list(s.indices)
        parts[at_] = _bump(rng, parts[at_])
        return replace(s, indices=tuple(parts))
    if kind == 7:
        return replace(s, value=map_expr(s.value, _swap_subscripts))
    return replace(s, value=_bump(rng, s.value))


def _damage(rng: random.Random, s: Stmt) -> Stmt | tuple[Stmt, ...]:
    match s:
        case Store() | Reduce():
            return _damage_leaf(rng, s)
        case Barrier():
            return ()
        case For():
            kind = rng.randrange(5)
            if kind == 0:
                return replace(s, extent=_bump(rng, s.extent))
            if kind == 1:
                return replace(s, kind=rng.choice(KINDS))
            if kind == 2 and len(s.body.stmts) > 1:
                n = rng.randrange(len(s.body.stmts) - 1)
                stmts = list(s.body.stmts)
                stmts[n], stmts[n + 1] = stmts[n + 1], stmts[n]
                return replace(s, body=Block(tuple(stmts)))
            if kind == 3 and len(s.body.stmts) > 1:
                n = rng.randrange(len(s.body.stmts))
                return replace(s, body=Block(s.body.stmts[:n] + s.body.stmts[n + 1 :]))
            return replace(s, extent=index(rng.choice((1, 2, 3, 4))))
        case If():
            return replace(s, cond=map_expr(s.cond, _weaken)) if rng.random() < 0.7 else s.body.stmts
        case _:
            return ()


def mutant(k: Kernel, rng: random.Random) -> Kernel | None:
    """The kernel with one random change; None when that is no kernel, or the same one."""
    count = sum(not isinstance(s.stmt, Block) for s in walk(k.body))
    chosen, at_ = rng.randrange(count), [0]

    def change(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, Block):
            return None
        at_[0] += 1
        return _damage(rng, s) if at_[0] - 1 == chosen else None

    changed = replace(k, body=rewrite(k.body, change))
    try:
        verify(changed)
    except MalformedKernelError:
        return None
    return None if changed == k else changed
