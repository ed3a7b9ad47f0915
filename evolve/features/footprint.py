"""Which elements accesses touch, as products of arithmetic progressions; nothing is enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from evolve.features.domain import Domain, at_sizes
from evolve.features.enumerate import UncountableError, touched
from evolve.features.lattice import Constraint, count_points
from evolve.ir.affine import Linear, linear
from evolve.ir.data import reads
from evolve.ir.expr import Expr, Var
from evolve.ir.printer import print_expr
from evolve.ir.stmt import For
from evolve.ir.visit import Site
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

# More boxes than this are not intersected: the largest one then stands for their union.
_MOST_BOXES = 12


@dataclass(frozen=True)
class Progression:
    """first, first + step, … (`count` values; step 1 when there is only one)."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.first + self.step * (self.count - 1)

    def contains(self, other: Progression) -> bool:
        if self.count == 0 or other.count == 0:
            return other.count == 0
        inside = self.first <= other.first and other.last <= self.last
        return inside and (other.first - self.first) % self.step == 0 and other.step % self.step == 0


@dataclass(frozen=True)
class Box:
    """A product of progressions, one a dimension.

    `exact`: the access touches all of these elements, or `part` of them: those of a domain that is no box,
    whose `shape` tells it from others. `input`: they were counted on one input; it tells what was.
    """

    dims: tuple[Progression, ...]
    exact: bool
    part: int | None = None
    shape: tuple[Constraint, ...] = ()
    input: str = ""

    @property
    def size(self) -> int:
        """Elements."""
        out = 1
        for d in self.dims:
            out *= d.count
        return out if self.part is None else min(out, self.part)

    def contains(self, other: Box) -> bool:
        """Every element of `other` is sure to be in this one."""
        if self == other:
            return True
        return self.part is None and all(a.contains(b) for a, b in zip(self.dims, other.dims, strict=True))


def box_of(indices: Sequence[Expr], domain: Domain, scalars: Sizes) -> Box:
    """The elements that an access touches over its domain.

    A domain that is no box (a triangle, a band) is counted where each of its loops is a subscript of its own.
    Elsewhere `exact` is false and the box an estimate, with no more elements than the domain has points: its
    hull for a domain under conditions, one line of it for subscripts that move together.
    """
    if domain.points <= 0:
        return Box(tuple(Progression(0, 1, 0) for _ in indices), True)
    forms = [linear(at_sizes(i, scalars)) for i in indices]
    dims: list[Progression] = []
    exact = domain.exact
    used: set[str] = set()
    for form in forms:
        names = {a.name for a, _ in form.terms if isinstance(a, Var)}
        progression, sure = _image(form, domain)
        if names & used:
            # Subscripts that move together: their product would count elements that are never touched.
            progression, sure = Progression(progression.first, 1, 1), False
        used |= names
        dims.append(progression)
        exact = exact and sure
    if domain.exact:
        return Box(tuple(dims), exact)
    part = _touched(forms, domain)
    return Box(tuple(dims), part is not None, int(domain.points) if part is None else part, domain.within)


def box_at(
    indices: Sequence[Expr],
    site: Site,
    domain: Domain,
    scalars: Sizes,
    contents: IndexArrays | None,
    extents: Sequence[Expr] = (),
) -> Box:
    """`box_of`, by enumeration where subscripts or loop bounds are read from memory.

    Without `contents`, or where that takes too long, an estimate: as many elements as there are accesses.
    """
    if not domain.input and not any(reads(i) for i in indices):
        return box_of(indices, domain, scalars)
    try:
        if contents is None:
            raise UncountableError
        found = touched(indices, site, scalars, contents, extents)
    except UncountableError:
        points = max(1, int(domain.points))
        return Box(tuple(Progression(0, 1, points) for _ in indices), False, points)
    dims = tuple(Progression(a, 1, max(0, b - a + 1)) for a, b in zip(found.least, found.most, strict=True))
    what = ", ".join(print_expr(i) for i in indices)
    around = "; ".join(print_expr(s.extent if isinstance(s, For) else s.cond) for s in site.path)
    return Box(dims, True, found.count, input=f"{what} | {around}")


