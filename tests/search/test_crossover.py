"""What crossover takes from which parent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from evolve.dsl.parser import parse
from evolve.dsl.program import Statement
from evolve.population.rng import stream
from evolve.search import crossover

Statements = tuple[Statement, ...]
Operator = Callable[[Statements, Statements, Random], Iterator[Statements]]

WIDE = """
split([c, c_2], 4)
split([c.o, c_2.o], 256)
block_reduce(c.o.i)
bind(c_2.o.i, thread.x)
vectorize([c.i, c_2.i], 4)
"""
HELD = """
bind(row, grid.x)
xr = stage(x, at=row, scope=register)
split([xr.1, c, c_2], 128)
block_reduce(c.i)
bind([xr.1.i, c_2.i], thread.x)
unroll([xr.1.o, c.o])
"""


def program(text: str) -> Statements:
    return parse(text).statements


def lines(statements: Statements) -> list[str]:
    return [str(s) for s in statements]


def drafts(operator: Operator, left: str, right: str, count: int = 100) -> set[str]:
    """The first drafts of many draws."""
    found = set()
    for number in range(count):
        for draft in operator(program(left), program(right), stream(0, "test", number)):
            found.add("; ".join(lines(draft)))
            break
    return found


def test_statements_of_one_primitive_about_the_same_loops_correspond() -> None:
    pairs = crossover.align(program(WIDE), program(HELD))
    assert pairs == [(0, 2), (2, 3), (3, 4)]
    same = program(WIDE)
    assert crossover.align(same, same) == [(n, n) for n in range(len(same))]
    assert crossover.align(same, ()) == []


def test_likeness_orders_equal_then_overlapping_then_related_loops() -> None:
    first, *others = program(
        "split([c, d], 4)\nsplit([c, d], 8)\nsplit([c, e], 4)\nsplit(c.o, 4)\nsplit(q, 4)\nunroll(c)"
    )
    values = [crossover.likeness(first, one) for one in others]
    assert values[0] == 1.0 and values == sorted(values, reverse=True) and values[-2:] == [0.0, 0.0]
    assert crossover.likeness(*program("launch_bounds(128)\nlaunch_bounds(256, 2)")) == 1.0


def test_blend_takes_values_only_and_equal_ones_together() -> None:
    left = "split([c, d], 4)\nsplit(c.o, 256)\nbind(c.o.i, thread.x)\nvectorize(c.i, 4)"
    right = "split([c, d], 2)\nsplit(c.o, 128)\nbind(c.o.i, thread.y)\nvectorize(c.i, 2)\nunroll(d)"
    found = drafts(crossover.blend, left, right)
    for one in found:
        factor, threads, axis, width = one.split("; ")
        assert (factor, width) in (
            ("split([c, d], 4)", "vectorize(c.i, 4)"),
            ("split([c, d], 2)", "vectorize(c.i, 2)"),
        )
        assert threads in ("split(c.o, 256)", "split(c.o, 128)")
        assert axis in ("bind(c.o.i, thread.x)", "bind(c.o.i, thread.y)")
    assert len(found) == 6, "all mixtures but the two parents"


def test_blend_of_equal_values_gives_nothing() -> None:
    assert not drafts(crossover.blend, WIDE, WIDE)


def test_exchange_takes_all_that_is_said_about_a_loop() -> None:
    left = "split([a, b], 4)\nbind([a.i, b.i], thread.x)\nunroll(a.o)\nlaunch_bounds(256)"
    right = "split([a, b], 8)\nbind(a.i, thread.y)\nbind(b.i, thread.x)\nlaunch_bounds(512)"
    assert drafts(crossover.exchange, left, right) == {
        "; ".join(lines(program(right))[:-1]) + "; launch_bounds(256)",  # the two are tied by the split
        "split(b, 4); split(a, 8); bind(b.i, thread.x); bind(a.i, thread.y); launch_bounds(256)",
        "split(a, 4); split(b, 8); bind(a.i, thread.x); unroll(a.o); bind(b.i, thread.x); launch_bounds(256)",
    }


def test_exchange_keeps_a_group_where_both_say_the_same() -> None:
    left, right = "split([a, b], 4)\nunroll(a.i)", "split([a, b], 4)\nvectorize([a.i, b.i], 4)"
    assert drafts(crossover.exchange, left, right) == {
        "split([a, b], 4); vectorize([a.i, b.i], 4)",
        "split([b, a], 4); vectorize(a.i, 4)",
        "split([a, b], 4); unroll(a.i); vectorize(b.i, 4)",
    }


def test_a_grafted_copy_is_treated_as_its_new_neighbours_are() -> None:
    found = drafts(crossover.graft, WIDE, HELD)
    assert (
        "xr = stage(x, at=row, scope=register); split([c, xr.1, c_2], 4); split([c.o, xr.1.o, c_2.o], 256); "
        "block_reduce(c.o.i); bind([xr.1.o.i, c_2.o.i], thread.x); vectorize([c.i, xr.1.i, c_2.i], 4)"
    ) in found
    # c_2 is bound where xr.1 is, c is not: that makes c_2 the neighbour.
    assert not any("block_reduce([xr" in one for one in found)


def test_what_is_said_of_a_copy_alone_comes_with_it() -> None:
    left, right = (
        "split(j, 8)",
        "t = stage(x, at=i, scope=shared)\nset_layout(t, pad=[0, 1])\nunroll([t.0, q])",
    )
    found = drafts(crossover.graft, left, right)
    assert "split(j, 8); t = stage(x, at=i, scope=shared); unroll(t.0)" in found
    assert "split(j, 8); t = stage(x, at=i, scope=shared); set_layout(t, pad=[0, 1]); unroll(t.0)" in found


def test_a_graft_brings_what_it_needs() -> None:
    left = "bind(i, grid.x)"
    right = "split(j, 64)\nsplit(j.o, 4)\nbind(j.i, thread.x)\nunroll(j.o.i)\nlaunch_bounds(64)"
    assert drafts(crossover.graft, left, right) == {
        "bind(i, grid.x); split(j, 64)",
        "bind(i, grid.x); split(j, 64); split(j.o, 4)",
        "bind(i, grid.x); split(j, 64); bind(j.i, thread.x)",
        "bind(i, grid.x); split(j, 64); split(j.o, 4); unroll(j.o.i)",
        "bind(i, grid.x); launch_bounds(64)",
    }


def test_a_second_draft_knows_what_the_other_parent_knows() -> None:
    left, right = program("specialize(n % 4 == 0)\nunroll(i)"), program("specialize(m == 8)\nsplit(j, 4)")
    first, second = crossover.graft(left, right, stream(0, "test", 0))
    assert lines(first) == ["specialize(n % 4 == 0)", "unroll(i)", "split(j, 4)"]
    assert lines(second) == ["specialize(n % 4 == 0)", "specialize(m == 8)", "unroll(i)", "split(j, 4)"]


def test_results_are_called_alike() -> None:
    left = program("a = stage(x, at=row, scope=shared)\nb = stage(y, at=row, scope=shared)\nsplit(a.0, 4)")
    right = program(
        "b = stage(x, at=row, scope=register)\nc = stage(b, at=k, scope=register)\n"
        "a = stage(z, at=k, scope=shared)\nunroll([b.0, c.0.i, a.1])"
    )
    assert lines(crossover.alike(left, right)) == [
        "a = stage(x, at=row, scope=register)",
        "c = stage(a, at=k, scope=register)",
        "a_2 = stage(z, at=k, scope=shared)",
        "unroll([a.0, c.0.i, a_2.1])",
    ]


@pytest.mark.parametrize("operator", [crossover.blend, crossover.exchange, crossover.graft])
def test_programs_that_say_nothing_give_nothing(operator: Operator) -> None:
    assert not list(operator((), (), stream(0, "test", 0)))
