"""The prover against running every instance: no damaged kernel that computes something else is proved."""

from __future__ import annotations

import random

import pytest

from evolve.legality.barriers import place
from evolve.legality.prove import prove
from tests.legality.brute import outcome, same
from tests.legality.small import Case, cases, mutant

CASES = cases()
MUTANTS = {"matmul": 40, "transpose_float4": 50}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_cases_are_right(name: str) -> None:
    c = CASES[name]
    assert prove(c.source, c.target).proved
    assert all(same(c.source, c.target, s) for s in c.sizes)


@pytest.mark.parametrize("name", sorted(CASES))
def test_no_wrong_mutant_is_proved(name: str) -> None:
    c = CASES[name]
    rng = random.Random(f"damage {name}")
    wrong = refused = 0
    for _ in range(MUTANTS.get(name, 80)):
        m = mutant(c.target, rng)
        if m is None or (right := runs_right(c, m)) is None:
            continue
        proved = prove(c.source, m).proved
        wrong += not right
        refused += not proved
        assert right or not proved, m
    assert wrong >= 20, "the damage is too mild to test anything"


@pytest.mark.parametrize("name", ["transpose", "matmul", "softmax"])
def test_placed_barriers_suffice_for_damaged_kernels_that_are_proved(name: str) -> None:
    c = CASES[name]
    rng = random.Random(f"place {name}")
    for _ in range(10):
        m = mutant(c.target, rng)
        if m is None:
            continue
        placed = place(m)
        if prove(c.source, placed).proved:
            assert runs_right(c, placed) in (True, None)


def runs_right(c: Case, k: object) -> bool | None:
    """None when the judge cannot run it (a barrier under a thread loop)."""
    try:
        return all(same(c.source, k, s) for s in c.sizes)  # type: ignore[arg-type]
    except (AssertionError, ZeroDivisionError):
        return None


def test_the_judge_sees_races_and_undefined_reads() -> None:
    from tests.codegen import scheduled_ir as scheduled

    k = scheduled.transpose_tiled(4, 2, barriers=False)
    assert outcome(k, {"rows": 5, "cols": 6}).faults == {"race"}
