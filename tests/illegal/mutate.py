"""One random piece of damage to a kernel."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Load,
    Var,
    add,
    floordiv,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Boundary,
    Commit,
    For,
    If,
    Origin,
    Reduce,
    Stmt,
    Store,
    Wait,
)
from evolve.ir.types import MAX, MIN, SUM, DType, LoopKind, Space
from evolve.ir.visit import (
    loads,
    map_block_exprs,
    map_expr,
    subexpressions,
    substitute_block,
    variables,
    walk,
)
from tests.illegal.edits import blocks, equal, less, pick, swap_in, with_block

Change = Callable[[Stmt], "Stmt | tuple[Stmt, ...] | None"]

KINDS = (
    LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.THREAD_X,
    LoopKind.THREAD_Y, LoopKind.COMBINE_WARP, LoopKind.COMBINE_BLOCK, LoopKind.SCAN_WARP, LoopKind.SCAN_BLOCK,
)  # fmt: skip


def mutate(kernel: Kernel, rng: random.Random) -> tuple[Kernel, str]:
    """The damaged kernel and what was done. Raises LookupError when the kind of damage does not apply."""
    what = rng.choice(list(DAMAGE))
    return DAMAGE[what](kernel, rng), what


def _drop(*types: type) -> Callable[[Kernel, random.Random], Kernel]:
    return lambda k, rng: swap_in(k, pick(k, rng, *types), ())


def _other_kind(k: Kernel, rng: random.Random) -> Kernel:
    loop = pick(k, rng, For)
    assert isinstance(loop, For)
    return swap_in(k, loop, replace(loop, kind=rng.choice([x for x in KINDS if x is not loop.kind])))


def _extent(k: Kernel, rng: random.Random) -> Kernel:
    loop = pick(k, rng, For)
    assert isinstance(loop, For)
    return swap_in(k, loop, replace(loop, extent=add(loop.extent, rng.choice((-1, 1)))))


def _no_guard(k: Kernel, rng: random.Random) -> Kernel:
    guard = pick(k, rng, If)
    assert isinstance(guard, If)
    return swap_in(k, guard, guard.body.stmts)


def _steps(k: Kernel) -> list[For | If]:
    """Loops and guards that read memory to know how often they let something run."""
    found = [s.stmt for s in walk(k.body) if isinstance(s.stmt, For | If)]
    return [s for s in found if loads(s.extent if isinstance(s, For) else s.cond)]


def _bound_read(k: Kernel, rng: random.Random) -> Kernel:
    """Another element read for a loop's bound, in one place or in all."""
    steps = _steps(k)
    if not steps:
        raise LookupError
    by = rng.choice((-1, 1))

    def change(e: Expr) -> Expr:
        hit = isinstance(e, Load) and any(c.buffer == e.buffer for c in k.contents) and rng.random() < 0.6
        return replace(e, indices=(add(e.indices[0], by), *e.indices[1:])) if hit else e

    step = rng.choice(steps)
    if isinstance(step, For):
        return swap_in(k, step, replace(step, extent=map_expr(step.extent, change)))
    return swap_in(k, step, replace(step, cond=map_expr(step.cond, change)))


def _under_data(k: Kernel, rng: random.Random) -> Kernel:
    """A statement put under a condition on what an index array holds."""
    site = rng.choice(
        [s for s in walk(k.body) if not isinstance(s.stmt, Alloc | Barrier) and s.loops] or [None]
    )
    arrays = [k.buffer(c.buffer) for c in k.contents]
    if site is None or not arrays:
        raise LookupError
    array = rng.choice(arrays)
    inside = [x for s in walk(Block((site.stmt,))) for e in _values(s.stmt) for x in loads(e)]
    read = next((x for x in inside if x.buffer == array.name), None)
    at = read or Load(array.name, (index(0),), array.dtype)
    cond = less(Cast(at, DType.INDEX), index(rng.choice((1, 5, 20, 1000))))
    return swap_in(k, site.stmt, If(cond, Block((site.stmt,))))


def _values(s: Stmt) -> tuple[Expr, ...]:
    return (s.value,) if isinstance(s, Store | Reduce) else (s.extent,) if isinstance(s, For) else ()


def _window(k: Kernel, rng: random.Random) -> Kernel:
    alloc = pick(k, rng, Alloc)
    assert isinstance(alloc, Alloc)
    extents = list(alloc.buffer.extents)
    if not extents:
        raise LookupError
    d = rng.randrange(len(extents))
    extents[d] = add(extents[d], rng.choice((-1, 1)))
    return swap_in(k, alloc, Alloc(replace(alloc.buffer, extents=tuple(extents))))


