"""The prover accepts what the target programs make, and refuses what preconditions let through."""

from __future__ import annotations

import pytest

from evolve.compiler.compile import finish
from evolve.legality.prove import prove
from evolve.legality.verdict import Status, Verdict
from tests.transforms.fixtures import KERNELS, applied
from tests.transforms.programs import KERNEL_OF, PROGRAMS


def verdict(kernel: str, program: str) -> Verdict:
    return prove(KERNELS[kernel](), finish(applied(kernel, program).kernel))


@pytest.mark.parametrize("name", PROGRAMS)
def test_target_programs_are_proved(name: str) -> None:
    assert verdict(KERNEL_OF[name], PROGRAMS[name]).status is Status.PROVED


@pytest.mark.parametrize(
    ("kernel", "program"),
    [
        ("softmax", "jam(c, c_2)"),
        ("running", "distribute(c)"),
        ("running", "split(c, 8)\nreorder([c.i, c.o])"),
    ],
)
def test_what_preconditions_let_through_is_refuted_by_the_proof(kernel: str, program: str) -> None:
    assert verdict(kernel, program).status is Status.REFUTED
