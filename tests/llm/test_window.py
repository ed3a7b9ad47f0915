"""Tokens by the rule, and what fits."""

from __future__ import annotations

import time

from evolve.llm.window import Window, tokens


def test_the_rule() -> None:
    assert tokens("") == 0
    assert tokens("loop") == 1 and tokens("loops") == 2
    assert tokens("1024") == 4
    assert tokens("split(i, 64)\n") == 2 + 1 + 1 + 1 + 2 + 1 + 1
    assert tokens("a b") == 2 and tokens("a    b") == 3 and tokens("a\n    b") == 3
    assert tokens("→") == 3 and tokens("\ud800") == 1


def test_long_texts_are_counted_fast() -> None:
    begun = time.process_time()
    for text in ("a" * 1_000_000, "1" * 1_000_000, " " * 1_000_000, "\n" * 500_000):
        assert tokens(text) > 0
    assert time.process_time() - begun < 3.0


def test_an_answer_gets_a_quarter_at_most() -> None:
    assert (Window(8192, 4096).answer, Window(8192, 4096).prompt) == (2048, 6144)
    assert (Window(100_000, 4096).answer, Window(100_000, 4096).prompt) == (4096, 95_904)


def test_a_servers_own_count_scales_the_rule() -> None:
    said = [{"role": "user", "content": "split(i, 64)\n" * 100}]
    assert Window(scale=0.5).count(said) < Window().count(said) < Window(scale=2.0).count(said)
    assert Window(1300).holds(said) and not Window(1300, scale=2.0).holds(said)
