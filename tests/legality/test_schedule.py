"""Shortened times order instances as the whole ones do."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from evolve.legality.instances import Moment
from evolve.legality.schedule import is_later, shortened

TRIPS = 3


def times_of_a_text(rng: Random, depth: int = 0, prefix: Moment = ()) -> list[Moment]:
    """Of the statements of a random nest of sequential loops."""
    out: list[Moment] = []
    for place in range(1, rng.randint(2, 4)):
        here = (*prefix, 2 * place)
        if depth < 2 and rng.random() < 0.5:
            out += times_of_a_text(rng, depth + 1, (*here, f"i{len(prefix)}_{place}"))
        else:
            out.append(here)
    return out


def padded(time: Moment, length: int) -> Moment:
    return (*time, *(0,) * (length - len(time)))


def instances(time: Moment) -> list[dict[str, int]]:
    loops = [x for x in time if isinstance(x, str)]
    return [dict(zip(loops, at, strict=True)) for at in product(range(TRIPS), repeat=len(loops))]


def value(time: Moment, at: dict[str, int]) -> tuple[int, ...]:
    return tuple(at[x] if isinstance(x, str) else x for x in time)


def sign(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return (a > b) - (a < b)


@pytest.mark.parametrize("seed", range(40))
def test_they_order_alike(seed: int) -> None:
    """With a reader and a writer in one place told apart by what they end in, as `flow` asks."""
    rng = Random(seed)
    times = times_of_a_text(rng)
    long = max(map(len, times))
    chosen = [(*padded(t, long), 1) for t in times] + [(*padded(rng.choice(times), long), 0)]
    short = shortened(chosen)
    assert len({len(t) for t in short}) == 1 and len(short[0]) <= long + 1
    for (a, x), (b, y) in product(zip(chosen, short, strict=True), repeat=2):
        for one, two in product(instances(a), instances(b)):
            assert sign(value(x, one), value(y, two)) == sign(value(a, one), value(b, two))
            assert not is_later(a, b) or value(a, one) > value(b, two)


def test_what_says_nothing_is_left_out() -> None:
    assert shortened([(4, "i", 2, "j", 2, 0), (4, "i", 2, "j", 2, 1)]) == [("i", "j", 0), ("i", "j", 1)]
    assert shortened([(4, "i", 2, 1), (8, 0, 0, 0)]) == [(0, "i"), (1, 0)]
    assert shortened([(2, 1)]) == [()]


def test_loops_where_others_have_numbers_stay() -> None:
    assert shortened([(4, "i", 6, 1), (4, 0, 6, 1)]) == [("i", 6, 1), (0, 6, 1)]


def test_a_common_loop_leaves_it_open() -> None:
    assert not is_later((4, "i", 8), (4, "i", 2))
    assert is_later((8, "i", 2), (4, "i", 8))
    assert not is_later((4,), (4, "i", 2))
