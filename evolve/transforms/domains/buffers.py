"""Which buffers a parameter may be."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.dsl.registry import Domain
from evolve.ir.approximate import approximable
from evolve.ir.data import index_arrays, is_ordered
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Expr, Load, Var
from evolve.ir.narrow import can_narrow
from evolve.ir.stmt import Reduce
from evolve.ir.types import Cache, Priority, Space
from evolve.ir.visit import leaves, local_buffers, map_expr, walk
from evolve.transforms.domains.rule import Chosen, rule
from evolve.transforms.view import View
from evolve.workload.model import FAST_CONTRACTS


@rule
def read_in(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers in one of these spaces that are read inside a loop."""
    assert domain.of is not None
    for buffer in view.used(chosen[domain.of], Mode.READ):
        if view.space(buffer).value in domain.values:
            yield buffer


@rule
def prefetched_in(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays that are read inside a loop and nowhere written."""
    assert domain.of is not None
    for buffer in view.used(chosen[domain.of], Mode.READ):
        if view.space(buffer) is Space.GLOBAL and buffer not in view.written:
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
def updated(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers that are updated atomically, lane by lane."""
    found = (leaf for leaf, _ in leaves(view.kernel.body) if isinstance(leaf, Reduce))
    yield from dict.fromkeys(leaf.buffer for leaf in found if leaf.atomic and not leaf.aggregated)


@rule
def computed(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers of the kernel's own that one store fills, from what is not written later."""
    yield from (name for name in view.local if view.stores.get(name, 0) == 1)


@rule
def computed_for(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers of the kernel's own that stores fill, from what is not written later, and that are only read
    inside a loop. A sum may be computed in each iteration too, but what for."""
    assert domain.of is not None
    loop = chosen[domain.of]
    written = view.used(loop, Mode.WRITE)
    filled = view.local.keys() & view.stores.keys()
    yield from (b for b in view.used(loop, Mode.READ) if b in filled and b not in written)


@rule
def arrays(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays in global memory that nothing is said of to the caches."""
    plain = (Cache.DEFAULT, Priority.NORMAL)
    yield from (b.name for b in view.kernel.buffers if (b.cache, b.l2) == plain)


@rule
def computed_loosely(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers for which something is computed that may be approximate, where the contract allows that."""
    if view.limits.numerics in FAST_CONTRACTS:
        yield from approximable(view.kernel)


@rule
def roundable(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Copies of inputs that may be kept in bfloat16, where the contract allows that."""
    if view.limits.numerics == "mixed":
        yield from (b for b in local_buffers(view.kernel.body) if can_narrow(view.kernel, b))


@rule
def dividing(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Nondecreasing arrays whose elements say how long a loop is."""
    assert domain.of is not None
    read = index_arrays(view.loop(chosen[domain.of]).extent)
    yield from (b.name for b in view.kernel.buffers if b.name in read and is_ordered(view.kernel, b.name))


@rule
def outputs(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays of which nothing is said to the caches that the kernel only stores."""
    used = [a for s in walk(view.kernel.body) for a in effects(s.stmt).accesses]
    other = {a.buffer for a in used if a.mode is not Mode.WRITE}
    stored = {a.buffer for a in used if a.mode is Mode.WRITE} - other
    yield from (b for b in arrays(view, domain, chosen) if b in stored)


@rule
def shared(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Arrays in shared memory."""
    yield from (name for name, b in view.local.items() if b.space is Space.SHARED and b.extents)


@rule
def evaluated(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Buffers that the kernel declares and computes something into."""
    found = (leaf.buffer for leaf, _ in leaves(view.kernel.body) if leaf.origin is not None)
    yield from dict.fromkeys(b for b in found if b in view.local)


@rule
def evaluated_like(view: View, domain: Domain, chosen: Chosen) -> Iterator[str]:
    """Others of one type and shape that come of the same operations."""
    assert domain.of is not None
    like = chosen[domain.of]
    for name in evaluated(view, domain, chosen):
        a, b = view.local[like], view.local[name]
        alike = name != like and (a.dtype, a.extents) == (b.dtype, b.extents)
        if alike and _operations(view, name) == _operations(view, like):
            yield name


def _operations(view: View, buffer: str) -> list[tuple[str, Expr]]:
    """For each statement that writes a buffer: its kind, and its value with names of its own left blank."""

    def blank(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in view.local:
            return Load("", (), e.dtype)
        return Var("", e.dtype) if isinstance(e, Var) and e.name in view.loops else e

    found = (leaf for leaf, _ in leaves(view.kernel.body) if leaf.buffer == buffer)
    return [(type(leaf).__name__, map_expr(leaf.value, blank)) for leaf in found]
