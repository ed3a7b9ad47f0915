"""Every question to isl has a limit; beyond it nothing is known, and the next question is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.poly import context
from evolve.legality.barriers import place
from evolve.legality.memory import forget
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status
from evolve.transforms.apply import apply_program
from tests.illegal.forging import good
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES

PROGRAMS = [(name, number) for name in ("softmax", "matmul", "spmv", "transpose") for number in (0, 1)]


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Nothing remembered from other tests, and isl as it was afterwards."""
    forget()
    yield
    context().set_max_operations(0)
    context().reset_operations()


@pytest.mark.parametrize(("name", "number"), PROGRAMS)
def test_no_question_is_asked_without_a_limit(name: str, number: int) -> None:
    """Outside of `limited` one operation is allowed here: a question asked there would raise isl's error."""
    kernel = source(name).kernel
    target = apply_program(kernel, parse(TEMPLATES[name][number])).kernel
    context().reset_operations()
    context().set_max_operations(1)
    assert prove(kernel, finish(target)).proved


@pytest.mark.parametrize("operations", [1, 30, 300, 3000])
def test_barriers_that_cannot_be_found_are_missed_by_the_proof(operations: int) -> None:
    kernel, target = source("matmul").kernel, good("matmul")
    placed = place(target, Limits(operations=operations))
    verdict = prove(kernel, placed, Limits(operations=operations))
    assert not verdict.proved
    assert prove(kernel, place(target)).proved


@pytest.mark.parametrize("operations", [1, 100, 2000])
def test_what_was_unknown_is_answered_with_a_higher_limit(operations: int) -> None:
    kernel, target = source("softmax").kernel, good("softmax")
    low = prove(kernel, target, Limits(operations=operations))
    assert low.status is Status.UNKNOWN and low.diagnostics[0].code == "E-LIMIT"
    assert prove(kernel, target).proved
    assert prove(source("saxpy").kernel, good("saxpy")).proved