def _leaf(k: Kernel, rng: random.Random) -> Store | Reduce:
    leaf = pick(k, rng, Store, Reduce)
    assert isinstance(leaf, Store | Reduce)
    return leaf


def _nudge(e: Expr, rng: random.Random) -> Expr:
    return add(e, rng.choice((-1, 1)))


def _subscript(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)
    if not leaf.indices:
        raise LookupError
    d = rng.randrange(len(leaf.indices))
    indices = (*leaf.indices[:d], _nudge(leaf.indices[d], rng), *leaf.indices[d + 1 :])
    return swap_in(k, leaf, replace(leaf, indices=indices))


def _load(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)

    def change(e: Expr) -> Expr:
        if isinstance(e, Load) and e.indices and rng.random() < 0.6:
            d = rng.randrange(len(e.indices))
            return replace(e, indices=(*e.indices[:d], _nudge(e.indices[d], rng), *e.indices[d + 1 :]))
        return e

    return swap_in(k, leaf, replace(leaf, value=map_expr(leaf.value, change)))


def _other_loop(k: Kernel, rng: random.Random) -> Kernel:
    """A loop variable in a statement replaced by another one around it."""
    leaf = _leaf(k, rng)
    site = next(s for s in walk(k.body) if s.stmt is leaf)
    names = [x.var for x in site.loops]
    if len(names) < 2:
        raise LookupError
    a, b = rng.sample(names, 2)
    keep_origin = rng.random() < 0.5

    def change(e: Expr) -> Expr:
        return var(b) if isinstance(e, Var) and e.name == a else e

    new = replace(
        leaf,
        indices=tuple(map_expr(i, change) for i in leaf.indices),
        value=map_expr(leaf.value, change),
    )
    if not keep_origin and leaf.origin is not None:
        new = replace(
            new, origin=Origin(leaf.origin.stmt, tuple(map_expr(i, change) for i in leaf.origin.instance))
        )
    return swap_in(k, leaf, new)


def _origin(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)
    if leaf.origin is None:
        raise LookupError
    instance = list(leaf.origin.instance)
    rng.shuffle(instance)
    if rng.random() < 0.5 and instance:
        instance[0] = _nudge(instance[0], rng)
    origin = None if rng.random() < 0.2 else Origin(leaf.origin.stmt, tuple(instance))
    return swap_in(k, leaf, replace(leaf, origin=origin))


def _monoid(k: Kernel, rng: random.Random) -> Kernel:
    leaf = pick(k, rng, Reduce)
    assert isinstance(leaf, Reduce)
    return swap_in(
        k, leaf, replace(leaf, monoid=rng.choice([m for m in (SUM, MAX, MIN) if m != leaf.monoid]))
    )


def _store_for_reduce(k: Kernel, rng: random.Random) -> Kernel:
    leaf = pick(k, rng, Reduce)
    assert isinstance(leaf, Reduce)
    return swap_in(k, leaf, Store(leaf.buffer, leaf.indices, leaf.value, leaf.origin))


def _literal(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)

    def change(e: Expr) -> Expr:
        if isinstance(e, Const) and e.dtype is DType.F32:
            return Const(rng.choice((0.0, 1.0, float("-inf"), float("inf"), -1e30)), DType.F32)
        return e

    return swap_in(k, leaf, replace(leaf, value=map_expr(leaf.value, change)))


def _twice(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)
    return swap_in(k, leaf, (leaf, leaf))


def _exchange(k: Kernel, rng: random.Random) -> Kernel:
    """Two neighbours swapped."""
    many = [b for b in blocks(k) if len(b.stmts) > 1]
    if not many:
        raise LookupError
    block = rng.choice(many)
    i = rng.randrange(len(block.stmts) - 1)
    a, b = block.stmts[i], block.stmts[i + 1]
    marked = swap_in(k, a, Block((b, a)))
    return swap_in(marked, b, ()) if a is not b else marked


