"""Which elements of an array a kernel touches for sure: what an array may be taken to hold.

An array has as many elements as the farthest one that the kernel touches needs, at the sizes and for some of
the contents that it is given. That the last element of a shape is touched is a question about all sizes at
which any is, which isl answers; what it cannot express shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evolve.frontend.dense import merged, reaches
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial
from evolve.frontend.prove import Known, nonnegative
from evolve.frontend.words import DATA, UnknownError, Words
from evolve.ir.expr import Binary, BinaryOp, index
from evolve.ir.types import DType

_SHORT = 16
"""How many elements the last row may go on behind the last one that is touched, as those of a stencil do."""


T = TypeVar("T")


@dataclass(frozen=True)
class Touch:
    """One access: its subscripts, what is known where it happens, and what the kernel computes itself."""

    subs: tuple[Poly, ...]
    known: Known
    written: frozenset[str] = frozenset()


def shows_all(touches: Sequence[Touch], extents: Sequence[Poly]) -> bool:
    """Whether at all sizes at which an element is touched, the last of an array of these extents is."""
    if len(extents) > 1:
        return bool(_answer(_Question(touches, extents).last_is_touched))
    always = set.intersection(*({e for _, e in t.known.loops} for t in touches))
    given = tuple(e - ONE for e in always)
    if any(reaches(t.subs[0], t.known, extents[0] - ONE, given) for t in touches):
        return True
    one = []
    for t in touches:
        flat, known = merged(t.subs[0], t.known)
        one.append(Touch((flat,), known, t.written))
    return bool(_answer(_Question(one, extents).last_is_touched))


def shows_rows(touches: Sequence[Touch], extents: Sequence[Poly]) -> bool:
    """Whether each access touches a box, and the last row, as long as a size says, is touched but for a few
    elements: a five-point stencil leaves out its corners, and every second element of the rows that an
    array divides may not be the last."""
    known = touches[0].known
    divided = any(extents[0] == dict(known.values).get(name) for name, _ in known.ordered)
    if (len(extents) == 1 and not divided) or extents[-1].constant is not None:
        return False
    return bool(_answer(_Question(touches, extents).rows_are_touched))


def are_boxes(touches: Sequence[Touch], extents: Sequence[Poly]) -> bool:
    """Whether no condition of an access makes one subscript's end depend on another subscript."""
    return bool(_answer(_Question(touches, extents).boxes_are_touched))


def are_always(touches: Sequence[Touch]) -> bool:
    """Whether at all sizes some element is touched."""
    return bool(_answer(_Question(touches, ()).some_are_touched))


def farthest(touches: Sequence[Touch]) -> Poly | None:
    """The largest first subscript that is touched, if one term of the sizes says it."""
    return _answer(_Question(touches, ()).largest)


def _answer(question: Callable[[], T]) -> T | None:
    from evolve.ir.poly import IslLimitError, limited

    try:
        with limited():
            return question()
    except IslLimitError:
        return None


@dataclass(frozen=True)
class _Told:
    """An access in isl's words; `domain` is None where it has none."""

    domain: str | None
    subs: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()


