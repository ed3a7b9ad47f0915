"""Which of the next moves a model is offered, and how."""

from __future__ import annotations

import pytest

from evolve.agents.llm.families import Family, families, offered, without

SPLITS = [f"split({loop}, {n})" for loop in ("i", "j", "k") for n in (4, 8, 16, 32, 64, 128, 256)]
BINDS = ["bind(i, grid.x)", "bind(i, grid.y)", "bind(j, thread.x)"]
OTHERS = ["carveout(0)", "carveout(100)", "inline(t)", "max_registers(32)", "stage(x, at=j, scope=shared)"]
MOVES = [*BINDS, *OTHERS, *SPLITS]


def told(*args: object) -> list[str]:
    return [str(family) for family in offered(*args)]  # type: ignore[arg-type]


def test_families_hold_every_move_once() -> None:
    found = families(MOVES)
    assert sorted(move for family in found for move in family.moves) == sorted(MOVES)
    assert len(found) == len({family.head for family in found}) == 9


@pytest.mark.parametrize(
    ("moves", "line"),
    [
        (["split(i, 4)", "split(i, 8)"], "split(i, 4 | 8)"),
        (["tile([i, j], [8, 8])", "tile([i, j], [4, 4])"], "tile([i, j], [8, 8] | [4, 4])"),
        (["specialize(n == 4)", "specialize(m % 2 == 0)"], "specialize(n == 4 | m % 2 == 0)"),
        (["stage(x, at=i, scope=shared)"], "stage(x, at=i, scope=shared)"),
    ],
)
def test_a_family_is_one_line(moves: list[str], line: str) -> None:
    (family,) = families(moves)
    assert str(family) == line and family.moves == tuple(moves)


def test_until_it_is_launched_what_leads_there_is_offered() -> None:
    assert told(MOVES, "", ["stage"], False, 8) == [
        "bind(i, grid.x | grid.y)",
        "split(i, 4 | 16 | 64 | 256)",
        "bind(j, thread.x)",
        "split(j, 4 | 16 | 64 | 256)",
        "split(k, 4 | 16 | 64 | 256)",
    ]
    assert told(OTHERS, "", ["stage"], False, 8), "where nothing leads there, the rest is"


def test_then_what_addresses_losses_comes_first_and_others_have_half_the_room() -> None:
    lines = told(MOVES, "", ["stage", "split"], True, 8)
    assert lines[:2] == ["stage(x, at=j, scope=shared)", "split(i, 4 | 16 | 64 | 256)"]
    assert [line.split("(")[0] for line in lines] == ["stage", "split", "split", "split"]
    assert [line.split("(")[0] for line in told(MOVES, "", ["stage"], True, 8)] == [
        *("stage", "bind", "carveout", "inline")
    ]
    assert len(told(MOVES, "", ["split", "bind"], True, 3)) == 3


def test_nothing_is_done_twice() -> None:
    program = "# blocks\n\na, b = split(i, 8)\nbind( j, thread.y)"
    lines = told(MOVES, program, [], False, 8)
    assert lines == ["bind(i, grid.x | grid.y)", *(f"split({x}, 4 | 16 | 64 | 256)" for x in "jk")]


def test_a_move_that_was_refused_is_left_out() -> None:
    choices = families(["split(i, 4)", "split(i, 8)", "bind(i, grid.x)"])
    left = without(choices, "split(i, 4)")
    assert left == (Family("split", "split(i, ", ("8",)), choices[1])
    assert without(left, "bind(i, grid.x)") == left[:1]