def _sink(k: Kernel, rng: random.Random) -> Kernel:
    """A statement moved into the loop after it, or a loop's last statement moved out behind it."""
    many = [b for b in blocks(k) if len(b.stmts) > 1]
    if not many:
        raise LookupError
    block = rng.choice(many)
    i = rng.randrange(len(block.stmts) - 1)
    a, b = block.stmts[i], block.stmts[i + 1]
    if isinstance(b, For) and not isinstance(a, Alloc | For):
        return swap_in(swap_in(k, b, replace(b, body=Block((a, *b.body.stmts)))), a, ())
    if isinstance(a, For) and not isinstance(b, Alloc):
        return swap_in(swap_in(k, a, replace(a, body=Block((*a.body.stmts, b)))), b, ())
    raise LookupError


def _guard(k: Kernel, rng: random.Random) -> Kernel:
    """A guard's condition changed by one, or negated."""
    guard = pick(k, rng, If)
    assert isinstance(guard, If)

    def change(e: Expr) -> Expr:
        return (
            index(int(e.value) + rng.choice((-1, 1)))
            if isinstance(e, Const) and e.dtype is DType.INDEX
            else e
        )

    if rng.random() < 0.3:
        return swap_in(k, guard, replace(guard, body=guard.orelse, orelse=guard.body))
    return swap_in(k, guard, replace(guard, cond=map_expr(guard.cond, change)))


def _other_buffer(k: Kernel, rng: random.Random) -> Kernel:
    """Every access to one buffer made to another."""
    known = [*k.buffers] + [s.stmt.buffer for s in walk(k.body) if isinstance(s.stmt, Alloc)]
    pairs = [(a, b) for a in known for b in known if a is not b and len(a.extents) == len(b.extents)]
    if not pairs:
        raise LookupError
    a, b = rng.choice(pairs)
    leaf = _leaf(k, rng)

    def change(e: Expr) -> Expr:
        return replace(e, buffer=b.name) if isinstance(e, Load) and e.buffer == a.name else e

    new = replace(leaf, value=map_expr(leaf.value, change))
    if leaf.buffer == a.name and rng.random() < 0.5:
        new = replace(new, buffer=b.name)
    return swap_in(k, leaf, new)


def _move_barrier(k: Kernel, rng: random.Random) -> Kernel:
    barrier = pick(k, rng, Barrier)
    # Barriers are all equal: mark this one's place by identity of the block that holds it.
    holders = [b for b in blocks(k) if any(isinstance(s, Barrier) for s in b.stmts)]
    block = rng.choice(holders)
    at = rng.choice([i for i, s in enumerate(block.stmts) if isinstance(s, Barrier)])
    rest = [s for i, s in enumerate(block.stmts) if i != at]
    rest.insert(rng.randint(0, len(rest)), barrier)
    return replace(k, body=with_block(k.body, block, Block(tuple(rest))))


def _drop_barrier(k: Kernel, rng: random.Random) -> Kernel:
    holders = [b for b in blocks(k) if any(isinstance(s, Barrier) for s in b.stmts)]
    if not holders:
        raise LookupError
    block = rng.choice(holders)
    at = rng.choice([i for i, s in enumerate(block.stmts) if isinstance(s, Barrier)])
    rest = Block(tuple(s for i, s in enumerate(block.stmts) if i != at))
    return replace(k, body=with_block(k.body, block, rest))


def _padding(k: Kernel, rng: random.Random) -> Kernel:
    alloc = pick(k, rng, Alloc)
    assert isinstance(alloc, Alloc)
    n = len(alloc.buffer.extents)
    if not n:
        raise LookupError
    pad = tuple(rng.choice((-1, 0, 1, 2)) for _ in range(n))
    return swap_in(k, alloc, Alloc(replace(alloc.buffer, padding=pad)))


def _wrap(k: Kernel, rng: random.Random) -> Kernel:
    """A statement put under a condition on one of the loops around it."""
    site = rng.choice([s for s in walk(k.body) if not isinstance(s.stmt, Alloc) and s.loops] or [None])
    if site is None:
        raise LookupError
    v = var(rng.choice(site.loops).var)
    cond = rng.choice(
        (
            less(v, index(rng.choice((1, 2, 8)))),
            less(index(0), v),
            equal(v, index(0)),
            equal(mod(v, 2), index(0)),
        )
    )
    if isinstance(site.stmt, Barrier):
        return change_one(k, site.stmt, rng, lambda s: If(cond, Block((s,))))
    return swap_in(k, site.stmt, If(cond, Block((site.stmt,))))