def _touched(forms: Sequence[Linear], domain: Domain) -> int | None:
    """Elements touched by a domain that is no box; None unless every iteration of the loops that the
    constraints tie together touches an element of its own."""
    own: set[str] = set()
    for form in forms:
        names = [a.name for a, _ in form.terms if isinstance(a, Var)]
        if len(names) != len(form.terms) or len(names) > 1:
            return None
        own.update(names)
    tied = frozenset[str]().union(*(c.names for c in domain.within))
    if not domain.counted or not tied <= own:
        return None
    return count_points({n: r for n, r in domain.ranges.items() if n in own}, domain.within)


def _image(form: Linear, domain: Domain) -> tuple[Progression, bool]:
    """The values of an affine subscript, and whether they are exactly this progression."""
    first = form.constant
    steps: list[tuple[int, int]] = []
    for atom, c in form.terms:
        if not isinstance(atom, Var) or atom.name not in domain.ranges:
            return Progression(0, 1, 1), False
        low, high = domain.ranges[atom.name]
        first += c * (low if c > 0 else high)
        if high > low:
            steps.append((abs(c), high - low + 1))
    steps.sort()
    if not steps:
        return Progression(first, 1, 1), True
    step, count = steps[0]
    reach, whole = step * (count - 1), True
    for c, n in steps[1:]:
        # Still one progression when the next digit is a multiple that leaves no hole.
        whole = whole and c % step == 0 and c // step <= count
        if whole:
            count += c // step * (n - 1)
        elif c > reach:
            # Rows apart from one another, as of a padded array: the number is known, the places are lost.
            count *= n
        reach += c * (n - 1)
    return Progression(first, step, count), whole


def union_size(boxes: Sequence[Box]) -> tuple[int, bool]:
    """Distinct elements in the union of the boxes, and whether the number is exact (else an estimate)."""
    exact = all(b.exact for b in boxes)
    kept: list[Box] = []
    for b in sorted({b for b in boxes if b.size}, key=lambda b: (-b.size, b.part is not None, repr(b))):
        if not any(k.contains(b) for k in kept):
            kept.append(b)
    if len(kept) <= 1:
        return (kept[0].size if kept else 0), exact
    partial = any(b.part is not None for b in kept)
    if partial or len(kept) > _MOST_BOXES:
        return kept[0].size, False
    if any(d.step != 1 for b in kept for d in b.dims):
        groups = _by_residue(kept)
        return (kept[0].size, False) if groups is None else (sum(union_size(g)[0] for g in groups), exact)
    cuts = []
    for axis in range(len(kept[0].dims)):
        edges = {b.dims[axis].first for b in kept} | {b.dims[axis].last + 1 for b in kept}
        cuts.append(list(pairwise(sorted(edges))))
    total = 0
    for cell in product(*cuts):
        if any(
            all(d.first <= lo and hi <= d.last + 1 for d, (lo, hi) in zip(b.dims, cell, strict=True))
            for b in kept
        ):
            volume = 1
            for lo, hi in cell:
                volume *= hi - lo
            total += volume
    return total, exact


def _by_residue(boxes: Sequence[Box]) -> list[list[Box]] | None:
    """Boxes of the same steps in groups that share no element, in units of their steps; None for others."""
    steps = [max(ds, key=lambda d: d.count).step for ds in zip(*(b.dims for b in boxes), strict=True)]
    groups: dict[tuple[int, ...], list[Box]] = {}
    for b in boxes:
        if any(d.step != s and d.count > 1 for d, s in zip(b.dims, steps, strict=True)):
            return None
        place = [divmod(d.first, s) for d, s in zip(b.dims, steps, strict=True)]
        dims = tuple(Progression(q, 1, d.count) for d, (q, _) in zip(b.dims, place, strict=True))
        groups.setdefault(tuple(r for _, r in place), []).append(Box(dims, b.exact))
    return list(groups.values())
