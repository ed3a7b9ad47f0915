"""multi_buffer, make_async, pipeline: what the next iteration needs is on its way while this one computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import Ranges, simplify
from evolve.ir.expr import Const, Expr, Load, add, index, mod, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, Commit, For, If, Leaf, Stmt, Store, Wait
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, fresh, leaves, local_buffers, rewrite, substitute_block, walk
from evolve.target.limits import COPIED_BYTES
from evolve.transforms.call import Call, Checked, Result, loop_of, transform
from evolve.transforms.edit import declared_in, less, replace_loop, touched
from evolve.transforms.memory import MAX_SHARED_BYTES
from evolve.transforms.names import taken_names
from evolve.transforms.nests import with_leading
from evolve.transforms.rewriting import rewrite_naming

SEQUENTIAL = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLL)
"""Loops that a thread runs in order. Iterations that share versions are no longer parallel."""


@transform("multi_buffer")
def multi_buffer(call: Call) -> Result:
    """See dsl_spec/multi_buffer.yaml."""
    kernel, buffer, n = call.kernel, call.buffer("buffer"), call.integer("n")
    assert n is not None
    if buffer.space is not Space.SHARED:
        raise RefusedError("E-VERSION-SPACE", f"{buffer.name} is {buffer.space.value}; only shared buffers")
    loop = _declaring_loop(kernel, buffer)
    padding = (0, *buffer.padding) if buffer.padding else ()
    wide = replace(buffer, extents=(index(n), *buffer.extents), padding=padding)
    size = _bytes(wide)
    if size > MAX_SHARED_BYTES:
        raise RefusedError(
            "E-STAGE-SIZE",
            f"{n} versions of {buffer.name} have {size} bytes, a block has at most {MAX_SHARED_BYTES}",
            repair="stage inside a smaller tile",
        )
    inside = Block(tuple(s for s in loop.body.stmts if s != Alloc(buffer)))
    body = with_leading(inside, buffer.name, (mod(var(loop.var), n),))
    return replace_loop(kernel, loop.var, lambda x: (Alloc(wide), _in_order(x, body))), call.names


def _in_order(loop: For, body: Block) -> For:
    kind = LoopKind.SERIAL if loop.kind is LoopKind.PARALLEL else loop.kind
    return replace(loop, kind=kind, body=body)


def _declaring_loop(kernel: Kernel, buffer: Buffer) -> For:
    site = next(s for s in walk(kernel.body) if s.stmt == Alloc(buffer))
    loop = site.path[-1] if site.path else None
    if not isinstance(loop, For) or loop.kind not in SEQUENTIAL:
        raise RefusedError(
            "E-VERSION-LOOP",
            f"{buffer.name} is not declared inside a loop that runs in order",
            repair="stage at the loop whose iterations are to overlap",
        )
    return loop


def _bytes(buffer: Buffer) -> int:
    """Size with padding; an extent that is not constant, which no block can hold, counts as 1."""
    padding = buffer.padding or (0,) * len(buffer.extents)
    sizes = (
        (int(e.value) if isinstance(e, Const) else 1) + p
        for e, p in zip(buffer.extents, padding, strict=True)
    )
    return prod(sizes) * buffer.dtype.size


@transform("make_async")
def make_async(call: Call) -> Checked:
    """See dsl_spec/make_async.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    if buffer.space is not Space.SHARED:
        raise RefusedError("E-VERSION-SPACE", f"{buffer.name} is {buffer.space.value}; only shared buffers")
    if buffer.dtype.size not in COPIED_BYTES:
        raise RefusedError("E-ASYNC-COPY", f"elements of {buffer.dtype.size} bytes cannot be copied so")
    written = touched(kernel.body)[1]
    memory = {b.name for b in kernel.buffers} - written
    found = [(leaf, site) for leaf, site in leaves(kernel.body) if leaf.buffer == buffer.name]
    for leaf, _ in found:
        plain = isinstance(leaf, Store) and leaf.origin is None and isinstance(leaf.value, Load)
        if not plain or not isinstance(leaf.value, Load) or leaf.value.buffer not in memory:
            raise RefusedError(
                "E-ASYNC-COPY", f"`{print_stmt(leaf)}` is no copy from memory that the kernel only reads"
            )
        if isinstance(leaf, Store) and leaf.asynchronous:
            raise RefusedError("E-NO-CHANGE", f"{buffer.name} is already copied asynchronously")

    def started(s: Stmt) -> Stmt | None:
        return replace(s, asynchronous=True) if isinstance(s, Store) and s.buffer == buffer.name else None

    yield None
    body = rewrite_naming(kernel.body, buffer.name, started)
    return replace(kernel, body=_with_waits(body, buffer.name)), call.names