def change_one(k: Kernel, barrier: Barrier, rng: random.Random, f: Callable[[Stmt], Stmt]) -> Kernel:
    """One barrier changed; barriers are equal, so by the block that holds it."""
    holders = [b for b in blocks(k) if any(s is barrier for s in b.stmts)]
    block = rng.choice(holders)
    new = Block(tuple(f(s) if s is barrier else s for s in block.stmts))
    return replace(k, body=with_block(k.body, block, new))


def _space(k: Kernel, rng: random.Random) -> Kernel:
    """A shared buffer in registers, or the other way round."""
    alloc = pick(k, rng, Alloc)
    assert isinstance(alloc, Alloc)
    other = Space.SHARED if alloc.buffer.space is Space.REGISTER else Space.REGISTER
    return swap_in(k, alloc, Alloc(replace(alloc.buffer, space=other, padding=())))


def _hoist(k: Kernel, rng: random.Random) -> Kernel:
    """A declaration, with or without what follows it, moved out of its loop."""
    loops = [
        s.stmt
        for s in walk(k.body)
        if isinstance(s.stmt, For) and any(isinstance(x, Alloc) for x in s.stmt.body.stmts)
    ]
    if not loops:
        raise LookupError
    loop = rng.choice(loops)
    at = rng.choice([i for i, x in enumerate(loop.body.stmts) if isinstance(x, Alloc)])
    many = rng.choice((1, 1, 2))
    moved = loop.body.stmts[at : at + many]
    rest = (*loop.body.stmts[:at], *loop.body.stmts[at + many :])
    return swap_in(k, loop, (*moved, replace(loop, body=Block(rest))))


def _interchange(k: Kernel, rng: random.Random) -> Kernel:
    """A loop and the only loop in it exchanged."""
    nests = [
        (s.stmt, s.stmt.body.stmts[0])
        for s in walk(k.body)
        if isinstance(s.stmt, For) and len(s.stmt.body.stmts) == 1 and isinstance(s.stmt.body.stmts[0], For)
    ]
    if not nests:
        raise LookupError
    outer, inner = rng.choice(nests)
    return swap_in(k, outer, replace(inner, body=Block((replace(outer, body=inner.body),))))


def _fuse(k: Kernel, rng: random.Random) -> Kernel:
    """Two neighbouring loops made one."""
    pairs = [
        (a, b)
        for block in blocks(k)
        for a, b in pairwise([s for s in block.stmts if isinstance(s, For)])
        if a.extent == b.extent
    ]
    if not pairs:
        raise LookupError
    a, b = rng.choice(pairs)
    moved = substitute_block(b.body, {b.var: var(a.var)})
    joined = replace(a, body=Block((*a.body.stmts, *moved.stmts)))
    return swap_in(swap_in(k, b, ()), a, joined)


def _fission(k: Kernel, rng: random.Random) -> Kernel:
    """A loop's statements given loops of their own."""
    loops = [s.stmt for s in walk(k.body) if isinstance(s.stmt, For) and len(s.stmt.body.stmts) > 1]
    if not loops:
        raise LookupError
    loop = rng.choice(loops)
    at = rng.randrange(1, len(loop.body.stmts))
    name = f"{loop.var}.split"
    late = substitute_block(Block(loop.body.stmts[at:]), {loop.var: var(name)})
    first = replace(loop, body=Block(loop.body.stmts[:at]))
    return swap_in(k, loop, (first, replace(loop, var=name, body=late)))


def _reversed(k: Kernel, rng: random.Random) -> Kernel:
    """A loop run backwards: the same instances in the other order."""
    loops = [s.stmt for s in walk(k.body) if isinstance(s.stmt, For) and not s.stmt.kind.is_combine]
    if not loops:
        raise LookupError
    loop = rng.choice(loops)
    last = sub(sub(loop.extent, 1), var(loop.var))
    return swap_in(k, loop, replace(loop, body=substitute_block(loop.body, {loop.var: last})))


def _vector_over_tail(k: Kernel, rng: random.Random) -> Kernel:
    """The innermost loop under a guard made a vector, the guard dropped or kept."""
    sites = [
        (s.stmt, x)
        for s in walk(k.body)
        if isinstance(s.stmt, If) and not loads(s.stmt.cond)
        for x in s.path
        if isinstance(x, For) and x.kind.is_sequential
    ]
    if not sites:
        raise LookupError
    guard, loop = rng.choice(sites)
    wide = replace(loop, kind=LoopKind.VECTOR)
    if rng.random() < 0.7:
        wide = replace(wide, body=swap_in(replace(k, body=wide.body), guard, guard.body.stmts).body)
    return swap_in(k, loop, wide)


