"""scan: running totals shared among threads.

    for t in 0..T:  for i in 0..n:  s[] sum= e(t, i);  y[t, i] = s[]

becomes one partial for each thread, a scan of the partials, and the loop itself, in which each thread
goes on from the total before its own iterations:

    alloc s_part: register[T]
    for t.init in 0..T (thread.x):  s_part[t.init] = identity
    for t.part in 0..T (thread.x):  for i.part in 0..n:  s_part[t.part] sum= e(t.part, i.part)
    alloc s_before: register[T]
    for t.all in 0..T (scan):       s_before[t.all] = s[];  s[] sum= s_part[t.all]
    for t in 0..T (thread.x):       for i in 0..n:  s_before[t] sum= e(t, i);  y[t, i] = s_before[t]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr, Load, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import (
    fresh,
    leaves,
    loads,
    local_buffers,
    map_block_exprs,
    map_expr,
    rewrite,
    substitute_block,
    variables,
    walk,
)
from evolve.target.limits import WARP
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import declared_in, loop_at, replace_loop
from evolve.transforms.mapping import with_kind
from evolve.transforms.names import taken_names
from evolve.transforms.reductions import check_once_a_block, threads_of


@transform("scan")
def scan(call: Call) -> Result:
    """See dsl_spec/scan.yaml."""
    kernel = call.kernel
    for name in call.loops("loop"):
        threads = threads_of(kernel, name)
        kind = _kind(kernel, name, threads)
        loop, _ = loop_at(kernel, name)
        update = _running(kernel, loop)
        _check_contribution(loop, update)
        kernel = with_kind(
            _scanned(kernel, loop, threads, kind, update, call.note), name, LoopKind.THREAD_X, call.note
        )
    return kernel, call.names


def _kind(kernel: Kernel, name: str, threads: int) -> LoopKind:
    if threads in (2, 4, 8, 16, WARP):
        return LoopKind.SCAN_WARP
    if threads % WARP or threads == 0:
        raise RefusedError(
            "E-REDUCE-WIDTH",
            f"{name} has {threads} iterations; a scan goes over 2, 4, 8, 16 lanes or whole warps",
            repair=f"split({name}, 32) and scan the inner loop",
        )
    check_once_a_block(kernel, name, "scans", repair=f"split({name}, 32) and scan the inner loop")
    return LoopKind.SCAN_BLOCK


def _running(kernel: Kernel, loop: For) -> Reduce:
    """The one running total of the loop: a register that its iterations add to and that is read in it."""
    local = declared_in(loop.body)
    inner = {loop.var, *(s.stmt.var for s in walk(loop.body) if isinstance(s.stmt, For))}
    found: Reduce | None = None
    for leaf, _ in leaves(loop.body):
        if leaf.buffer in local or any(loop.var in variables(i) for i in leaf.indices):
            continue
        if not isinstance(leaf, Reduce):
            raise RefusedError(
                "E-CARRIED", f"`{print_stmt(leaf)}` inside {loop.var} is a store, not a running total"
            )
        if found is not None:
            raise RefusedError(
                "E-SCAN-MANY",
                f"{loop.var} carries two totals, `{print_stmt(found)}` and `{print_stmt(leaf)}`",
                repair=f"distribute({loop.var}) so that each stands alone",
            )
        found = leaf
    if found is None:
        raise RefusedError(
            "E-REDUCE-NONE", f"no total is carried by {loop.var}", repair=f"bind({loop.var}, thread.x)"
        )
    declared = local_buffers(kernel.body).get(found.buffer)
    if declared is None or declared.space is not Space.REGISTER:
        raise RefusedError("E-SCAN-SPACE", f"the running total {found.buffer} is not in registers")
    accesses = [a for s in walk(loop.body) for a in effects(s.stmt).accesses if a.buffer == found.buffer]
    if len(accesses) == 1:
        raise RefusedError(
            "E-SCAN-UNREAD",
            f"nothing in {loop.var} reads {found.buffer}: it is a reduction",
            repair=f"block_reduce({loop.var})",
        )
    if any(a.indices != found.indices or inner & variables(i) for a in accesses for i in a.indices):
        raise RefusedError("E-SCAN-SPACE", f"{found.buffer} is not one and the same cell all over {loop.var}")
    return found


def _check_contribution(loop: For, update: Reduce) -> None:
    """Raises RefusedError E-REDUCE-READ: what is added is found twice, so the loop must not change it."""
    written = {leaf.buffer for leaf, _ in leaves(loop.body)}
    read = [x.buffer for x in loads(update.value)]
    path = next(site.path for leaf, site in leaves(loop.body) if leaf is update)
    for step in path:
        read += [x.buffer for x in loads(step.extent if isinstance(step, For) else step.cond)]
    changed = sorted(written & set(read))
    if changed:
        raise RefusedError(
            "E-REDUCE-READ",
            f"`{print_stmt(update)}` depends on {changed[0]}, which {loop.var} writes",
            repair=f"distribute({loop.var}) so that {changed[0]} is complete before",
        )


def _scanned(kernel: Kernel, loop: For, threads: int, kind: LoopKind, update: Reduce, note: str) -> Kernel:
    taken = taken_names(kernel)

    def named(name: str) -> str:
        taken.add(name := fresh(name, taken))
        return name

    dtype = update.value.dtype
    part, before = (
        Buffer(named(f"{update.buffer}_{word}"), dtype, (index(threads),), Space.REGISTER)
        for word in ("part", "before")
    )
    start, one = named(f"{loop.var}.init"), named(f"{loop.var}.all")
    identity = Const(update.monoid.identity(dtype), dtype)
    total = Load(update.buffer, update.indices, dtype)
    turn: tuple[Stmt, ...] = (
        Store(before.name, (var(one),), total),
        Reduce(update.buffer, update.indices, update.monoid, Load(part.name, (var(one),), dtype)),
    )
    own = replace(update, buffer=part.name, indices=(var(loop.var),))
    gathered = _renamed(
        replace(loop, kind=LoopKind.THREAD_X, note=note, body=_only(loop.body, update, own)), named
    )
    made = (
        Alloc(part),
        For(
            start,
            index(threads),
            LoopKind.THREAD_X,
            Block((Store(part.name, (var(start),), identity),)),
            note,
        ),
        gathered,
        Alloc(before),
        For(one, index(threads), kind, Block(turn), note),
    )
    onward = replace(loop, body=_onward(loop, update, before.name))
    return replace_loop(kernel, loop.var, lambda _: (*made, onward))


def _only(block: Block, update: Reduce, own: Reduce) -> Block:
    """The block with nothing but `update`, as `own`, and the loops and guards around it."""
    out: list[Stmt] = []
    for s in block.stmts:
        if s is update:
            out.append(own)
        elif isinstance(s, Block) and (inner := _only(s, update, own)).stmts:
            out.append(inner)
        elif isinstance(s, For) and (inner := _only(s.body, update, own)).stmts:
            out.append(replace(s, body=inner))
        elif isinstance(s, If):
            then, orelse = _only(s.body, update, own), _only(s.orelse, update, own)
            if then.stmts or orelse.stmts:
                out.append(replace(s, body=then, orelse=orelse))
    return Block(tuple(out))


def _renamed(nest: For, named: Callable[[str], str]) -> For:
    """A second copy of a nest, its loops under names of their own."""
    by = {s.stmt.var: named(f"{s.stmt.var}.part") for s in walk(Block((nest,))) if isinstance(s.stmt, For)}
    body = rewrite(Block((nest,)), lambda s: replace(s, var=by[s.var]) if isinstance(s, For) else None)
    (out,) = substitute_block(body, {old: var(new) for old, new in by.items()}).stmts
    assert isinstance(out, For)
    return out


def _onward(loop: For, update: Reduce, before: str) -> Block:
    """The body with each iteration's own total in place of the common one."""
    at = (var(loop.var),)

    def here(e: Expr) -> Expr:
        return (
            replace(e, buffer=before, indices=at) if isinstance(e, Load) and e.buffer == update.buffer else e
        )

    def moved(s: Stmt) -> Stmt | None:
        return (
            replace(s, buffer=before, indices=at)
            if isinstance(s, Reduce) and s.buffer == update.buffer
            else None
        )

    return map_block_exprs(rewrite(loop.body, moved), lambda e: map_expr(e, here))
