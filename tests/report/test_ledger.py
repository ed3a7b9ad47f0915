"""What a run's models took, in a line each."""

from __future__ import annotations

from typing import Any

import pytest

from evolve.events.schema import Exchanged
from evolve.report.conversation import conversation_text, ledger_lines
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
        "anthropic/x: 1 answers to 2 requests, half of them within 2.0 s, 11.0 s in all, "
        "900 tokens in (400 cached), 90 out and at most 800 not told, 0.0145 USD; no answer: 1 timeout",
        "openai/y: 1 answers to 1 requests, half of them within 1.0 s, 1.0 s in all, ? tokens in, ? out "
        "and at most 700 not told, price unknown",
    ]


def test_each_exchange_is_headed_by_what_it_was_for() -> None:
    def one(ask: int, step: int, *roles: str) -> dict[str, Any]:
        prompt = [{"role": role, "content": f"{role} {ask}"} for role in roles]
        told = said("m", None, fault="empty", message="no").model_dump()
        return told | {"ask": ask, "step": step, "prompt": prompt}

    asked, again = ("system", "user"), ("system", "user", "assistant", "user")
    shown = conversation_text([one(1, 0, *asked), one(1, 1, *again), *(one(2, n, *asked) for n in range(3))])
    assert [line.partition(": ")[2] for line in shown.split("\n") if line.startswith("====")] == [
        "asked for programs",
        "sent back what was refused",
        *["asked for one statement"] * 3,
    ]