class _Question:
    """The accesses to one array, in isl's words."""

    def __init__(self, touches: Sequence[Touch], extents: Sequence[Poly]) -> None:
        self._plain = touches[0].known.scalars
        self._params: dict[str, Poly] = {}
        self._told = [self._tell(t) for t in touches]
        words = Words(self._plain, self._params)
        self._ends = [f"{words.affine(e)} - 1" for e in extents]

    def _tell(self, t: Touch) -> _Told:
        words = Words(t.known, self._params, t.written)
        try:
            domain = words.domain()
            subs = tuple(words.affine(p) for p in t.subs)
        except UnknownError:
            return _Told(None)
        return _Told(" and ".join([domain, *words.bounds]), subs, tuple(words.dims.values()))

    def last_is_touched(self) -> bool:
        return self._always([f"{{s}}{k} = {end}" for k, end in enumerate(self._ends)])

    def some_are_touched(self) -> bool:
        return bool(self._set("", "0 = 0").is_subset(self._where([])))

    def boxes_are_touched(self) -> bool:
        return all(self._is_box(t) for t in self._told)

    def rows_are_touched(self) -> bool:
        if not self.boxes_are_touched():
            return False
        last = len(self._ends) - 1
        in_order = [f"{{s}}{k} = {end}" for k, end in enumerate(self._ends)]
        near = f"{{s}}{last} >= {self._ends[last]} - {_SHORT}"
        return self._always([*in_order[:last], near])

    def largest(self) -> Poly | None:
        if not all(t.domain for t in self._told):
            return None
        found = self._set("s0", "1 = 0")
        for text in dict.fromkeys(self._exists(t, ["s0 = {s}0"]) for t in self._told):
            found = found.union(self._set("s0", text))
        pieces = found.coalesce().dim_max(0).coalesce().get_pieces()
        if len(pieces) != 1 or self._is_data(str(pieces[0][1])):
            return None
        return self._polynomial(pieces[0][1])

    def _is_data(self, text: str) -> bool:
        """Whether a value depends on a parameter that is no size."""
        names = (f"p{k}" for k, key in enumerate(self._params) if key.startswith(DATA))
        return any(re.search(rf"\b{name}\b", text.split("->")[-1]) for name in names)

    def _polynomial(self, a: Any) -> Poly:
        """The floor of a quotient of sizes."""
        import islpy as isl

        whole = a.get_denominator_val().to_python()
        total = constant((a.get_constant_val() * a.get_denominator_val()).to_python())
        for kind in (isl.dim_type.param, isl.dim_type.div):
            for k in range(a.dim(kind)):
                times = (a.get_coefficient_val(kind, k) * a.get_denominator_val()).to_python()
                if not times:
                    continue
                named = kind == isl.dim_type.param
                term = self._named(a.get_dim_name(kind, k)) if named else self._polynomial(a.get_div(k))
                total = total + constant(times) * term
        if whole == 1:
            return total
        return polynomial(Binary(BinaryOp.FLOORDIV, expression(total), index(whole), DType.INDEX))

    def _named(self, name: str) -> Poly:
        return list(self._params.values())[int(name[1:])]

    def _always(self, where: list[str]) -> bool:
        """Whether at all sizes with an access, there is one where these hold of the subscripts."""
        return bool(self._asked().is_subset(self._where(where)))

    def _asked(self) -> Any:
        """The sizes at which there may be an access."""
        return self._where([]) if all(t.domain for t in self._told) else self._set("", "0 = 0")

    def _where(self, where: list[str]) -> Any:
        """The sizes at which there is an access where these hold of the subscripts."""
        out = self._set("", "1 = 0")
        for text in dict.fromkeys(self._exists(t, where) for t in self._told if t.domain):
            out = out.union(self._set("", text))
        return out.coalesce()

    def _is_box(self, t: _Told) -> bool:
        if t.domain is None:
            return False
        names = [f"s{k}" for k in range(len(t.subs))]
        frame = ", ".join(names)
        each = [self._set(frame, self._exists(t, [f"{n} = {{s}}{k}"])) for k, n in enumerate(names)]
        hull = each[0]
        for x in each[1:]:
            hull = hull.intersect(x)
        all_at_once = [f"{n} = {{s}}{k}" for k, n in enumerate(names)]
        return bool(hull.is_subset(self._set(frame, self._exists(t, all_at_once))))

    @staticmethod
    def _exists(t: _Told, where: Sequence[str]) -> str:
        text = " and ".join([str(t.domain), *where])
        for k, sub in reversed(list(enumerate(t.subs))):
            text = text.replace(f"{{s}}{k}", sub)
        return f"exists ({', '.join(t.dims)} : {text})" if t.dims else text

    def _set(self, frame: str, text: str) -> Any:
        import islpy as isl

        from evolve.ir.poly import context

        lows = [self._least(p) for p in self._params.values()]
        known = [f"p{k} >= {low}" for k, low in enumerate(lows) if low >= 0]
        names = ", ".join(f"p{k}" for k in range(len(lows)))
        body = " and ".join([*known, f"({text})"])
        return isl.Set.read_from_str(context(), f"[{names}] -> {{ [{frame}] : {body} }}")

    def _least(self, p: Poly) -> int:
        """1, 0, or -1 where the term may be anything."""
        if nonnegative(p - ONE, self._plain):
            return 1
        return 0 if nonnegative(p, self._plain) else -1
