"""balance: loops as long as memory says become one loop over all that there is to do.

    for row in 0..rows:
      alloc sum: register
      sum = 0
      for k in 0..index(rowptr[row + 1]) - index(rowptr[row]):  sum sum= e(row, index(rowptr[row]) + k)
      y[row] = sum

becomes

    alloc sum: global[rows]
    for row.init in 0..rows:  sum[row.init] = 0
    ---- next launch ----
    for k in 0..index(rowptr[rows]):  atomic sum[find(rowptr, k)] sum= e(find(rowptr, k), k)
    ---- next launch ----
    for row in 0..rows:  y[row] = sum[row]

Iterations of k are alike now, however they are shared out, and any threads may make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import simplify
from evolve.ir.data import is_ordered, term
from evolve.ir.expr import Expr, Find, Load, add, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Boundary, Buffer, For, Reduce, Stmt
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, fresh, leaves, rewrite, substitute_block, walk
from evolve.transforms.call import Call, Result, loop_of, transform
from evolve.transforms.edit import replace_loop, touched
from evolve.transforms.mapping import FREE
from evolve.transforms.names import taken_names
from evolve.transforms.nests import with_leading


@transform("balance")
def balance(call: Call) -> Result:
    """See dsl_spec/balance.yaml."""
    kernel, site, ends = call.kernel, call.site("loop"), call.buffer("by")
    loop, outer = loop_of(site), _around(site)
    before, after = _parts(outer, loop)
    kept = tuple(_kept(outer, loop))
    _check_updates(loop, {b.name for b in kept})
    _check_extents(kernel, loop, outer, ends)
    taken = taken_names(kernel)
    first = fresh(f"{outer.var}.init", taken)

    where = Find(ends.name, var(loop.var))
    start = term(Load(ends.name, (where,), ends.dtype))
    by: dict[str, Expr] = {outer.var: where, loop.var: sub(var(loop.var), start)}
    all_of_it = term(Load(ends.name, (outer.extent,), ends.dtype))
    names = {b.name for b in kept}
    entries = For(
        loop.var,
        all_of_it,
        loop.kind,
        substitute_block(_updates(_expanded(loop.body, names, outer.var)), by),
        call.note,
        loop.span,
    )
    begin, finish = (_expanded(_declaring(outer, s, names), names, outer.var) for s in (before, after))
    made: list[Stmt] = []
    if begin.stmts:
        renamed = substitute_block(begin, {outer.var: var(first)})
        made += [replace(outer, var=first, body=renamed, note=call.note), Boundary()]
    made += [entries]
    if finish.stmts:
        made += [Boundary(), replace(outer, body=finish, note=call.note)]
    kernel = replace_loop(kernel, outer.var, lambda _: tuple(made))
    declared = (Alloc(b) for b in kept)
    return replace(kernel, body=Block((*declared, *kernel.body.stmts))), call.names


def _around(site: Site) -> For:
    """The one loop around, which gets launches of its own. Raises RefusedError E-NEST or E-LOOP-KIND."""
    loop = loop_of(site)
    if len(site.path) != 1 or not isinstance(site.path[0], For):
        raise RefusedError(
            "E-NEST", f"{loop.var} is not directly inside one loop", repair="balance before other statements"
        )
    outer = site.path[0]
    for x in (loop, outer):
        if x.kind not in FREE:
            raise RefusedError(
                "E-LOOP-KIND", f"loop {x.var} is already {x.kind.value}", repair="balance before binding"
            )
    if outer.kind is not LoopKind.PARALLEL or not any(s is loop for s in outer.body.stmts):
        raise RefusedError("E-NEST", f"{loop.var} is not a step of independent iterations of {outer.var}")
    return outer


def _check_extents(kernel: Kernel, loop: For, outer: For, ends: Buffer) -> None:
    """Raises RefusedError E-BALANCE unless the loops go over the segments that the array divides."""
    if ends.space is not Space.GLOBAL or not any(b.name == ends.name for b in kernel.buffers):
        raise RefusedError("E-BALANCE", f"{ends.name} is no array of the kernel")
    if not is_ordered(kernel, ends.name):
        raise RefusedError("E-BALANCE", f"nothing says that {ends.name} is nondecreasing")
    row = var(outer.var)
    here, following = (term(Load(ends.name, (i,), ends.dtype)) for i in (row, add(row, 1)))
    ranges = ranges_at(kernel, (outer,))
    if simplify(sub(loop.extent, sub(following, here)), ranges) != simplify(sub(row, row)):
        raise RefusedError(
            "E-BALANCE",
            f"{loop.var} runs to {print_expr(loop.extent)}, not from one element of {ends.name} to the next",
        )
    if simplify(sub(ends.extents[0], add(outer.extent, 1)), ranges_at(kernel)) != simplify(sub(row, row)):
        raise RefusedError(
            "E-BALANCE",
            f"{outer.var} goes over {print_expr(outer.extent)}, {ends.name} divides another number",
        )


def _parts(outer: For, loop: For) -> tuple[Block, Block]:
    """What an iteration of `outer` does before and after `loop`, declarations left out."""
    stmts = outer.body.stmts
    position = next(i for i, s in enumerate(stmts) if s is loop)
    before, after = (
        Block(tuple(s for s in part if not isinstance(s, Alloc)))
        for part in (stmts[:position], stmts[position + 1 :])
    )
    return before, after


def _kept(outer: For, loop: For) -> Iterator[Buffer]:
    """The registers of an iteration of `outer` that more than one of its launches uses, as scratch memory.

    Raises RefusedError E-EXPAND for other buffers.
    """
    before, after = _parts(outer, loop)
    uses = [frozenset[str]().union(*touched(p)) for p in (before, Block((loop,)), after)]
    for s in outer.body.stmts:
        if isinstance(s, Alloc) and sum(s.buffer.name in u for u in uses) > 1:
            if s.buffer.space is not Space.REGISTER:
                raise RefusedError("E-EXPAND", f"{s.buffer.name} is {s.buffer.space.value}, not in registers")
            b = s.buffer
            padding = (0, *b.padding) if b.padding else ()
            yield replace(b, extents=(outer.extent, *b.extents), padding=padding, space=Space.GLOBAL)


def _check_updates(loop: For, kept: set[str]) -> None:
    """Raises RefusedError unless the loop only reduces into what is kept."""
    inside = [s.stmt for s in walk(loop.body)]
    for s in inside:
        if not isinstance(s, Reduce | Block):
            text = print_stmt(s).splitlines()[0]
            raise RefusedError("E-CARRIED", f"`{text}` in {loop.var} is no reduction")
    for leaf, _ in leaves(loop.body):
        assert isinstance(leaf, Reduce)
        if leaf.buffer not in kept or leaf.atomic:
            raise RefusedError("E-CARRIED", f"`{print_stmt(leaf)}` is not into a register that is used later")
        if not leaf.monoid.has_atomic(leaf.value.dtype):
            what = f"there is no atomic {leaf.monoid.name} of {leaf.value.dtype.c_name}"
            raise RefusedError("E-ATOMIC", f"`{print_stmt(leaf)}`: {what}")


def _declaring(outer: For, part: Block, kept: set[str]) -> Block:
    """A part with the declarations of `outer` that it needs, but for what is kept in memory."""
    used = frozenset[str]().union(*touched(part)) - kept
    declared = (s for s in outer.body.stmts if isinstance(s, Alloc) and s.buffer.name in used)
    return Block((*declared, *part.stmts))


def _expanded(body: Block, names: set[str], row: str) -> Block:
    for name in sorted(names):
        body = with_leading(body, name, (var(row),))
    return body


def _updates(body: Block) -> Block:
    return rewrite(body, lambda s: replace(s, atomic=True) if isinstance(s, Reduce) else None)