def _bound(k: Kernel, rng: random.Random) -> Kernel:
    """A loop that a statement's cell does not depend on, so one that may carry, given to threads."""
    carried = [
        loop
        for s in walk(k.body)
        if isinstance(s.stmt, Store | Reduce)
        for loop in s.loops
        if loop.kind.is_sequential and not any(loop.var in variables(i) for i in s.stmt.indices)
    ]
    if not carried:
        raise LookupError
    loop = rng.choice(carried)
    kinds = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.GRID_X, LoopKind.GRID_Y)
    return swap_in(k, loop, replace(loop, kind=rng.choice(kinds)))


def _fewer_lanes(k: Kernel, rng: random.Random) -> Kernel:
    """A combination of half the threads, or of twice as many."""
    loops = [s.stmt for s in walk(k.body) if isinstance(s.stmt, For) and s.stmt.kind.is_combine]
    if not loops:
        raise LookupError
    loop = rng.choice(loops)
    by = rng.choice((floordiv, mul))
    return swap_in(k, loop, replace(loop, extent=by(loop.extent, 2)))


def _swapped_subscripts(k: Kernel, rng: random.Random) -> Kernel:
    """The subscripts of what a statement writes or reads exchanged."""
    leaf = _leaf(k, rng)
    many = [x for x in loads(leaf.value) if len(x.indices) > 1]
    if many and (rng.random() < 0.7 or len(leaf.indices) < 2):
        which = rng.choice(many)
        value = map_expr(leaf.value, lambda e: replace(e, indices=e.indices[::-1]) if e == which else e)
        return swap_in(k, leaf, replace(leaf, value=value))
    if len(leaf.indices) < 2:
        raise LookupError
    return swap_in(k, leaf, replace(leaf, indices=leaf.indices[::-1]))


def _no_start(k: Kernel, rng: random.Random) -> Kernel:
    """An accumulator, or a window, that nothing fills before it is read."""
    local = {s.stmt.buffer.name for s in walk(k.body) if isinstance(s.stmt, Alloc)}
    starts = [s.stmt for s in walk(k.body) if isinstance(s.stmt, Store) and s.stmt.buffer in local]
    if not starts:
        raise LookupError
    return swap_in(k, rng.choice(starts), ())


def _swapped_operands(k: Kernel, rng: random.Random) -> Kernel:
    leaf = _leaf(k, rng)
    many = [e for e in subexpressions(leaf.value) if isinstance(e, Binary) and e.dtype is not DType.INDEX]
    if not many:
        raise LookupError
    which = rng.choice(many)
    value = map_expr(leaf.value, lambda e: replace(which, lhs=which.rhs, rhs=which.lhs) if e == which else e)
    return swap_in(k, leaf, replace(leaf, value=value))