def _with_waits(block: Block, buffer: str) -> Block:
    """Behind each statement that does nothing but start copies into `buffer`, a group is closed and awaited.

    Of groups one behind the other the last is enough.
    """
    out: list[Stmt] = []
    for s in block.stmts:
        mine = any(leaf.buffer == buffer for leaf, _ in leaves(Block((s,))))
        if mine and _is_asynchronous(s):
            out += [s, Commit(), Wait(0)]
        elif mine and isinstance(s, For | If):
            inner = replace(s, body=_with_waits(s.body, buffer))
            out.append(
                replace(inner, orelse=_with_waits(inner.orelse, buffer)) if isinstance(inner, If) else inner
            )
        else:
            out.append(s)
    kept: list[Stmt] = []
    for s in out:
        if _is_asynchronous(s):
            closed = len(kept)
            while closed and isinstance(kept[closed - 1], Alloc):
                closed -= 1
            if kept[closed - 2 : closed] == [Commit(), Wait(0)]:
                del kept[closed - 2 : closed]
        kept.append(s)
    return Block(tuple(kept))


@transform("pipeline")
def pipeline(call: Call) -> Result:
    """See dsl_spec/pipeline.yaml."""
    kernel, ahead = call.kernel, call.integer("ahead")
    assert ahead is not None
    site = call.site("loop")
    loop = loop_of(site)
    if loop.kind not in SEQUENTIAL:
        raise RefusedError("E-LOOP-KIND", f"{loop.var} is a {loop.kind.value} loop")
    fills = tuple(_fills(kernel, site, ahead))
    if not fills:
        raise RefusedError(
            "E-PIPELINE",
            f"nothing in the body of {loop.var} fills a buffer that has a version for each iteration",
            repair=f"stage at {loop.var} into shared memory, then multi_buffer",
        )
    taken = taken_names(kernel)
    first = _prologue(loop, fills, ahead, taken)
    parts = [_apart(kernel, site, s, taken) for s in fills]
    later = {loop.var: add(var(loop.var), ahead)}
    more = less(later[loop.var], loop.extent)
    starts = substitute_block(Block(tuple(p.loads for p in parts)), later)
    ends = substitute_block(Block(tuple(s for p in parts for s in p.stores)), later)
    asynchronous = any(map(_is_asynchronous, fills))
    body = (
        *(Alloc(b) for p in parts for b in p.registers),
        If(more, starts),
        *((Commit(),) if asynchronous else ()),
        *(
            s
            for s in loop.body.stmts
            if s not in fills and not (asynchronous and isinstance(s, Commit | Wait))
        ),
        *((If(more, ends),) if ends.stmts else ()),
        *((Wait(ahead - 1),) if asynchronous else ()),
    )
    names = call.names
    for x in _loops(Block(fills)):
        names = names.without_loop(x.var, f"pipelined into {x.var}.0, {x.var}.1, {x.var}.2")
    result = (*first, replace(_in_order(loop, Block(body)), note=call.note))
    return replace_loop(kernel, loop.var, lambda _: result), names


def _fills(kernel: Kernel, site: Site, ahead: int) -> Iterator[Stmt]:
    """The statements of the loop's body that do nothing but fill versions of shared buffers."""
    loop = loop_of(site)
    # A buffer that the body declares has no versions, although a first extent of 1 looks like one.
    inside = declared_in(loop.body)
    local = {name: b for name, b in local_buffers(kernel.body).items() if name not in inside}
    ranges = ranges_at(kernel, (*site.path, loop))
    written = touched(loop.body)[1]
    for s in loop.body.stmts:
        copies = [leaf for leaf, _ in leaves(Block((s,)))]
        versions = [_versions(leaf, loop, local, ranges) for leaf in copies]
        if not copies or not all(versions):
            continue
        for leaf, n in zip(copies, versions, strict=True):
            assert isinstance(leaf.value, Load)
            if leaf.value.buffer in written:
                raise RefusedError(
                    "E-STAGE-WRITTEN",
                    f"{leaf.value.buffer} is written inside {loop.var}: what is loaded ahead would be stale",
                )
            # An asynchronous copy arrives while the iteration before still reads.
            if n < ahead + (isinstance(leaf, Store) and leaf.asynchronous):
                raise RefusedError(
                    "E-VERSIONS",
                    f"{leaf.buffer} has {n} versions, too few to be filled {ahead} iterations ahead",
                    repair=f"multi_buffer({leaf.buffer}, n={ahead + 1})",
                )
        yield s


