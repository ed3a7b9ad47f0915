"""Holes in program texts."""

from __future__ import annotations

import pytest

from evolve.agents.holes import read_template


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("split(c, 4)", ()),
        ("split(c, ?[64, 128])", (("64", "128"),)),
        ("split(c, factor=?[ 64,128 ,64 ])\nvectorize(v, ?[4])", (("64", "128"), ("4",))),
        ("tile([a, b], ?[(8, 8), (16, 4)])", (("(8, 8)", "(16, 4)"),)),
        ("# ?[1, 2]\nsplit(c, 4)  # ?[3]", ()),
        ("split(c, ?[])", ()),
        ("split(c, ?[1, 2", ()),
        ("split(c, ?[1,\n2])", ()),
        ("split(c, ?[?[1]])", (("1",),)),
    ],
)
def test_choices(text: str, choices: tuple[tuple[str, ...], ...]) -> None:
    template = read_template(text)
    assert template.choices == choices
    if not choices:
        assert template.fill(()) == text


def test_fill() -> None:
    template = read_template("a(?[1, 2])\nb(?[x, y, z])  # c\n")
    assert template.fill((1, 2)) == "a(2)\nb(z)  # c\n"
    for wrong in ((), (0,), (0, 3)):
        with pytest.raises(IndexError):
            template.fill(wrong)
