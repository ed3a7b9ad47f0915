"""Random schedules, most of them damaged: what the prover accepts must run clean and compute the same."""

from __future__ import annotations

import random
import time
from pathlib import Path

from evolve.legality.prove import CHECKS
from tests.illegal import fuzz

SECONDS = 20.0
FEWEST = 10


def test_nothing_wrong_is_accepted(cache: Path) -> None:
    tally = fuzz.Tally()
    end = time.monotonic() + SECONDS
    seed = 0
    while time.monotonic() < end or tally.made < FEWEST:
        rng = random.Random(seed)
        seed += 1
        c = fuzz.candidate(rng)
        if c is not None:
            fuzz.check(c, rng, tally, cache)
    for c, sizes, out in tally.accepted_wrong:
        print(f"{c.text}at {dict(sizes)}: {out.detail}\n")
    assert not tally.accepted_wrong
    assert tally.ran
    assert tally.status["refuted"]


def test_execution_notices_what_a_prover_without_checks_accepts(cache: Path) -> None:
    """The test above can fail: with the checks left out it does, within a few candidates."""
    tally = fuzz.Tally()
    for seed in range(60):
        rng = random.Random(seed)
        c = fuzz.candidate(rng)
        if c is not None:
            fuzz.check(c, rng, tally, cache, skip=CHECKS)
        if len(tally.accepted_wrong) >= 3:
            return
    raise AssertionError(f"{tally.ran} runs noticed {len(tally.accepted_wrong)} wrong kernels")
