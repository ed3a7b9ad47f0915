"""Kernels with one thing wrong that no program could make: the prover refuses each, and each is wrong."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from evolve.ir.verify import verify
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests.illegal.forged import FORGED, Forged
from tests.illegal.forging import good
from tests.illegal.fuzz import sizes_for
from tests.illegal.lifted import source, workload
from tests.illegal.running import run_kernel
from tests.illegal.templates import TEMPLATES

GOOD = [(kernel, number) for kernel, texts in TEMPLATES.items() for number in range(len(texts))]


def named(f: Forged) -> str:
    return f.name


@pytest.mark.parametrize(("kernel", "number"), GOOD)
def test_undamaged_they_are_proved(kernel: str, number: int) -> None:
    verdict = prove(source(kernel).kernel, good(kernel, number))
    assert verdict.proved, verdict.diagnostics


@pytest.mark.parametrize(("kernel", "number"), GOOD)
def test_undamaged_they_run_clean(kernel: str, number: int, cache: Path) -> None:
    target = good(kernel, number)
    for seed in (1, 2):
        sizes = sizes_for(target, kernel, random.Random(seed))
        out = run_kernel(source(kernel), target, workload(kernel, sizes), cache)
        assert out.clean, (sizes, out)


@pytest.mark.parametrize("f", FORGED, ids=named)
def test_is_refuted(f: Forged) -> None:
    kernel = f.build()
    verify(kernel)
    verdict = prove(source(f.kernel).kernel, kernel)
    assert verdict.status is Status.REFUTED
    assert verdict.diagnostics[0].code == f.refused, verdict.diagnostics
    assert verdict.diagnostics[0].message


def test_a_statement_of_another_kind_is_told_as_such() -> None:
    (f,) = (f for f in FORGED if f.name == "minimum_for_a_sum")
    message = prove(source(f.kernel).kernel, f.build()).diagnostics[0].message
    target, _, original = message.partition(" stands for ")
    assert "min=" in target and "sum=" in original, message


@pytest.mark.parametrize("f", FORGED, ids=named)
def test_execution_shows_it(f: Forged, cache: Path) -> None:
    out = run_kernel(source(f.kernel), f.build(), workload(f.kernel, f.sizes), cache)
    if f.not_shown:
        assert out.clean, out
    else:
        assert f.shown_by
        assert out.symptoms >= f.shown_by, out
