"""How many commits each result is behind what it is of: those since that changed these packages.

    python -m benchmarks.behind

Exit status 1 if one is behind, or is of a commit that this history lacks. A result that was made in parts is
as far behind as the oldest of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "frontend-mutants.json": ("evolve/frontend",),
    "legal-moves.json": ("evolve/transforms", "dsl_spec"),
    "prover-mutants.json": ("evolve/legality", "evolve/compiler"),
    "prover-record.json": ("evolve/legality", "evolve/compiler"),
    "prover-timing.json": ("evolve/legality", "evolve/compiler", "evolve/codegen"),
    "read-back.json": ("evolve/validation", "evolve/codegen"),
}
"""Results that need no GPU, and what decides them: their tests and drawings are left out."""


def commits(record: Any) -> set[str]:
    """All that a result names, wherever it does."""
    return set(_named(record))


def _named(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "commit":
                yield from re.findall(r"\b[0-9a-f]{7,40}\b", str(value))
            else:
                yield from _named(value)
    elif isinstance(part, list):
        for value in part:
            yield from _named(value)


def behind(commit: str, paths: tuple[str, ...], root: Path = ROOT) -> int | None:
    """Commits after `commit` that changed one of `paths`; None if HEAD's history lacks it."""
    known = _git(root, "merge-base", "--is-ancestor", commit, "HEAD")
    if known.returncode:
        return None
    return int(_git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *paths).stdout)


def _git(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=False)


def main() -> None:
    every = 0
    for name, paths in RESTS_ON.items():
        path = ROOT / "benchmarks" / "results" / name
        if not path.exists():
            continue
        found = {c: behind(c, paths) for c in commits(json.loads(path.read_text()))}
        lost = sorted(c[:8] for c, n in found.items() if n is None)
        most = max((n for n in found.values() if n is not None), default=0)
        said = f"{most} behind" + (f", and of {', '.join(lost)}, which are not here" if lost else "")
        print(f"{name:24} {said}  ({', '.join(paths)})")
        every += most + len(lost)
    sys.exit(1 if every else 0)


if __name__ == "__main__":
    main()
