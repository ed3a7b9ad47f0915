"""Numbers at which two sides differ: without them nothing that is computed is called a difference.

isl proposes a point: sizes and indices that all that is known allows. What it has no word for it may put
at any number, so the point is computed in plain integers, and what such parts are made of is fixed until
it is right. Conditions on data are taken to be met, as some contents do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import islpy as isl

from evolve.ir.kernel import Scalar
from evolve.ir.poly import IslLimitError, context, limited
from evolve.validation.context import Context, Text
from evolve.validation.evaluation import NoNumberError, is_true, settled, with_numbers
from evolve.validation.formula import (
    TRUE,
    Compare,
    Every,
    Formula,
    Some,
    at_least,
    atoms,
    below,
    equal,
    is_opaque,
    negation,
)
from evolve.validation.polynomial import Atom, Poly, atom, constant, variable
from evolve.validation.verdict import DifferenceError, UnreadError

GROWING = 6
"""Tries of which each has larger sizes than the one before."""
TRIES = GROWING + 3
ROUNDS = 24
"""Questions to isl in one."""
OPERATIONS = 200_000


class _NoPointError(Exception):
    """Nothing of this try is a point."""


@dataclass(frozen=True)
class Witness:
    """A value for each variable and each element that is read, by the atom's name."""

    values: Mapping[str, int]

    def of(self, p: Poly) -> int:
        """The value of what is made of them."""
        value = settled(p, self.values).value
        assert value is not None
        return value

    def at(self, f: Formula | None = None) -> str:
        """`, at rows = 5, thread.x = 3`: the sizes, elements, and what a condition is about, else all."""
        names = self.values if f is None else {a.name for a in atoms(f)}
        here = [(_plain(x), v) for x, v in sorted(self.values.items()) if x in names or "." not in x]
        return f", at {', '.join(f'{x} = {v}' for x, v in here)}" if here else ""


def witness(ctx: Context, f: Formula = TRUE) -> Witness | None:
    """A point at which all holds that is known here, and `f`; None where none is found.

    Nor is one where a question was too hard before, as the items that are compared may be others.
    """
    if is_opaque(f) or ctx.known.exceeded:
        return None
    facts = [x for x in (*ctx.facts, *ctx.asked) if not is_opaque(x)]
    for n in range(TRIES):
        try:
            return Witness(_Try(ctx, (f, *facts)).point(n))
        except (_NoPointError, NoNumberError, IslLimitError):
            continue
    return None


def within_types(sizes: Iterable[Scalar]) -> tuple[Formula, ...]:
    """That sizes are numbers of their types."""
    spans = [(variable(s.name), s.dtype.limits) for s in sizes if s.is_size]
    return tuple(
        f for x, (low, high) in spans for f in (at_least(x, constant(low)), at_least(constant(high), x))
    )


def unequal(
    ctx: Context, p: Poly, q: Poly, reason: str, line: int = 0, where: Formula = TRUE
) -> DifferenceError | UnreadError:
    """What to raise where the text's number is not shown to be the kernel's; it need be only `where`."""
    # What stands on both sides is given a number too.
    both = (Some((at_least(x, constant(0)), below(x, constant(0)))) for x in (p, q))
    differ = Every((negation(equal(p, q)), where, *both))
    found = witness(ctx, differ)
    if found is None:
        return unshown(ctx, reason, line)
    values = f"{found.of(p)} in the text, {found.of(q)} in the kernel"
    return DifferenceError(f"{reason}{found.at(differ)}: {values}", line)


def happens(ctx: Context, f: Formula, reason: str, line: int = 0) -> DifferenceError | UnreadError:
    """What to raise where it is not shown that a condition never holds, which would be a difference."""
    found = witness(ctx, f)
    return unshown(ctx, reason, line) if found is None else DifferenceError(f"{reason}{found.at(f)}", line)


