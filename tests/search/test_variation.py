"""Mutation and crossover of programs."""

from __future__ import annotations

import pytest

from evolve.population.archive import Elite
from evolve.population.rng import stream
from evolve.search import variation
from evolve.search.variation import MUTATIONS, cross, mutate, statements

PROGRAM = "# head\nco, ci = split(c0, 64)\nbind(co, grid.x)  # 12\n\nvectorize(ci, 4)\n"
LINES = ["co, ci = split(c0, 64)", "bind(co, grid.x)  # 12", "vectorize(ci, 4)"]


def elite(program: str, proposal: int = 1) -> Elite:
    return Elite(proposal, program, 0.5, 2.0, ())


def test_statements_leave_comments_and_blank_lines_out() -> None:
    assert statements(PROGRAM) == LINES


@pytest.mark.parametrize("number", range(20))
def test_each_operator_changes_what_it_says(number: int) -> None:
    rng = stream(0, "test", number)
    deleted = variation.delete(LINES, rng)
    assert deleted is not None and len(deleted) == 2 and all(line in LINES for line in deleted)
    cut = variation.truncate(LINES, rng)
    assert cut in (LINES[:1], LINES[:2])
    swapped = variation.swap(LINES, rng)
    assert swapped is not None and sorted(swapped) == sorted(LINES) and swapped != LINES
    changed = variation.renumber(LINES, rng)
    assert changed is not None and next(a for a, b in zip(changed, LINES, strict=True) if a != b) in (
        "co, ci = split(c0, 128)",
        "co, ci = split(c0, 32)",
        "vectorize(ci, 8)",
        "vectorize(ci, 2)",
    )
    opened = variation.reopen(LINES, rng)
    assert opened is not None and next(a for a, b in zip(opened, LINES, strict=True) if a != b) in (
        "co, ci = split(c0, ?[64, 128, 32, 256, 16])",
        "vectorize(ci, ?[4, 8, 2, 16, 1])",
    )


def test_operators_that_do_not_apply_say_so() -> None:
    rng = stream(0, "test", 0)
    assert all(operator([], rng) is None for _, operator, _ in MUTATIONS)
    assert variation.renumber(["unroll(k)"], rng) is None


def test_mutate_uses_every_operator_and_names_the_parent() -> None:
    kinds = set()
    for number in range(300):
        child = mutate(elite(PROGRAM, 9), lambda text: ["unroll(k)"], stream(0, "test", number))
        kinds.add(child.operator)
        assert child.parents == (9,)
        if child.operator == "append":
            assert statements(child.text) == [*LINES, "unroll(k)"]
    assert kinds == {name for name, *_ in MUTATIONS}


def test_the_baseline_can_be_mutated() -> None:
    child = mutate(elite("", 0), lambda text: ["unroll(k)"], stream(0, "test", 1))
    assert child.text == "unroll(k)\n"


def test_cross_mixes_statements_of_both_in_their_order() -> None:
    left, right = "a(1)\nb(2)\nc(3)\n", "d(4)\ne(5)\n"
    kinds = set()
    for number in range(200):
        child = cross(elite(left, 1), elite(right, 2), stream(0, "test", number))
        kinds.add(child.operator)
        assert child.parents == (1, 2)
        lines = statements(child.text)
        for parent in (left, right):
            of_parent = [line for line in lines if line in parent]
            assert of_parent == [line for line in statements(parent) if line in of_parent]
    assert kinds == {"insert", "splice"}