def _versions(leaf: Leaf, loop: For, local: Mapping[str, Buffer], ranges: Ranges) -> int:
    """From how many versions a copy chooses by the loop's iteration; 0 if it does not."""
    buffer = local.get(leaf.buffer)
    if not isinstance(leaf, Store) or leaf.origin is not None or not isinstance(leaf.value, Load):
        return 0
    if buffer is None or buffer.space is not Space.SHARED or not isinstance(buffer.extents[0], Const):
        return 0
    n = int(buffer.extents[0].value)
    return n if leaf.indices[0] == simplify(mod(var(loop.var), n), ranges) else 0


def _is_asynchronous(s: Stmt) -> bool:
    """Whether all that a nest does is to start copies."""
    found = [leaf for leaf, _ in leaves(Block((s,)))]
    return bool(found) and all(isinstance(x, Store) and x.asynchronous for x in found)


def _loops(block: Block) -> list[For]:
    return [x.stmt for x in walk(block) if isinstance(x.stmt, For)]


def _prologue(loop: For, fills: tuple[Stmt, ...], ahead: int, taken: set[str]) -> tuple[Stmt, ...]:
    """The copies of the first `ahead` iterations, as far as the loop has them."""
    nests = Block(tuple(_renamed(s, "0", taken) for s in fills))
    asynchronous = any(map(_is_asynchronous, fills))
    step: Expr = index(0)
    if ahead > 1:
        name = fresh(f"{loop.var}.0", taken)
        taken.add(name)
        step = var(name)
    guarded = If(less(step, loop.extent), substitute_block(nests, {loop.var: step}))
    one = (guarded, *((Commit(),) if asynchronous else ()))
    each = one if ahead == 1 else (For(name, index(ahead), LoopKind.UNROLL, Block(one)),)
    return (*each, *((Wait(ahead - 1),) if asynchronous else ()))


def _renamed(s: Stmt, suffix: str, taken: set[str]) -> Stmt:
    """The nest with loops of its own names, `<loop>.<suffix>`."""
    new: dict[str, str] = {}
    for x in _loops(Block((s,))):
        new[x.var] = fresh(f"{x.var}.{suffix}", taken)
        taken.add(new[x.var])
    changed = substitute_block(Block((s,)), {old: var(name) for old, name in new.items()})

    def with_name(x: Stmt) -> Stmt | None:
        return replace(x, var=new[x.var]) if isinstance(x, For) and x.var in new else None

    (only,) = rewrite(changed, with_name).stmts
    return only


@dataclass(frozen=True)
class _Apart:
    """A copy in two halves: from memory into registers, from registers into shared memory.

    An asynchronous one has no second half.
    """

    registers: tuple[Buffer, ...]
    loads: Stmt
    stores: tuple[Stmt, ...]


def _apart(kernel: Kernel, site: Site, s: Stmt, taken: set[str]) -> _Apart:
    """Each element waits in a register of the thread that copies it: a dimension for each loop around."""
    if _is_asynchronous(s):
        return _Apart((), _renamed(s, "1", taken), ())
    registers: list[Buffer] = []
    waiting: list[Load] = []
    for leaf, at in leaves(Block((s,))):
        path = (*site.path, loop_of(site), *at.path)
        name = fresh(f"{leaf.buffer}.next", taken)
        taken.add(name)
        extents = tuple(_extent(kernel, path, x) for x in at.loops)
        registers.append(Buffer(name, leaf.value.dtype, extents, Space.REGISTER))
        waiting.append(Load(name, tuple(var(x.var) for x in at.loops), leaf.value.dtype))

    def half(loading: bool) -> Stmt:
        there = iter(waiting)

        def change(x: Stmt) -> Stmt | None:
            if not isinstance(x, Store):
                return None
            w = next(there)
            return Store(w.buffer, w.indices, x.value) if loading else replace(x, value=w)

        (only,) = rewrite(Block((s,)), change).stmts
        return _renamed(only, "1" if loading else "2", taken)

    return _Apart(tuple(registers), half(loading=True), (half(loading=False),))


def _extent(kernel: Kernel, path: tuple[For | If, ...], loop: For) -> Expr:
    extent = simplify(loop.extent, ranges_at(kernel, path))
    if not isinstance(extent, Const):
        raise RefusedError(
            "E-EXTENT",
            f"each element of the copy waits in a register, {loop.var} has {print_expr(extent)} of them",
        )
    return extent