def unshown(ctx: Context, reason: str, line: int = 0) -> UnreadError:
    """What is neither shown nor refuted."""
    hard = ctx.known.exceeded
    return UnreadError(
        f"a question was too hard: {reason}?" if hard else f"cannot be shown equal: {reason}", line
    )


def _plain(name: str) -> str:
    """Loop variables without their number, elements as they are written."""
    if name.startswith("read"):
        return name.removeprefix("read").replace("(", "[").replace(")", "]")
    first, _, last = name.rpartition(".")
    return first if first and last.isdecimal() else name


class _Try:
    """One try: formulas, of which more and more is fixed."""

    def __init__(self, ctx: Context, formulas: Sequence[Formula]) -> None:
        self.ctx = ctx
        self.formulas = formulas
        self.unlimited: set[str] = set()
        self.left = ROUNDS

    def point(self, n: int) -> dict[str, int]:
        """Raises _NoPointError."""
        self.random = Random(n)
        return self._from((*self.formulas, *self._hints(self.random, n)), {})

    def _from(self, formulas: Sequence[Formula], fixed: Mapping[str, int]) -> dict[str, int]:
        """A point at which these are fixed."""
        self.left -= 1
        if self.left < 0:
            raise _NoPointError
        parts = [with_numbers(f, fixed) for f in formulas]
        proposed = self._proposed(parts, fixed)
        found = self._checked(proposed)
        if found is not None:
            return found
        stubborn = sorted({a.name for f in parts for a in _stubborn(f)})
        sizes = [x for x in stubborn if _is_size(x)]
        # What is a product of sizes is of one of them when the others are known.
        capped = [x for x in sizes if x not in self.unlimited] or sizes
        x = self.random.choice(capped) if capped else next(iter(stubborn), "")
        for value in self._choices(x, proposed[x]) if x else ():
            try:
                return self._from(formulas, {**fixed, x: value})
            except (_NoPointError, NoNumberError):
                continue
        raise _NoPointError

    def _choices(self, name: str, proposed: int) -> Iterable[int]:
        """Values for a variable: isl's, which tends to be the last or the first, small ones, and any."""
        low, high = self.ctx.ranges.get(name, (None, None))
        if low is None or _is_size(name):
            return (proposed,)
        most = low + 63 if high is None else high
        others = [*range(low, min(low + 4, most + 1)), *(self.random.randint(low, most) for _ in range(3))]
        return dict.fromkeys((proposed, *others))

    def _hints(self, random: Random, n: int) -> list[Formula]:
        """Sizes that are neither too small nor larger than they need be."""
        names = {a.name for f in self.formulas for a in atoms(f) if a.kind == "var"}
        out: list[Formula] = []
        for i, x in enumerate(sorted(filter(_is_size, names))):
            # In the last tries one size may be anything, in turn.
            most = 8 ** (n + 1) * 2 if n < GROWING else 1024
            least = int(2 ** random.uniform(0, 3 * n)) if n < GROWING else 1
            out.append(at_least(variable(x), constant(0 if n == 1 else least)))
            if n >= GROWING and (n + i) % 3 == 0:
                self.unlimited.add(x)
            else:
                out.append(at_least(constant(most), variable(x)))
        return out

    def _proposed(self, parts: Sequence[Formula], fixed: Mapping[str, int]) -> dict[str, int]:
        """What isl finds. Raises _NoPointError where there is nothing."""
        text = Text(self.ctx)
        known = [equal(variable(x), constant(v)) for x, v in fixed.items() if "(" not in x]
        wanted = (*parts, *known, *self._ordered(parts, fixed))
        body = " and ".join(f"({text.formula(x)})" for x in wanted)
        for a in sorted(set().union(*map(_stubborn, parts)), key=lambda a: a.name):
            text.atom(a)  # Be it only in what isl has no word for.
        names = list(text.names)
        whole = f"{{ [{', '.join(text.names.values())}] : {' and '.join([body, *text.extra])} }}"
        with limited(OPERATIONS):
            point = isl.Set.read_from_str(context(), whole).sample_point()
            if point.is_void():
                raise _NoPointError
            out = {
                x: int(point.get_coordinate_val(isl.dim_type.set, i).to_python()) for i, x in enumerate(names)
            }
        return {**out, **fixed}

    def _ordered(self, parts: Sequence[Formula], fixed: Mapping[str, int]) -> list[Formula]:
        """Of an array in order the first element is the least, the last the greatest."""
        out: list[Formula] = []
        for label, last in self.ctx.ordered.items():
            low, high = self.ctx.reads[label]
            end = settled(last, fixed).value
            reads = {a for f in parts for a in atoms(f) if a.kind == "read" and a.label == label}
            placed = {a.of[0].value: atom(a) for a in reads}
            at = sorted(i for i in placed if i is not None)
            out += [at_least(placed[j], placed[i]) for i, j in pairwise(at)]
            out += [equal(placed[i], low) for i in at if i == 0]
            out += [equal(placed[i], high.plus(-1)) for i in at if i == end]
        return out

    def _checked(self, proposed: Mapping[str, int]) -> dict[str, int] | None:
        """What was proposed, by variables and by elements, if all of it is so in plain integers."""
        values = {x: v for x, v in proposed.items() if not {"(", "*"} & set(x)}
        elements: dict[tuple[str, int], int] = {}
        reads = {a for f in self.formulas for a in atoms(f) if a.kind == "read"}
        for a in sorted(reads, key=lambda a: len(a.name)):  # What an element depends on has a shorter name.
            at = settled(a.of[0], values).value
            if at is None:
                return None
            name = Atom("read", a.label, (constant(at),)).name
            value = proposed.get(name, proposed.get(a.name))
            if value is None or elements.setdefault((a.label, at), value) != value:
                return None
            values[name] = value
        right = all(is_true(with_numbers(f, values)) for f in self.formulas)
        return values if right and self._is_possible(values, elements) else None

    def _is_possible(self, values: Mapping[str, int], elements: Mapping[tuple[str, int], int]) -> bool:
        """Whether all is in its range, and arrays are in order."""
        for x in values.keys() & self.ctx.ranges.keys():
            low, high = self.ctx.ranges[x]
            if (low is not None and values[x] < low) or (high is not None and values[x] > high):
                return False
        for label, (low_, high_) in self.ctx.reads.items():
            least, most = (settled(p, values).value for p in (low_, high_))
            at = {i: v for (x, i), v in sorted(elements.items()) if x == label}
            if at and (
                least is None or most is None or not least <= min(at.values()) <= max(at.values()) < most
            ):
                return False
            if label in self.ctx.ordered and at:
                end = settled(self.ctx.ordered[label], values).value
                right = list(at.values()) == sorted(at.values()) and at.get(0, least) == least
                if not right or end is None or max(at) > end or (end in at and at[end] + 1 != most):
                    return False
        return True


def _is_size(name: str) -> bool:
    """Loop variables, threads and blocks have a point in their names, elements a bracket."""
    return not {".", "(", "*"} & set(name)


def _stubborn(f: Formula) -> set[Atom]:
    """Variables, and elements of known number, that go into what isl has no word for."""
    if isinstance(f, Every | Some):
        return set().union(*map(_stubborn, f.of))
    return _within(f.poly, False) if isinstance(f, Compare) else set()


def _within(p: Poly, inside: bool) -> set[Atom]:
    out: set[Atom] = set()
    for m in p.terms:
        for a in m:
            here = inside or len(m) > 1
            plain = a.kind == "var" or (a.kind == "read" and a.of[0].value is not None)
            if plain:
                out |= {a} if here else set()
                continue
            affine = a.kind in ("min", "max") or (a.kind in ("floor", "trunc") and a.of[1].value is not None)
            for q in a.of:
                out |= _within(q, here or not affine)
    return out
