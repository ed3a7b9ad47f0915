"""Each mutation changes what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from evolve.dsl.parser import parse
from evolve.dsl.program import Statement
from evolve.population.rng import stream
from evolve.search import mutation
from evolve.search.outline import Number

Statements = tuple[Statement, ...]
OPERATORS = (mutation.renumber, mutation.reopen, mutation.rechoose, mutation.permute, mutation.delete)


def drafts(
    operator: Callable[[Statements, Random], Iterator[Statements]], text: str, count: int = 200
) -> set[str]:
    """The first drafts of many draws."""
    program = parse(text).statements
    found = set()
    for number in range(count):
        for draft in operator(program, stream(0, "test", number)):
            found.add("; ".join(map(str, draft)))
            break
    return found


@pytest.mark.parametrize(
    ("value", "minimum", "expected"),
    [(64, 2, [128, 32, 256, 16]), (2, 2, [4, 8]), (6, 2, [12, 3, 24]), (0, 0, [1, 2, 4]), (1, 0, [2, 4, 0])],
)
def test_neighbours_are_powers_of_two_away_and_not_the_value(
    value: int, minimum: int, expected: list[int]
) -> None:
    assert mutation.neighbours(Number(0, "factor", None, value, minimum)) == expected


def test_equal_numbers_change_together_by_primitive_or_alone() -> None:
    found = drafts(mutation.renumber, "split(c, 4)\nsplit(d, 4)\nvectorize(d.i, 4)")
    assert {
        "split(c, 8); split(d, 8); vectorize(d.i, 8)",
        "split(c, 2); split(d, 2); vectorize(d.i, 4)",
        "split(c, 2); split(d, 4); vectorize(d.i, 4)",
    } <= found


def test_factors_of_one_loop_are_balanced() -> None:
    found = drafts(mutation.renumber, "split(j, 128)\nsplit(j.o, 4)\nsplit(i, 32)")
    assert {
        "split(j, 256); split(j.o, 2); split(i, 32)",
        "split(j, 64); split(j.o, 8); split(i, 32)",
    } <= found
    assert not any("split(j, 256)" in one and "split(i, 16)" in one for one in found)


def test_a_larger_number_may_ask_for_more_divisibility() -> None:
    program = parse("specialize(n % 64 == 0)\nsplit(i, 64)").statements
    pairs = {
        tuple("; ".join(map(str, d)) for d in mutation.renumber(program, stream(0, "test", n)))
        for n in range(50)
    }
    assert ("specialize(n % 64 == 0); split(i, 128)", "specialize(n % 128 == 0); split(i, 128)") in pairs
    assert ("specialize(n % 64 == 0); split(i, 32)",) in pairs


def test_a_reopened_number_never_starts_from_itself() -> None:
    program = parse("split(c, 64)").statements
    firsts = set()
    for number in range(30):
        for draft in mutation.reopen(program, stream(0, "test", number)):
            inside = str(draft[0]).removeprefix("split(c, ?[").removesuffix("])")
            choices = [int(one) for one in inside.split(", ")]
            assert sorted(choices) == [16, 32, 128, 256]
            firsts.add(choices[0])
    assert firsts == {16, 32, 128, 256}
    assert drafts(mutation.reopen, "vectorize(c, 2)") == {"vectorize(c, ?[4, 8])", "vectorize(c, ?[8, 4])"}


def test_choices_change_alone_or_are_exchanged() -> None:
    found = drafts(mutation.rechoose, "bind(i, grid.x)\nbind(j, grid.y)")
    assert {"bind(i, grid.y); bind(j, grid.x)", "bind(i, grid.y); bind(j, grid.y)"} <= found
    assert drafts(mutation.rechoose, "split_reduction(c)") == {"split_reduction(c, scope=shared)"}


def test_items_of_lists_are_exchanged() -> None:
    found = drafts(mutation.permute, "tile([i, j], [64, 32])\nreorder([a, b, c])")
    assert found == {
        "tile([j, i], [64, 32]); reorder([a, b, c])",
        "tile([i, j], [32, 64]); reorder([a, b, c])",
        "tile([i, j], [64, 32]); reorder([b, a, c])",
        "tile([i, j], [64, 32]); reorder([c, b, a])",
        "tile([i, j], [64, 32]); reorder([a, c, b])",
    }


def test_a_statement_or_a_loop_of_its_group_goes() -> None:
    assert drafts(mutation.delete, "split([c, d], 4)\nunroll(k)") == {
        "unroll(k)",
        "split([c, d], 4)",
        "split(c, 4); unroll(k)",
        "split(d, 4); unroll(k)",
    }


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_does_not_apply_gives_no_draft(
    operator: Callable[[Statements, Random], Iterator[Statements]],
) -> None:
    assert not list(operator((), stream(0, "test", 0)))
