"""The list of mutants of the prover that nothing can tell from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prover import mutants, mutation


def test_equivalent_are_mutants_that_are_there() -> None:
    there = {m.id for name in (*mutation.MODULES, *mutation.FRONTEND) for m in mutation.mutants(name)}
    assert set(mutants.EQUIVALENT) <= there


def test_an_entry_of_what_is_no_mutant_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(mutants.EQUIVALENT, "order.nobody: without `x` of x or y", "a reason")
    monkeypatch.setattr("sys.argv", ["mutants", "--out", str(tmp_path / "out.json"), "--commit", "none"])
    with pytest.raises(SystemExit) as ended:
        mutants.main()
    assert ended.value.code == 2
    assert "order.nobody: without `x` of x or y" in capsys.readouterr().err


def test_a_mutant_is_made_of_its_own_module_whatever_was_read_since() -> None:
    made = [m for name in mutation.MODULES for m in mutation.mutants(name)]
    assert all(mutation.code_of(m) for m in made if m.module in ("limits", "schedule", "order"))
