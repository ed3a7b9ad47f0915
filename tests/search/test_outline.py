"""What statements refer to and which values they set."""

from __future__ import annotations

import pytest

from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.program import Hole
from evolve.search import outline
from tests.transforms.programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_by_name_make_the_statement_again(name: str) -> None:
    for s in parse(PROGRAMS[name]).statements:
        assert outline.with_given(s, outline.given(s)) == s


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("split([c, c_2.o], 4)", ("c", "c_2.o"), {"factor": 4}),
        ("t = stage(x, at=row, scope=shared)", ("x", "row"), {"scope": "shared"}),
        ("specialize(n % 4 == 0)", (), {}),
        ("launch_bounds(256, 2)", (), {"threads": 256, "min_blocks": 2}),
        ("unroll(k)", ("k",), {}),
    ],
)
def test_references_and_settings(text: str, names: tuple[str, ...], values: dict[str, object]) -> None:
    s = parse_statement(text)
    assert outline.references(s) == names
    found = {
        k: v if isinstance(v, int) else str(getattr(v, "text", v)) for k, v in outline.settings(s).items()
    }
    assert found == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("split([a, b, c], 4)", "split([a, c], 4)"),
        ("split([a, b], 4)", "split(a, 4)"),
        ("tile([a, b, c], [8, 16, 32])", "tile([a, c], [8, 32])"),
        ("split(b, 4)", None),
        ("stage(x, at=b, scope=shared)", None),
    ],
)
def test_a_name_that_goes_leaves_its_group(text: str, expected: str | None) -> None:
    told = outline.referring(parse_statement(text), lambda n: () if n == "b" else (n,))
    assert (None if told is None else str(told)) == expected


def test_one_name_may_become_a_group_only_where_groups_may_stand() -> None:
    both = outline.referring(parse_statement("split(c, 4)"), lambda n: (n, f"{n}_2"))
    assert str(both) == "split([c, c_2], 4)"
    assert outline.referring(parse_statement("jam(c, d)"), lambda n: (n, f"{n}_2")) is None


def test_a_copy_and_its_loops_belong_to_the_array() -> None:
    program = parse(
        "specialize(n % 4 == 0)\nbind(i, grid.x)\nt = stage(A, at=i.o, scope=shared)\n"
        "set_layout(t, pad=[0, 1])\nf = stage(t, at=k, scope=register)\nunroll([f.0, j.i])\n"
    )
    assert outline.subjects(program.statements) == (
        frozenset(),
        {"i"},
        {"A"},
        {"A"},
        {"A"},
        {"A", "j"},
    )


def test_numbers_are_found_with_their_bounds_and_replaced() -> None:
    program = parse(
        "tile([i, j], [64, 32])\nspecialize(n % 8 == 0)\nset_layout(t, pad=[0, 1])\nunroll(k, factor=4)"
    )
    found = outline.numbers(program.statements)
    assert [(n.statement, n.item, n.value, n.minimum) for n in found] == [
        (0, 0, 64, 2),
        (0, 1, 32, 2),
        (2, 0, 0, 0),
        (2, 1, 1, 0),
        (3, None, 4, 2),
    ]
    changed = outline.with_number(program.statements, found[1], Hole((16, 128)))
    assert str(changed[0]) == "tile([i, j], [64, ?[16, 128]])"
    assert str(outline.filled(changed[0])) == "tile([i, j], [64, 16])"
    assert str(outline.with_number(program.statements, found[4], 8)[3]) == "unroll(k, factor=8)"


def test_divisors_in_conditions_are_scaled_and_nothing_else() -> None:
    program = parse("specialize(n % 8 == 0 and m == 64)\nsplit(i, 8)")
    scaled = outline.scaled_divisors(program.statements, 2)
    assert [str(s) for s in scaled] == ["specialize(n % 16 == 0 and m == 64)", "split(i, 8)"]


def test_a_text_that_is_not_in_the_language_is_no_program() -> None:
    assert outline.read("set(tile, 4)") is None
    assert outline.read("") is not None
