"""How the accesses of a kernel move through memory: strides over the loops around them."""

from __future__ import annotations

from evolve.features.domain import at_sizes, domain_of
from evolve.features.model import AccessInfo, ReductionInfo
from evolve.ir.affine import linear
from evolve.ir.effects import Access, Mode, effects
from evolve.ir.expr import Var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Buffer, Leaf, Reduce
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site, leaves, loads, variables
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays


def address_strides(
    access: Access, buffer: Buffer, site: Site, scalars: Sizes
) -> tuple[tuple[str, int | None], ...]:
    """Elements that the row-major address moves per step of each loop around `site`, outermost first."""
    weights: list[int | None] = []
    weight: int | None = 1
    for extent in reversed(buffer.extents):
        weights.append(weight)
        size = linear(at_sizes(extent, scalars))
        weight = weight * size.constant if weight is not None and size.is_constant else None
    weights.reverse()
    total: dict[str, int | None] = {loop.var: 0 for loop in site.loops}
    for weight, subscript in zip(weights, access.indices, strict=True):
        for atom, c in linear(at_sizes(subscript, scalars)).terms:
            if isinstance(atom, Var) and atom.name in total:
                so_far = total[atom.name]
                known = so_far is not None and weight is not None
                total[atom.name] = so_far + c * weight if known else None  # type: ignore[operator]
            else:
                for name in variables(atom) & total.keys():
                    total[name] = None
    return tuple((loop.var, total[loop.var]) for loop in site.loops)


def accesses(kernel: Kernel, scalars: Sizes) -> tuple[AccessInfo, ...]:
    """Every access of a global buffer, in textual order."""
    out = []
    buffers = {b.name: b for b in kernel.buffers}
    for position, (leaf, site) in enumerate(leaves(kernel.body)):
        for access in effects(leaf).accesses:
            buffer = buffers.get(access.buffer)
            if buffer is None:
                continue
            strides = address_strides(access, buffer, site, scalars)
            out.append(
                AccessInfo(
                    stmt=_name(leaf, position),
                    buffer=access.buffer,
                    write=access.mode is not Mode.READ,
                    strides=strides,
                    coalesced=_coalesced(strides, site),
                    invariant=tuple(name for name, s in strides if s == 0),
                )
            )
    return tuple(out)


def _name(leaf: Leaf, position: int) -> str:
    return leaf.origin.stmt if leaf.origin is not None else f"#{position}"


def _coalesced(strides: tuple[tuple[str, int | None], ...], site: Site) -> bool:
    parallel = [loop.var for loop in site.loops if loop.kind is LoopKind.PARALLEL or loop.kind.is_thread]
    if not parallel:
        return True
    return dict(strides)[parallel[-1]] in (0, 1)


def reductions(
    kernel: Kernel, scalars: Sizes, contents: IndexArrays | None = None
) -> tuple[ReductionInfo, ...]:
    """Every reduction statement with the sequential loops that contribute to one cell of its accumulator."""
    out = []
    buffers = {b.name: b for b in kernel.buffers}
    for leaf, site in leaves(kernel.body):
        if not isinstance(leaf, Reduce):
            continue
        domain = domain_of(site, scalars, contents)
        inside = {a.name for i in leaf.indices for a, _ in linear(i).terms if isinstance(a, Var)}
        over = tuple(
            loop.var for loop in site.loops if loop.kind is not LoopKind.PARALLEL and loop.var not in inside
        )
        trips = 1.0
        for name in over:
            trips *= domain.trips(name)
        contiguous = False
        for access in effects(leaf).accesses:
            buffer = buffers.get(access.buffer)
            if over and buffer is not None and access.mode is Mode.READ:
                strides = dict(address_strides(access, buffer, site, scalars))
                contiguous = contiguous or strides[over[-1]] == 1
        out.append(ReductionInfo(leaf.buffer, leaf.monoid.name, over, trips, contiguous))
    return tuple(out)


def reads_constant_offsets(kernel: Kernel, scalars: Sizes) -> bool:
    """Some statement reads one buffer at several places a constant distance apart: a stencil."""
    names = {b.name for b in kernel.buffers}
    for leaf, _ in leaves(kernel.body):
        shapes: dict[tuple[str, tuple[tuple[object, ...], ...]], set[tuple[int, ...]]] = {}
        for load in loads(leaf.value):
            if load.buffer not in names:
                continue
            forms = [linear(at_sizes(i, scalars)) for i in load.indices]
            key = (load.buffer, tuple(tuple(sorted(map(repr, f.terms))) for f in forms))
            shapes.setdefault(key, set()).add(tuple(f.constant for f in forms))
        if any(len(places) > 1 for places in shapes.values()):
            return True
    return False
