"""Which numbers, axes of the grid, layouts and conditions on sizes a parameter may be."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from evolve.dsl.registry import Domain
from evolve.ir.affine import linear
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Const, Var
from evolve.ir.scope import ranges_at
from evolve.ir.settled import decided
from evolve.ir.types import LoopKind
from evolve.ir.visit import leaves
from evolve.target.limits import GRID_MOST
from evolve.transforms.domains.rule import Chosen, rule
from evolve.transforms.view import View, block_threads

BANKS = 32
"""Of shared memory, four bytes each, on every CUDA GPU since compute capability 2.0."""


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
def column_groups(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Swizzles of a tile's columns over as many banks as there are, or as the columns fill: groups as wide as
    one of the numbers, each row or so many rows alike."""
    assert domain.of is not None
    extents = view.local[chosen[domain.of]].extents
    columns = extents[-1]
    if len(extents) < 2 or not isinstance(columns, Const):
        return
    for width in map(int, domain.values):
        groups = gcd(int(columns.value), BANKS) // width
        if groups > 1:
            yield f"[{width}, {groups}]"
            if width > 1:
                yield f"[{width}, {groups}, {width}]"


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


@rule
def decides(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Conditions on parameters that are no sizes: how what the kernel compares them with comes out where it
    is run, if the same each time."""
    if not view.limits.data:
        return
    for name, op, number in decided(view.kernel, view.limits.data):
        yield f"{name} {op.value} {number}"


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
