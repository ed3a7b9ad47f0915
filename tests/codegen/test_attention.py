"""Attention in tiles: proved, and executed under checks."""

from __future__ import annotations

from pathlib import Path

from evolve.legality.prove import prove
from evolve.legality.verdict import Limits
from tests.illegal.forging import scheduled
from tests.illegal.lifted import EXAMPLES, source, workload
from tests.illegal.running import run_kernel


def test_scores_and_weights_in_tiles(cache: Path) -> None:
    text = (EXAMPLES / "programs" / "attention.dsl").read_text()
    kernel = scheduled("attention", text)
    verdict = prove(source("attention").kernel, kernel, Limits(shared_bytes=227 * 1024))
    assert verdict.proved, verdict.diagnostics
    out = run_kernel(source("attention"), kernel, workload("attention", {"heads": 1, "seq": 128}), cache)
    assert out.clean, out
