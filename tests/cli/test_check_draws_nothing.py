"""`evolve check` proves: it has no use for the numbers that a program would run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.cli.main import main
from evolve.ir.errors import EvolveError
from evolve.workload import structure

KERNELS = Path(__file__).parents[2] / "kernels"


SPMV = ("--kernel", str(KERNELS / "spmv.cu"), "--device", "sim:h200-sxm")


@pytest.fixture(autouse=True)
def drawing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*what: object) -> object:
        raise EvolveError("drawn", "index arrays are drawn")

    monkeypatch.setattr(structure, "_remembered", drawn)


def test_index_arrays_are_not_drawn_for_a_proof(capfd: pytest.CaptureFixture[str]) -> None:
    """2^23 entries at the timed sizes, which take far longer than the proof."""
    assert main(["check", "--program", str(KERNELS / "programs" / "spmv.dsl"), *SPMV]) == 0
    out = capfd.readouterr().out
    assert out.startswith("PROVED") and "assumed: rowptr holds integers" in out


def test_they_are_where_the_time_is_bounded(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *SPMV]) == 2
    assert "index arrays are drawn" in capfd.readouterr().err
