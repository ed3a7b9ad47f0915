"""What a run's models took, in a line each."""

from __future__ import annotations

from typing import Any

import pytest

from evolve.events.schema import Exchanged
from evolve.report.conversation import ledger_lines
from evolve.runs.conversation import ledger


def said(model: str, answer: str | None = "a", **told: Any) -> Exchanged:
    return Exchanged(ask=1, step=0, model=model, prompt="p", answer=answer, **told)


def test_models_with_and_without_prices() -> None:
    entries = ledger(
        [
            said(
                "anthropic/x",
                prompt_tokens=900,
                completion_tokens=90,
                cached_tokens=400,
                usd=0.0125,
                seconds=2.0,
            ),
            said("openai/y", counted=700, seconds=1.0),
            said("anthropic/x", None, fault="timeout", counted=800, usd=0.002, seconds=9.0),
        ]
    )
    assert [entry["usd"] for entry in entries] == [pytest.approx(0.0145), None]
    assert ledger_lines(entries) == [
        "anthropic/x: 1 answers to 2 requests in 11.0 s (an answer in 2.0 s), 900 tokens in (400 cached), "
        "90 out and at most 800 not told, 0.0145 USD; no answer: 1 timeout",
        "openai/y: 1 answers to 1 requests in 1.0 s (an answer in 1.0 s), ? tokens in, ? out "
        "and at most 700 not told, price unknown",
    ]
