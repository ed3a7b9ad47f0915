"""Which loops a parameter may be, alone or as lists."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.dsl.registry import Domain
from evolve.ir.affine import linear
from evolve.ir.data import reads
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Var
from evolve.ir.scaled import power_in
from evolve.ir.stmt import Alloc, Block, For, If, Leaf, Reduce
from evolve.ir.types import MAX, SUM, LoopKind, Space
from evolve.ir.visit import leaves, variables, walk
from evolve.target.limits import WARP
from evolve.transforms.domains.rule import Chosen, rule
from evolve.transforms.edit import declared_in
from evolve.transforms.mapping import FREE
from evolve.transforms.order import is_divided_in_order, is_joined_in_order, takes_turns
from evolve.transforms.view import View


@rule
def free(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops that nothing executes in a special way yet."""
    yield from view.free


@rule
def outermost(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops with nothing but grid loops around them."""
    for name in view.free:
        if all(isinstance(p, For) and p.kind.is_grid for p in view.loops[name].path):
            yield name


@rule
def small(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops of a constant extent that the threads of a block can share out."""
    for name, loop in view.free.items():
        extent = view.extents[name]
        if extent is not None and 1 < extent <= view.limits.threads and not takes_turns(loop):
            yield name


@rule
def a_warp(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops of as many iterations as a warp has lanes."""
    for name, loop in view.free.items():
        if view.extents[name] == WARP and not takes_turns(loop):
            yield name


@rule
def short(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops, not unrolled yet, of at most `values[0]` iterations."""
    (most,) = domain.values
    for name, loop in view.free.items():
        extent = view.extents[name]
        if loop.kind is not LoopKind.UNROLL and extent is not None and extent <= int(most):
            yield name


@rule
def innermost(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops of a constant extent without a loop inside."""
    for name, loop in view.free.items():
        if view.extents[name] is not None and not any(isinstance(s.stmt, For) for s in walk(loop.body)):
            yield name


@rule
def reducing(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops of one of these extents, all of whose iterations reduce into one cell."""
    for name in _reducing(view):
        if view.extents[name] in domain.values and _carries(view.loop(name)):
            yield name


@rule
def reducing_by_warps(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops that several whole warps of a block can share out, which reduce into one cell."""
    for name in _reducing(view):
        extent = view.extents[name]
        is_whole = extent is not None and extent % WARP == 0 and WARP < extent <= view.limits.threads
        if is_whole and _carries(view.loop(name)):
            yield name


@rule
def reducing_by_blocks(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops with a reduction and a loop inside, with nothing but free and grid loops around."""
    for name, loop in view.free.items():
        inside = {type(s.stmt) for s in walk(loop.body)}
        around = view.loops[name].loops
        if {Reduce, For} <= inside and all(x.kind in FREE or x.kind.is_grid for x in around):
            yield name


@rule
def running(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops with a total inside that is read as it grows, of one of these extents or of whole warps."""
    for name in _reducing(view):
        extent = view.extents[name]
        by_warps = extent is not None and extent % WARP == 0 and extent <= view.limits.threads
        read = set(view.used(name, Mode.READ)) & set(view.used(name, Mode.REDUCE))
        if read and (by_warps or extent in domain.values):
            yield name


@rule
def segmented(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops as long as memory says, directly inside one loop."""
    for name, loop in view.free.items():
        if len(view.loops[name].path) == 1 and reads(loop.extent):
            yield name


@rule
def maxima(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Nests of one maximum, as lists of their loops down to the last that threads share out."""
    for name in view.free:
        found = _outward(view.loop(name).body)
        if len(found) == 1 and isinstance(found[0], Reduce) and found[0].monoid == MAX:
            yield _shared_nest(view, name)


@rule
def exponentials(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Such nests of sums with some `exp(e - m)` inside, after another nest of the same block."""
    assert domain.of is not None
    before = chosen[domain.of].strip("[]").split(", ")[0]
    order = list(view.loops)
    for name in view.free:
        body = view.loop(name).body
        adds = any(power_in(leaf.value) is not None for leaf, _ in leaves(body)) and all(
            isinstance(leaf, Reduce) and leaf.monoid == SUM for leaf in _outward(body)
        )
        beside = view.loops[name].path == view.loops[before].path
        if adds and beside and order.index(name) > order.index(before):
            yield _shared_nest(view, name)


@rule
def nest(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Two free loops, one directly inside the other: `[outer, inner]`."""
    for name, loop in view.free.items():
        inner = _only_loop(loop.body)
        if inner is not None and inner.kind in FREE:
            yield f"[{name}, {inner.var}]"


@rule
def sequential_nest(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Two loops of the source that run in order, one directly inside the other: `[outer, inner]`."""
    for name, loop in view.free.items():
        inner = _only_loop(loop.body)
        if inner is not None and loop.kind is inner.kind is LoopKind.SERIAL:
            yield f"[{name}, {inner.var}]"


@rule
def products(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Nests down to one reduction in registers in which each loop goes over cells, the first one in pairs."""
    for name in view.free:
        chain = [view.loop(name)]
        while (inner := _only_loop(chain[-1].body)) is not None and inner.kind in FREE:
            chain.append(inner)
        found = [leaf for leaf, _ in leaves(chain[-1].body)]
        leaf = found[0] if len(found) == 1 else None
        extent = view.extents[name]
        if len(chain) < 2 or not isinstance(leaf, Reduce) or extent is None or extent % 2:
            continue
        cells = frozenset().union(*map(variables, leaf.indices), frozenset())
        if view.space(leaf.buffer) is Space.REGISTER and {x.var for x in chain} <= cells:
            yield f"[{', '.join(x.var for x in chain)}]"


@rule
def deciding(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops inside which a condition depends on their number, and which are no part of a peeled one."""
    for name, loop in view.free.items():
        if loop.note.startswith("peel("):
            continue
        inside = (s.stmt for s in walk(loop.body))
        if any(isinstance(s, If) and name in variables(s.cond) for s in inside):
            yield name


@rule
def swapped(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Two loops, one directly inside the other, in the other order: `[inner, outer]`."""
    for name in view.loops:
        outer = view.loop(name)
        inner = _only_loop(outer.body)
        if inner is not None and not outer.kind.is_grid and inner.kind is not LoopKind.VECTOR:
            yield f"[{inner.var}, {name}]"


@rule
def shared_out(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops, and pairs of one directly inside the other, whose statements can be taken apart."""
    for name, loop in view.free.items():
        if _is_several(loop.body) and is_divided_in_order((loop,)):
            yield name
        inner = _only_loop(loop.body)
        if inner is None or inner.kind not in FREE or not _is_several(inner.body):
            continue
        if is_divided_in_order((loop, inner)):
            yield f"[{name}, {inner.var}]"


@rule
def next_to(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """The next free loop of the same block, unless it has to wait for the first one's end."""
    assert domain.of is not None
    found = view.next_to.get(chosen[domain.of])
    if found is not None and is_joined_in_order(view.loop(chosen[domain.of]), view.loop(found)):
        yield found


@rule
def around(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops that something can be placed in."""
    for name in view.loops:
        kind = view.loop(name).kind
        if kind is not LoopKind.VECTOR and not kind.is_combine:
            yield name


@rule
def alike(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Lists of free loops that a block's threads can share out only together: each is the digit of one stride
    and extent of the subscripts of one register buffer."""
    groups: dict[tuple[str, int, int, int], list[str]] = {}
    for site in walk(view.kernel.body):
        for access in effects(site.stmt).accesses:
            if view.space(access.buffer) is not Space.REGISTER:
                continue
            for position, i in enumerate(access.indices):
                for atom, stride in linear(i).terms:
                    if isinstance(atom, Var) and atom.name in view.free:
                        extent = view.extents[atom.name] or 0
                        group = groups.setdefault((access.buffer, position, stride, extent), [])
                        group += [] if atom.name in group else [atom.name]
    found = (loops for (*_, n), loops in groups.items() if len(loops) > 1 and 1 < n <= view.limits.threads)
    yield from dict.fromkeys(f"[{', '.join(loops)}]" for loops in found)


@rule
def inside(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops inside another one that have one of these extents."""
    assert domain.of is not None
    for name, site in view.loops.items():
        if view.extents[name] in domain.values and chosen[domain.of] in (x.var for x in site.loops):
            yield name


@rule
def fills_versions(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops whose iteration chooses the part of a shared array that it writes."""

    def takes_turns(leaf: Leaf, loop: str) -> bool:
        shared = view.space(leaf.buffer) is Space.SHARED and leaf.indices
        return bool(shared) and loop in variables(leaf.indices[0])

    for name in view.free:
        if any(takes_turns(leaf, name) for leaf, _ in leaves(view.loop(name).body)):
            yield name


def _reducing(view: View) -> Iterator[str]:
    for name, loop in view.free.items():
        if view.extents[name] is not None and any(isinstance(s.stmt, Reduce) for s in walk(loop.body)):
            yield name


def _carries(loop: For) -> bool:
    """Whether iterations reduce into a cell that they share and that is there before them."""
    inside = declared_in(loop.body)
    return any(
        isinstance(leaf, Reduce)
        and leaf.buffer not in inside
        and not any(loop.var in variables(i) for i in leaf.indices)
        for leaf, _ in leaves(loop.body)
    )


def _outward(body: Block) -> list[Leaf]:
    """The stores and reductions in a block of what is declared outside."""
    inside = declared_in(body)
    return [leaf for leaf, _ in leaves(body) if leaf.buffer not in inside]


def _shared_nest(view: View, name: str) -> str:
    """A loop and those directly inside it, down to the last thread loop, as an argument."""
    chain = [view.loop(name)]
    while len(chain[-1].body.stmts) == 1 and isinstance(inner := chain[-1].body.stmts[0], For):
        chain.append(inner)
    last = max((i for i, x in enumerate(chain) if x.kind.is_thread), default=0)
    names = [x.var for x in chain[: last + 1]]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _is_several(body: Block) -> bool:
    """Whether a block, or what its only guards are around, has several statements."""
    while len(body.stmts) == 1 and isinstance(body.stmts[0], If):
        body = body.stmts[0].body
    return sum(not isinstance(s, Alloc) for s in body.stmts) > 1


def _only_loop(body: Block) -> For | None:
    """The loop that is all there is in a block, but for guards around it."""
    while len(body.stmts) == 1:
        (only,) = body.stmts
        if isinstance(only, For):
            return only
        if not isinstance(only, If) or only.orelse.stmts:
            return None
        body = only.body
    return None
