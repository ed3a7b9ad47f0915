"""Index expressions in one form: whatever is done to them, their value stays."""

from __future__ import annotations

import random

import pytest

from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import Compare, Every, Opaque, Some, at_least, below, equal, negation
from evolve.validation.places import Access, Places, evaluated
from evolve.validation.polynomial import (
    Poly,
    bounds,
    constant,
    exclusive_or,
    extreme,
    floor,
    variable,
)
from evolve.validation.verdict import DifferenceError
from evolve.validation.widths import Widths

RANGES = {"i": (0, 7), "j": (0, 31), "k": (-5, 3)}


def drawn(rng: random.Random, depth: int) -> tuple[Poly, str]:
    """An expression, and the same in Python."""
    if depth == 0:
        name = rng.choice("ijk")
        return (variable(name), name) if rng.random() < 0.8 else (constant(4), "4")
    (p, a), (q, b) = drawn(rng, depth - 1), drawn(rng, depth - 1)
    n = rng.choice((2, 3, 4, 8, 12))
    what = rng.randrange(7)
    if what == 0:
        return p + q, f"({a} + {b})"
    if what == 1:
        return p - q.scale(n), f"({a} - {n} * {b})"
    if what == 2:
        return p * q, f"({a} * {b})"
    if what == 3:
        return floor(p, constant(n), RANGES), f"({a} // {n})"
    if what == 4:
        return p - floor(p, constant(n), RANGES).scale(n), f"({a} % {n})"
    if what == 5:
        return extreme("min", p, q, RANGES), f"min({a}, {b})"
    low = variable("i")
    return exclusive_or(low.scale(4) + constant(1), variable("j"), RANGES), "((4 * i + 1) ^ j)"


def test_forms_keep_values_and_bounds() -> None:
    rng = random.Random(5)
    for _ in range(400):
        p, text = drawn(rng, 3)
        low, high = bounds(p, RANGES)
        for _ in range(12):
            at = {n: rng.randint(*r) for n, r in RANGES.items()}
            value = int(evaluated(p, at).item())
            assert value == eval(text, {"min": min}, at), text
            assert (low is None or low <= value) and (high is None or value <= high)


def test_what_holds_is_known_and_nothing_else() -> None:
    n, i = variable("n"), variable("i")
    place = Context({"n": (1, None), "i": (0, None)}).given(
        below(i, floor(n, constant(4), {})), equal(n - floor(n, constant(4), {}).scale(4), constant(0))
    )
    assert place.holds(below(i.scale(4).plus(3), n))
    assert not place.holds(below(i.scale(4).plus(4), n))
    assert not place.excludes(equal(i.scale(4).plus(4), n))
    assert place.excludes(equal(i.scale(4).plus(5), n))
    assert not place.holds(Opaque()) and not place.excludes(Opaque())
    assert not place.given(Opaque()).holds(Opaque())
    assert not place.given(Some((Opaque(), below(n, i)))).holds(Some((Opaque(), below(n, i))))
    assert place.given(at_least(i, n)).is_empty


def test_division_is_c() -> None:
    i = variable("i")
    place = Context({"i": (-3, 3)})
    assert place.quotient(i, constant(2)) != floor(i, constant(2), place.ranges)
    assert place.given(at_least(i, constant(0))).same(
        place.quotient(i, constant(2)), floor(i, constant(2), {})
    )
    assert not place.same(place.quotient(i, constant(2)), floor(i, constant(2), {}))
    for value in range(-3, 4):
        here = place.given(equal(i, constant(value)))
        assert here.same(place.quotient(i, constant(2)), constant(int(value / 2)))


def test_products_of_sizes_may_be_anything() -> None:
    n, m = variable("n"), variable("m")
    place = Context({"n": (1, None), "m": (1, None)})
    assert place.holds(at_least(n * m, constant(1)))
    assert not place.holds(at_least(n * m, n))
    assert place.holds(negation(Every((equal(n, constant(0)), Compare(m, "!=")))))


def at(index: Poly, slot: Poly) -> Access:
    return Access((index,), (slot,), Context({"thread.x": (0, 7), "i": (0, 3)}), 1)


def test_each_thread_has_one_place_for_each_element() -> None:
    t, i = variable("thread.x"), variable("i")
    good = at(t.scale(4) + i, i)
    for others, fails in (
        ([good, at(t.scale(4), constant(0))], False),
        ([good, at(t.scale(4), constant(1))], True),  # looked for elsewhere
        ([good, at(t.scale(4) + i, i.plus(1))], True),  # beyond the array
        ([at(t.scale(4) + i, floor(i, constant(2), {}))], True),  # two in one place
        ([at(i.scale(8) + t, i)], False),  # another way to share out, alone
        ([good, at(i.scale(8) + t, i)], True),
    ):
        places = Places()
        for access in others:
            places.add(("r", 1), access, (32,), (4,))
        if fails:
            with pytest.raises(DifferenceError):
                places.check()
        else:
            places.check()


def test_what_fits_32_bits_follows_from_what_the_launch_asks() -> None:
    n, m, i, j = (variable(x) for x in "nmij")
    ranges = {"n": (1, None), "m": (1, None), "i": (0, None), "j": (0, None)}
    most = 2**31 - 1
    names = frozenset("nm")

    def fits(p: Poly, *asked: tuple[Poly, int], dtype: DType = DType.I32, narrow: bool = True) -> bool:
        known = Widths(names, names if narrow else frozenset(), extents={"i": n, "j": m}, asked=asked)
        return known.fits(p, ranges, dtype)

    cells = (n * m, most + 1)
    assert fits(i * m + j, cells)  # at most n m - 1
    assert not fits(i * m + j, (n * m, most + 2))
    assert not fits(i * m + j)
    assert not fits(i * m + j + m, cells)
    assert fits(i * m + j + m, (n * m + m, most + 1))
    assert fits(i.plus(1)) and not fits(i.plus(2)) and not fits(i.plus(1), narrow=False)
    assert fits(n + m, (n * m + m, most)) and not fits(n + m + m, (n * m + m, most))
    assert fits(i.scale(4), (n, (most + 4) // 4)) and not fits(i.scale(4), (n, most))
    assert fits(i.scale(-1)) and not fits(i.scale(-2))
    assert fits(i.scale(2), dtype=DType.U32) and not fits(i.scale(3), dtype=DType.U32)
    assert fits(floor(i.scale(3), constant(4), ranges)) and fits(i - j) and not fits(i - j.scale(2))
