"""Where the text keeps the elements of a thread's buffers.

Any place will do if each thread has one place for each element it uses and no two elements share one. Both
are asked of all accesses together, by enumeration: extents, threads and unrolled loops are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from evolve.validation.context import Context
from evolve.validation.formula import Compare, atoms
from evolve.validation.polynomial import Poly
from evolve.validation.verdict import DifferenceError, UnreadError

MOST = 1 << 21
"""Points that are enumerated for one access."""


@dataclass(frozen=True)
class Access:
    """Element `index` of the kernel's buffer is in place `slot` of the text's."""

    index: tuple[Poly, ...]
    slot: tuple[Poly, ...]
    context: Context
    line: int


@dataclass
class Places:
    """Accesses by buffer and declaration of it, each once."""

    accesses: dict[tuple[str, int], dict[tuple[str, ...], Access]] = field(default_factory=dict)
    extents: dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def add(
        self, which: tuple[str, int], access: Access, extents: tuple[int, ...], slots: tuple[int, ...]
    ) -> None:
        if not extents and not slots:
            return
        self.extents[which] = (extents, slots)
        spelled = tuple(p.text for p in (*access.index, *access.slot))
        names = sorted({a.name for p in (*access.index, *access.slot) for a in p.atoms() if a.kind == "var"})
        ranges = tuple(f"{n} {access.context.ranges.get(n)}" for n in names)
        facts = sorted({str(f) for f in access.context.facts if {a.name for a in atoms(f)} & {*names}})
        self.accesses.setdefault(which, {}).setdefault((*spelled, *ranges, *facts), access)

    def check(self) -> None:
        """Raises DifferenceError where an element would have two places, or a place two elements."""
        for which, accesses in self.accesses.items():
            extents, slots = self.extents[which]
            threads = sorted(
                {
                    a.name
                    for x in accesses.values()
                    for p in (*x.index, *x.slot)
                    for a in p.atoms()
                    if a.name.startswith("thread.")
                }
            )
            seen: Any = None  # until the first access that happens
            for access in accesses.values():
                seen = _consistent(which[0], access, extents, slots, threads, seen)


def _consistent(
    buffer: str,
    access: Access,
    extents: tuple[int, ...],
    slots: tuple[int, ...],
    threads: Sequence[str],
    seen: Any,
) -> Any:
    points = _points(access, threads)
    if any(v.size == 0 for v in points.values()):
        return seen  # No thread comes here.
    shape = np.broadcast_shapes((1,), *(v.shape for v in points.values()))
    valid = np.ones(shape, dtype=bool)
    index, slot, thread = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for p, n in zip(access.index, extents, strict=True):
        value = evaluated(p, points)
        valid &= (value >= 0) & (value < n)
        index = index * n + value
    for f in access.context.facts:
        variables = {a.name for a in atoms(f) if a.kind != "floor"}
        if isinstance(f, Compare) and f.op == ">=" and variables <= set(points):
            valid &= evaluated(f.poly, points) >= 0
    inside = np.ones(shape, dtype=bool)
    for p, n in zip(access.slot, slots, strict=True):
        value = evaluated(p, points)
        inside &= (value >= 0) & (value < n)
        slot = slot * n + value
    if (valid & ~inside).any():
        raise DifferenceError(f"an element of {buffer} is kept outside its array", access.line)
    for name in threads:
        thread = thread * (int(points[name].max()) + 1) + points[name]
    index, slot, thread = (np.broadcast_to(v, shape)[valid] for v in (index, slot, thread))
    elements, places = prod(extents), prod(slots)
    pairs = (thread * elements + index) * places + slot
    both = np.unique(pairs if seen is None else np.concatenate([pairs, seen]))
    owner, place = both // places, both % places
    if np.unique(owner).size != both.size:
        raise DifferenceError(f"an element of {buffer} is looked for where it is not", access.line)
    if np.unique(owner // elements * places + place).size != both.size:
        raise DifferenceError(f"two elements of {buffer} share a place", access.line)
    return both


def _points(access: Access, threads: Sequence[str]) -> dict[str, Any]:
    """Each variable along a dimension of its own."""
    names = {a.name for p in (*access.index, *access.slot) for a in p.atoms() if a.kind == "var"}
    names |= set(threads)
    spans = {}
    for name in sorted(names):
        low, high = access.context.ranges.get(name, (None, None))
        if low is None or high is None:
            raise UnreadError(f"a place of a thread's own array depends on {name}", access.line)
        spans[name] = np.arange(low, high + 1)
    if prod(len(v) for v in spans.values()) > MOST:
        raise UnreadError("too many places of a thread's own array", access.line)
    return dict(zip(spans, np.ix_(*spans.values()), strict=True)) if spans else {}


def evaluated(p: Poly, points: Mapping[str, Any]) -> Any:
    """The polynomial's value at all points. Raises UnreadError for what is read from memory."""
    out: Any = np.zeros((1,) * max(1, len(points)), dtype=np.int64)
    for m, c in p.terms.items():
        term: Any = np.int64(c)
        for a in m:
            term = term * _atom(a, points)
        out = out + term
    return out


def _atom(a: Any, points: Mapping[str, Any]) -> Any:
    if a.name in points:
        return points[a.name]
    of = [evaluated(p, points) for p in a.of]
    match a.kind:
        case "floor":
            return of[0] // of[1]
        case "trunc":
            return np.sign(of[0]) * (np.abs(of[0]) // of[1])
        case "min":
            return np.minimum(*of)
        case "max":
            return np.maximum(*of)
        case "xor":
            return of[0] ^ of[1]
        case _:
            raise UnreadError(f"a place depends on {a.name}")
