"""Places of a thread's own elements: every access counts, under its own conditions."""

from __future__ import annotations

import pytest

from evolve.validation.context import Context
from evolve.validation.formula import below
from evolve.validation.places import Access, Places
from evolve.validation.polynomial import constant, variable
from evolve.validation.verdict import DifferenceError

HERE = variable("i")
EVERYWHERE = Context({"i": (0, 7)})
GUARDED = EVERYWHERE.given(below(HERE, constant(4)))


def places(*contexts: Context) -> Places:
    out = Places()
    for line, context in enumerate(contexts):
        out.add(("b", 1), Access((HERE,), (HERE,), context, line), (8,), (4,))
    return out


def test_what_is_inside_under_its_condition_is_inside() -> None:
    places(GUARDED, GUARDED).check()


@pytest.mark.parametrize("contexts", [(EVERYWHERE,), (GUARDED, EVERYWHERE), (EVERYWHERE, GUARDED)])
def test_of_two_that_look_alike_both_are_looked_at(contexts: tuple[Context, ...]) -> None:
    with pytest.raises(DifferenceError, match="outside its array"):
        places(*contexts).check()
