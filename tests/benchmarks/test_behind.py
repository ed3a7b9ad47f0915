"""How far a result is behind is counted in commits that changed what it is of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.behind import RESTS_ON, ROOT, behind, commits


def _committed(root: Path, file: str) -> str:
    path = root / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    name = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    for args in (("add", "."), (*name, "commit", "-q", "-m", file)):
        subprocess.run(["git", "-C", str(root), *args], check=True)
    head = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    return head.stdout.strip()


def test_commits_that_changed_it_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    measured = _committed(tmp_path, "prover/a.py")
    _committed(tmp_path, "docs/b.md")
    assert behind(measured, ("prover",), tmp_path) == 0
    _committed(tmp_path, "prover/a.py")
    last = _committed(tmp_path, "prover/c.py")
    assert behind(measured, ("prover",), tmp_path) == 2
    assert behind(measured, ("prover", "docs"), tmp_path) == 3
    assert behind(last, ("prover",), tmp_path) == 0
    assert behind("0" * 40, ("prover",), tmp_path) is None


def test_a_result_made_in_parts_names_several() -> None:
    record = {
        "commit": "a" * 40,
        "times": {"commit": "b" * 40},
        "rows": [{"commit": "25aa532; again at cc69c0f"}],
    }
    assert commits(record) == {"a" * 40, "b" * 40, "25aa532", "cc69c0f"}


def test_what_results_rest_on_is_there() -> None:
    assert all((ROOT / path).is_dir() for paths in RESTS_ON.values() for path in paths)
