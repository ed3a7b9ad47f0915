"""All features of a kernel at given sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from evolve.features.access import accesses, reads_constant_offsets, reductions
from evolve.features.arithmetic import operations
from evolve.features.domain import domain_of
from evolve.features.footprint import Box, box_at, union_size
from evolve.features.model import AccessInfo, BufferUse, Features, LoopInfo, ReductionInfo, Structure
from evolve.features.product import products
from evolve.ir.effects import Access, Mode, effects
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.kernel import Kernel
from evolve.ir.settled import at_values
from evolve.ir.stmt import Buffer, For
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site, leaves, walk
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

# A loop nest that reads less than this share of what is read of a buffer is no pass over it.
_PASS_SHARE = 0.5


def extract(kernel: Kernel, scalars: Sizes, contents: IndexArrays | None = None) -> Features:
    """The features of a lifted kernel. `scalars` gives every size it needs; what its other parameters decide
    against, such as a mode, is not counted.

    `contents` are the index arrays of an input (`workload.structure`): what depends on them is counted and
    marked as holding for that input, and estimated without them. Raises EvolveError `missing-size` when a
    loop's extent depends on a size that is not given.
    """
    missing = [s.name for s in kernel.scalars if s.is_size and s.name not in scalars]
    if missing:
        raise EvolveError("missing-size", f"{kernel.name} needs a value for {', '.join(missing)}")
    try:
        return _extract(at_values(kernel, scalars), scalars, contents)
    except ValueError as error:
        raise EvolveError("missing-size", f"{kernel.name}: {error}") from error


def _extract(kernel: Kernel, scalars: Sizes, contents: IndexArrays | None) -> Features:
    touches = _touches(kernel, scalars, contents)
    buffers = tuple(
        _use(b, scalars, [t for t in touches if t.access.buffer == b.name]) for b in kernel.buffers
    )
    loops = _loops(kernel, scalars, contents)
    accessed = accesses(kernel, scalars)
    reduced = reductions(kernel, scalars, contents)
    structure = _structure(loops, accessed, reduced, reads_constant_offsets(kernel, scalars))
    instances = sum(domain_of(site, scalars, contents).points for _, site in leaves(kernel.body))
    return Features(
        kernel=kernel.name,
        scalars=dict(scalars),
        buffers=buffers,
        loops=loops,
        accesses=accessed,
        reductions=reduced,
        operations=operations(kernel, scalars, contents),
        instances=instances,
        structure=structure,
        exact=all(b.exact for b in buffers),
        this_input=any(t.box.input for t in touches),
        products=products(loops, accessed, buffers) if structure == "contraction" else 0.0,
    )


@dataclass(frozen=True)
class _Touch:
    """One access of a global buffer over its domain. `nest`: the innermost loop around it."""

    access: Access
    box: Box
    points: float
    nest: str
    exposed: bool
    """Not written before by the same launch: the old value is needed."""


def _touches(kernel: Kernel, scalars: Sizes, contents: IndexArrays | None) -> list[_Touch]:
    names = {b.name for b in kernel.buffers}
    out: list[_Touch] = []
    written: dict[str, list[Box]] = {}
    for site in walk(kernel.body):
        found = _distinct(a for a in effects(site.stmt).accesses if a.buffer in names)
        if not found:
            continue
        domain = domain_of(site, scalars, contents)
        boxes = [
            box_at(a.indices, site, domain, scalars, contents, kernel.buffer(a.buffer).extents) for a in found
        ]
        for access, box in zip(found, boxes, strict=True):
            before = written.get(access.buffer, ())
            covered = any(w.exact and w.contains(box) for w in before)
            exposed = access.mode is not Mode.WRITE and not covered
            out.append(_Touch(access, box, domain.points, _nest(site), exposed))
        for access, box in zip(found, boxes, strict=True):
            if access.mode is not Mode.READ:
                written.setdefault(access.buffer, []).append(box)
    return out


def _distinct(found: Iterable[Access]) -> list[Access]:
    """Without repeated reads of the same element by one statement: its value is loaded once."""
    kept: dict[tuple[object, ...], Access] = {}
    for a in found:
        kept.setdefault((a.buffer, a.indices, a.mode), a)
    return list(kept.values())


def _nest(site: Site) -> str:
    return site.loops[-1].var if site.loops else ""


def _use(buffer: Buffer, scalars: Sizes, touches: Sequence[_Touch]) -> BufferUse:
    """What was not counted one by one is at most what the array has."""
    whole = prod(max(0, int(evaluate(e, scalars))) for e in buffer.extents)
    live = [t for t in touches if t.box.size]
    reads = [t for t in live if t.access.mode is not Mode.WRITE]
    needed, sure_read = union_size([t.box for t in live if t.exposed])
    written, sure_write = union_size([t.box for t in live if t.access.mode is not Mode.READ])
    seen, _ = union_size([t.box for t in reads])
    loads = sum(t.points for t in reads)
    nests = {t.nest for t in reads if t.box.size >= _PASS_SHARE * seen}
    return BufferUse(
        buffer=buffer.name,
        element_bytes=buffer.dtype.size,
        read_elements=min(needed, whole),
        written_elements=min(written, whole),
        accesses=sum(t.points for t in live),
        passes=len(nests),
        reuse=loads / min(seen, whole) if min(seen, whole) else 0.0,
        exact=sure_read and sure_write,
    )


def _loops(kernel: Kernel, scalars: Sizes, contents: IndexArrays | None) -> tuple[LoopInfo, ...]:
    out = []
    for site in walk(kernel.body):
        if isinstance(site.stmt, For):
            around = domain_of(site, scalars, contents)
            inside = domain_of(Site(site.stmt, (*site.path, site.stmt), site.in_else), scalars, contents)
            trips = inside.points / around.points if around.points else 0.0
            out.append(LoopInfo(site.stmt.var, site.stmt.kind.value, trips, len(site.loops)))
    return tuple(out)


def _structure(
    loops: Sequence[LoopInfo],
    accessed: Sequence[AccessInfo],
    reduced: Sequence[ReductionInfo],
    offsets: bool,
) -> Structure:
    parallel = [x.name for x in loops if x.kind == LoopKind.PARALLEL.value]
    if any(r.trips > 1 for r in reduced):
        reads = [a for a in accessed if not a.write]
        shared = [{p for p in parallel if p in a.invariant} for a in reads]
        # Operands that are each reused along a different parallel loop: a contraction.
        if len(set().union(*shared)) >= 2 and sum(bool(s) for s in shared) >= 2:
            return "contraction"
        return "reduction"
    if offsets:
        return "stencil"
    strides = {tuple(s for n, s in a.strides if n in parallel) for a in accessed}
    moving = {s for s in strides if any(s)}
    if len(moving) > 1 and len({tuple(sorted(map(str, s))) for s in moving}) == 1:
        return "permutation"
    if len(moving) <= 1:
        return "elementwise"
    if all(any(x == 1 for x in s) for s in moving) and any(not a.coalesced for a in accessed):
        return "permutation"
    return "elementwise" if all(a.coalesced for a in accessed) else "other"