def _stride(k: Kernel, rng: random.Random) -> Kernel:
    """A factor in a subscript or in an origin changed by one."""
    leaf = _leaf(k, rng)

    def change(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op is BinaryOp.MUL and e.dtype is DType.INDEX:
            return mul(e.lhs, add(e.rhs, rng.choice((-1, 1)))) if isinstance(e.rhs, Const) else e
        return e

    part = rng.choice(("indices", "value", "origin"))
    if part == "indices":
        new = replace(leaf, indices=tuple(map_expr(i, change) for i in leaf.indices))
    elif part == "value":
        new = replace(leaf, value=map_expr(leaf.value, change))
    else:
        if leaf.origin is None:
            raise LookupError
        instance = tuple(map_expr(i, change) for i in leaf.origin.instance)
        new = replace(leaf, origin=Origin(leaf.origin.stmt, instance))
    return swap_in(k, leaf, new)


def _not_atomic(k: Kernel, rng: random.Random) -> Kernel:
    """An update that other threads make too, no longer indivisible; or the other way round."""
    leaf = pick(k, rng, Reduce)
    assert isinstance(leaf, Reduce)
    return swap_in(k, leaf, replace(leaf, atomic=not leaf.atomic))


def _fewer_versions(k: Kernel, rng: random.Random) -> Kernel:
    """One version less of a buffer whose first subscript counts versions."""
    many = [s.stmt for s in walk(k.body) if isinstance(s.stmt, Alloc) and _versions(k, s.stmt)]
    if not many:
        raise LookupError
    alloc = rng.choice(many)
    b, n = alloc.buffer, _versions(k, alloc) - 1

    def fewer(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (mod(indices[0], n), *indices[1:])

    def change(e: Expr) -> Expr:
        return replace(e, indices=fewer(e.indices)) if isinstance(e, Load) and e.buffer == b.name else e

    k = replace(k, body=map_block_exprs(k.body, lambda e: map_expr(e, change)))
    alloc = next(s.stmt for s in walk(k.body) if isinstance(s.stmt, Alloc) and s.stmt.buffer.name == b.name)
    k = swap_in(k, alloc, Alloc(replace(b, extents=(index(n), *b.extents[1:]))))
    for s in list(walk(k.body)):
        if isinstance(s.stmt, Store | Reduce) and s.stmt.buffer == b.name:
            k = swap_in(k, s.stmt, replace(s.stmt, indices=fewer(s.stmt.indices)))
    return k


def _versions(k: Kernel, alloc: Alloc) -> int:
    """The extent of the first dimension when some first subscript is taken modulo that, else 0."""
    b = alloc.buffer
    if not b.extents or not isinstance(b.extents[0], Const) or int(b.extents[0].value) < 2:
        return 0
    n = int(b.extents[0].value)
    firsts = [
        s.stmt.indices[0] for s in walk(k.body) if isinstance(s.stmt, Store) and s.stmt.buffer == b.name
    ]
    counted = any(isinstance(i, Binary) and i.op is BinaryOp.MOD and i.rhs == index(n) for i in firsts)
    return n if counted else 0


def _cell_read(k: Kernel, rng: random.Random) -> Kernel:
    """Another element of an index array read to know where a contribution goes."""
    found = [s.stmt for s in walk(k.body) if isinstance(s.stmt, Reduce) and any(map(loads, s.stmt.indices))]
    if not found:
        raise LookupError
    leaf = rng.choice(found)

    def change(e: Expr) -> Expr:
        return replace(e, indices=(_nudge(e.indices[0], rng),)) if isinstance(e, Load) else e

    return swap_in(k, leaf, replace(leaf, indices=tuple(map_expr(i, change) for i in leaf.indices)))


def _lax_wait(k: Kernel, rng: random.Random) -> Kernel:
    """One group more may be under way after a wait."""
    wait = pick(k, rng, Wait)
    assert isinstance(wait, Wait)
    return swap_in(k, wait, Wait(wait.pending + 1))


def _asynchronous(k: Kernel, rng: random.Random) -> Kernel:
    """A copy only started, or one that was no longer so."""
    store = pick(k, rng, Store)
    assert isinstance(store, Store)
    return swap_in(k, store, replace(store, asynchronous=not store.asynchronous))


DAMAGE: dict[str, Callable[[Kernel, random.Random], Kernel]] = {
    "a barrier dropped": _drop_barrier,
    "a barrier moved": _move_barrier,
    "a statement dropped": _drop(Store, Reduce),
    "another loop kind": _other_kind,
    "an extent off by one": _extent,
    "a guard dropped": _no_guard,
    "a guard changed": _guard,
    "a window off by one": _window,
    "a bound read elsewhere": _bound_read,
    "a statement under a condition on data": _under_data,
    "a subscript off by one": _subscript,
    "a load off by one": _load,
    "another loop variable": _other_loop,
    "an origin changed": _origin,
    "another monoid": _monoid,
    "a store for a reduction": _store_for_reduce,
    "a literal changed": _literal,
    "a statement twice": _twice,
    "neighbours exchanged": _exchange,
    "a statement moved into or out of a loop": _sink,
    "another buffer": _other_buffer,
    "another padding": _padding,
    "a statement under a condition": _wrap,
    "another memory space": _space,
    "a declaration moved out": _hoist,
    "loops interchanged": _interchange,
    "loops fused": _fuse,
    "a loop taken apart": _fission,
    "a loop reversed": _reversed,
    "a vector over a tail": _vector_over_tail,
    "a carried loop bound": _bound,
    "other lanes combined": _fewer_lanes,
    "subscripts swapped": _swapped_subscripts,
    "a start dropped": _no_start,
    "operands swapped": _swapped_operands,
    "a stride changed": _stride,
    "a launch's end dropped": _drop(Boundary),
    "an update not atomic": _not_atomic,
    "one version fewer": _fewer_versions,
    "a wait dropped": _drop(Wait),
    "a wait one group too lax": _lax_wait,
    "a commit dropped": _drop(Commit),
    "a copy asynchronous or not": _asynchronous,
    "a cell named by another element": _cell_read,
}
