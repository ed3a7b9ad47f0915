"""The rules by which `dsl_spec/` says what a parameter of a next move may be.

A rule reads values off a kernel, as texts of arguments: loops fit for something, buffers used somewhere,
numbers that fit an extent. It only leaves out what cannot be meant; the primitive's own preconditions decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TypeAlias

from evolve.dsl.registry import Domain
from evolve.ir.affine import linear
from evolve.ir.effects import Mode, effects
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Var
from evolve.ir.scaled import power_in
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, For, If, Leaf, Reduce
from evolve.ir.types import MAX, SUM, Cache, LoopKind, Space
from evolve.ir.visit import leaves, variables, walk
from evolve.target.limits import GRID_MOST
from evolve.transforms.mapping import FREE
from evolve.transforms.order import is_divided_in_order, is_joined_in_order, takes_turns
from evolve.transforms.view import View, block_threads

WARP = 32

Chosen: TypeAlias = Mapping[str, str]
Rule: TypeAlias = Callable[[View, Domain, Chosen], Iterator[str]]

RULES: dict[str, Rule] = {}


def rule(f: Rule) -> Rule:
    """Registers a rule by its function's name."""
    RULES[f.__name__] = f
    return f


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
    """Free loops with a reduction inside, of one of these extents."""
    for name in _reducing(view):
        if view.extents[name] in domain.values:
            yield name


