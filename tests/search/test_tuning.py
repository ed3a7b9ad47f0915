"""The tuner: coordinate descent as a pure function of what was tried."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from evolve.agents.holes import read_template
from evolve.search.tuning import MAX_FRUITLESS, MAX_SCORED, Filling, Tried, Wait, next_filling


def drive(
    text: str, fitness: Callable[[Filling], float | None], best_known: float = 0.0
) -> dict[Filling, Tried]:
    """Tunes to the end, answering at once; None is an illegal filling."""
    template = read_template(text)
    tried: dict[Filling, Tried] = {}
    while not isinstance(filling := next_filling(template, tried, best_known), Wait):
        assert filling not in tried
        value = fitness(filling)
        tried[filling] = Tried(value or 0.0, scored=value is not None)
        best_known = max(best_known, value or 0.0)
    assert filling is Wait.DONE
    return tried


def test_it_starts_with_the_first_choices_and_finds_a_separable_optimum() -> None:
    best = (2, 0, 1)
    tried = drive(
        "split(c, ?[8, 16, 32])\nsplit(d, ?[1, 2, 3])\nvectorize(e, ?[1, 4])\n",
        lambda filling: 1 - sum(abs(a - b) for a, b in zip(filling, best, strict=True)) / 10,
    )
    assert next(iter(tried)) == (0, 0, 0)
    assert max(tried, key=lambda filling: tried[filling].fitness or 0) == best
    assert len(tried) < 3 * 3 * 2


def test_it_climbs_over_several_passes() -> None:
    def ridge(filling: Filling) -> float:
        a, b = filling
        return (a + b - 3 * abs(a - b) + 10) / 20

    tried = drive("f(?[0, 1, 2, 3], ?[0, 1, 2, 3])\n", ridge)
    assert max(t.fitness or 0 for t in tried.values()) >= ridge((0, 0))


def test_illegal_fillings_are_stepped_over() -> None:
    tried = drive("f(?[1, 2, 4])\n", lambda filling: 0.5 if filling == (2,) else None)
    assert tried[(2,)].scored and len(tried) == 3


def test_it_gives_up_when_nothing_is_legal_or_all_is_far_behind() -> None:
    text = "".join(f"f(?[{', '.join(map(str, range(9)))}])\n" for _ in range(4))
    assert len(drive(text, lambda filling: None)) == MAX_FRUITLESS
    assert len(drive(text, lambda filling: 0.1, best_known=0.9)) == 3
    assert len(drive(text, lambda filling: 0.1 + 0.01 * sum(filling))) == MAX_SCORED


def test_it_waits_for_results_only_when_it_needs_them() -> None:
    template = read_template("f(?[1, 2, 3], ?[1, 2])\n")
    tried: dict[Filling, Tried] = {}
    issued = []
    while not isinstance(filling := next_filling(template, tried, 0.0), Wait):
        tried[filling] = Tried(None)
        issued.append(filling)
    assert filling is Wait.RESULTS
    assert issued == [(0, 0), (1, 0), (2, 0)], "one hole's choices can run side by side"


def test_it_is_a_function_of_what_was_tried_not_of_the_order() -> None:
    tried = drive("f(?[1, 2, 3], ?[1, 2])\n", lambda filling: sum(filling) / 10)
    shuffled = dict(sorted(tried.items(), reverse=True))
    template = read_template("f(?[1, 2, 3], ?[1, 2])\n")
    assert next_filling(template, shuffled, 1.0) == next_filling(template, tried, 1.0) == Wait.DONE
    for gone in product(range(3), range(2)):
        less = {filling: one for filling, one in shuffled.items() if filling != gone}
        if gone in tried and gone != (0, 0):
            assert isinstance(next_filling(template, less, 0.0), tuple | Wait)


@pytest.mark.parametrize("text", ["split(c, 4)\n", ""])
def test_a_program_without_holes_is_one_filling(text: str) -> None:
    assert list(drive(text, lambda filling: 1.0)) == [()]
