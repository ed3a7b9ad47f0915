"""Prompts of three kernels in each tier, whole: a change of what a model is told is seen in review.

    EVOLVE_GOLDEN=1 pytest tests/agents/llm/test_golden.py

writes them anew; then read the difference.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.llm.contexts import first_context, later_context
from benchmarks.llm.prompt_sizes import RESULT, SIZES, questions, sizes, table
from evolve.agents.llm import tiers
from evolve.agents.llm.tiers import TIERS, tier_of
from evolve.agents.llm.view import step_view
from evolve.dsl.reference import compact_reference, full_reference, names_reference, page
from evolve.dsl.registry import statements
from evolve.llm.prompts import NAMES, Prompts

GOLDEN = Path(__file__).parent / "golden"
SHOWN = {
    "least": ("softmax-later", "attention-later"),
    "tiny": ("softmax-first", "softmax-later", "spmv-later"),
    "small": ("softmax-first", "softmax-later", "matmul-first", "matmul-later", "spmv-first"),
    "medium": ("softmax-first", "softmax-later"),
    "large": ("softmax-later",),
}
DOCUMENT = Path(__file__).parents[3] / "prompts" / "README.md"


LANGUAGE = {
    "the language in full": full_reference(),
    "the language, a sentence each": compact_reference(),
    "the language, signatures": names_reference(),
    **{f"the page of {one.name}": page(one) for one in statements().values()},
}
"""What is made from `dsl_spec/`, and tested where it is made."""


def agrees(name: str, text: str) -> bool:
    path = GOLDEN / f"{name}.txt"
    for what, made in LANGUAGE.items():
        text = text.replace(made.strip(), f"({what})")
    if os.environ.get("EVOLVE_GOLDEN"):
        path.write_text(text)
    return text == path.read_text()


@pytest.mark.parametrize("tier", SIZES)
def test_prompts(tier: str) -> None:
    """The first of a run, and a later one as long as it can be."""
    asking = questions(SIZES[tier])
    for shown in SHOWN[tier]:
        kernel, _, kind = shown.partition("-")
        system, asked = asking.first((later_context if kind == "later" else first_context)(kernel))
        assert agrees(f"{kernel}-{tier}-{kind}", asked["content"])
    assert agrees(f"system-{tier}", system["content"])


def test_the_rules_stand_once_more_where_they_are_kept() -> None:
    rules = [
        [line for line in text.splitlines() if re.match(r"\d+\. ", line)]
        for text in (DOCUMENT.read_text(), tiers.__doc__ or "")
    ]
    assert rules[0] == rules[1] and len(rules[0]) == 11


def test_a_repair() -> None:
    asking = questions(SIZES["small"])
    wrong = [("split(row, 0)\n", "line 1: E-FACTOR: a factor is at least 1; repair: split(row, 32)")]
    refused = asking.again(first_context("softmax"), "an answer", wrong)
    unread = asking.again(first_context("softmax"), "an answer", ())
    assert refused is not None and unread is not None
    assert agrees("repair-refused", refused[-1]["content"])
    assert agrees("repair-unread", unread[-1]["content"])


def test_answers_in_json() -> None:
    """For servers that keep to a schema: the rest of the prompt is the same."""
    asking = questions(SIZES["tiny"])
    as_json = replace(asking, form="json")
    (system, asked), (plain, same) = (one.first(first_context("softmax")) for one in (as_json, asking))
    assert asked == same
    head = plain["content"].partition("## How to answer")[0]
    assert system["content"].startswith(head)
    repair = as_json.again(first_context("softmax"), "an answer", ())
    assert repair is not None
    assert agrees("json", system["content"][len(head) :] + "\n----\n\n" + repair[-1]["content"])


def test_a_step() -> None:
    program, moves = "bind(row, grid.x)\n", ["split(c, 32|64)", "block_reduce(c)"]
    step = Prompts().render("step", **step_view(first_context("softmax"), program, moves))
    assert agrees("step", Prompts().render("steps") + "\n----\n\n" + step)


def test_every_tier_and_every_template_is_shown() -> None:
    assert {tier_of(size).name for size in SIZES.values()} == {tier.name for tier in TIERS}
    assert SHOWN.keys() == SIZES.keys()
    assert set(NAMES) == {"system", "propose", "repair", "steps", "step"}


def test_the_table_in_the_documentation_is_the_record() -> None:
    record = json.loads(RESULT.read_text())
    assert table(record) in DOCUMENT.read_text()
    assert record["contexts"] == SIZES and len(record["kernels"]) > 20


def test_the_record_is_what_is_counted_now() -> None:
    """Within a tenth: run `python -m benchmarks.llm.prompt_sizes` after larger changes."""
    record = json.loads(RESULT.read_text())
    for kernel in ("softmax", "matmul"):
        for tier, counted in sizes(kernel).items():
            assert counted == pytest.approx(record["kernels"][kernel][tier], rel=0.1)


def test_on_record_no_vocabulary_takes_more_than_the_rule_says() -> None:
    """What was measured. A change of the rule shows in the table: see the test above."""
    rule = dict(json.loads(RESULT.read_text())["rule"])
    assert rule.pop("vocabulary")
    assert len(rule) == 5 and all(0.5 < share <= 1.0 for share in rule.values()), rule