@rule
def reducing_by_warps(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Free loops with a reduction inside that several whole warps of a block can share out."""
    for name in _reducing(view):
        extent = view.extents[name]
        if extent is not None and extent % WARP == 0 and WARP < extent <= view.limits.threads:
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
def maxima(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Nests of one maximum, as lists of their loops down to the last that threads share out."""
    for name in view.free:
        leaf = _only_leaf(view.loop(name).body)
        if isinstance(leaf, Reduce) and leaf.monoid == MAX:
            yield _shared_nest(view, name)


@rule
def exponentials(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Such nests of sums of `exp(e - m)`, weighted or not, after another nest of the same block."""
    assert domain.of is not None
    before = chosen[domain.of].strip("[]").split(", ")[0]
    order = list(view.loops)
    for name in view.free:
        adds = all(
            isinstance(leaf, Reduce) and leaf.monoid == SUM and power_in(leaf.value) is not None
            for leaf, _ in leaves(view.loop(name).body)
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
        if is_divided_in_order((loop,)):
            yield name
        inner = _only_loop(loop.body)
        if inner is not None and inner.kind in FREE and is_divided_in_order((loop, inner)):
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
def roomy_axis(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Those of the grid's axes that have room for a loop at the sizes that are run, and hold none yet around
    it."""
    assert domain.of is not None
    loop = chosen[domain.of]
    taken = {x.kind for x in view.loops[loop].loops}
    blocks = view.most(loop)
    for axis in map(LoopKind, domain.values):
        if axis not in taken and (blocks is None or blocks <= GRID_MOST[axis]):
            yield axis.value


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
def cuts(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Numbers that cut a loop, or each of a list of loops, into whole, smaller parts; all where the extent is
    not constant and its value not known. Where it is known by the sizes that are run, smaller numbers."""
    assert domain.of is not None
    loops = chosen[domain.of].strip("[]").split(", ")
    is_list = chosen[domain.of].startswith("[")
    for n in map(int, domain.values):
        if all(_cuts(view, x, n) for x in loops):
            yield f"[{', '.join([str(n)] * len(loops))}]" if is_list else str(n)


@rule
def divides(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Numbers that divide the loop's constant extent."""
    assert domain.of is not None
    extent = view.extents[chosen[domain.of]]
    yield from (str(n) for n in domain.values if extent is not None and extent % int(n) == 0)


@rule
def starts(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """What has to be added to a loop's number to be a subscript of what is written inside, `c` for
    `y[i + c]`: from 1 to `values[0]`."""
    assert domain.of is not None
    (most,) = domain.values
    loop = view.loop(chosen[domain.of])
    forms = (linear(i) for leaf, _ in leaves(loop.body) for i in leaf.indices)
    apart = (f.constant for f in forms if f.terms == ((Var(loop.var), 1),))
    yield from (str(c) for c in dict.fromkeys(apart) if 0 < c <= int(most))


@rule
def block(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """The threads of the block, once loops are bound to them."""
    threads = block_threads(view.kernel)
    if threads > 1:
        yield str(threads)


@rule
def read_in(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers in one of these spaces that are read inside a loop."""
    assert domain.of is not None
    for buffer in view.used(chosen[domain.of], Mode.READ):
        if view.space(buffer).value in domain.values:
            yield buffer


@rule
def stored_in(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays of the kernel that are stored and nothing else inside a loop."""
    assert domain.of is not None
    loop = chosen[domain.of]
    other = {*view.used(loop, Mode.READ), *view.used(loop, Mode.REDUCE)}
    for buffer in view.used(loop, Mode.WRITE):
        if view.space(buffer) is Space.GLOBAL and buffer not in other:
            yield buffer


@rule
def reduced_in(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers reduced into inside a loop that are not in registers."""
    assert domain.of is not None
    for buffer in view.used(chosen[domain.of], Mode.REDUCE):
        if view.space(buffer) is not Space.REGISTER:
            yield buffer


@rule
def reduced(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers that are reduced into and not in registers."""
    found = dict.fromkeys(leaf.buffer for leaf, _ in leaves(view.kernel.body) if isinstance(leaf, Reduce))
    yield from (buffer for buffer in found if view.space(buffer) is not Space.REGISTER)


@rule
def inside(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops inside another one that have one of these extents."""
    assert domain.of is not None
    for name, site in view.loops.items():
        if view.extents[name] in domain.values and chosen[domain.of] in (x.var for x in site.loops):
            yield name


@rule
def arrays(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays in global memory that nothing is said of to the caches."""
    yield from (b.name for b in view.kernel.buffers if b.cache is Cache.DEFAULT)


@rule
def shared(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays in shared memory."""
    yield from (name for name, b in view.local.items() if b.space is Space.SHARED and b.extents)


@rule
def fills_versions(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Loops whose iteration chooses the part of a shared array that it writes."""

    def takes_turns(leaf: Leaf, loop: str) -> bool:
        shared = view.space(leaf.buffer) is Space.SHARED and leaf.indices
        return bool(shared) and loop in variables(leaf.indices[0])

    for name in view.free:
        if any(takes_turns(leaf, name) for leaf, _ in leaves(view.loop(name).body)):
            yield name


@rule
def last_dimension(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Lists with one of the numbers for the last dimension of a buffer and 0 for the others."""
    assert domain.of is not None
    rank = len(view.local[chosen[domain.of]].extents)
    for n in domain.values:
        yield f"[{', '.join([*['0'] * (rank - 1), str(n)])}]"


@rule
def reversed_dimensions(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """The dimensions of a buffer of more than one, the last first."""
    assert domain.of is not None
    rank = len(view.local[chosen[domain.of]].extents)
    if rank > 1:
        yield f"{list(range(rank))[::-1]}"


@rule
def equals(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Sizes not known yet, equal to what they are run with, or else to one of the numbers; none with which
    the smallest arrays are too large to be executed under checks."""
    for name in _open_sizes(view):
        for n in map(int, view.limits.sizes.get(name) or domain.values):
            if _least_bytes(view, name, n) <= view.limits.checked_bytes:
                yield f"{name} == {n}"


@rule
def multiple_of(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Sizes not known yet as multiples of one of the numbers, if all sizes that are run are."""
    known = ranges_at(view.kernel).divisors
    for name in _open_sizes(view):
        for n in map(int, domain.values):
            if known.get(name, 1) % n and all(v % n == 0 for v in view.limits.sizes.get(name, ())):
                yield f"{name} % {n} == 0"


def _cuts(view: View, loop: str, n: int) -> bool:
    constant, most = view.extents[loop], view.most(loop)
    return (constant is None or constant % n == 0) and (most is None or n < most)


def _open_sizes(view: View) -> Iterator[str]:
    ranges = ranges_at(view.kernel)
    for s in view.kernel.scalars:
        low, high = ranges.of(s.name)
        if s.is_size and not s.implied and (low is None or low != high):
            yield s.name


def _least_bytes(view: View, fixed: str, value: int) -> int:
    """Of all arrays, at the smallest sizes that the kernel's assumptions and one fixed size leave."""
    ranges = ranges_at(view.kernel)
    sizes = {
        s.name: max(ranges.of(s.name)[0] or 1, ranges.divisors.get(s.name, 1))
        for s in view.kernel.scalars
        if s.is_size
    } | {fixed: value}
    try:
        return sum(
            b.dtype.size * prod(int(evaluate(n, sizes)) for n in b.extents) for b in view.kernel.buffers
        )
    except EvolveError:
        return 0


def _reducing(view: View) -> Iterator[str]:
    for name, loop in view.free.items():
        if view.extents[name] is not None and any(isinstance(s.stmt, Reduce) for s in walk(loop.body)):
            yield name


def _only_leaf(body: Block) -> Leaf | None:
    """The one store or reduction in a block."""
    found = [leaf for leaf, _ in leaves(body)]
    return found[0] if len(found) == 1 else None


def _shared_nest(view: View, name: str) -> str:
    """A loop and those directly inside it, down to the last thread loop, as an argument."""
    chain = [view.loop(name)]
    while len(chain[-1].body.stmts) == 1 and isinstance(inner := chain[-1].body.stmts[0], For):
        chain.append(inner)
    last = max((i for i, x in enumerate(chain) if x.kind.is_thread), default=0)
    names = [x.var for x in chain[: last + 1]]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


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
