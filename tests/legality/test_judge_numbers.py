"""What the judge says of running sums, where algebra makes values the same."""

from __future__ import annotations

import random

import pytest

from evolve.ir.stmt import Store
from tests.illegal.forged import FORGED, Forged
from tests.illegal.forged_online import good
from tests.illegal.forging import change
from tests.illegal.forging import good as template
from tests.illegal.fuzz import sizes_for
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES
from tests.legality.judge import Launch, false_claim, why_wrong

SIZES = {"rows": 2, "cols": 128}
ONLINE = [f for f in FORGED if f.refused == "E-ONLINE"]


def test_a_rescaled_sum_is_right() -> None:
    kernel, launch = source("softmax").kernel, Launch(SIZES)
    assert why_wrong(kernel, good(), launch, ("forward", "permuted"), numbers=True) is None
    assert not false_claim(kernel, good(), launch, numbers=True)


@pytest.mark.parametrize("f", ONLINE, ids=lambda f: f.name)
def test_what_execution_shows_numbers_show(f: Forged) -> None:
    wrong = why_wrong(source(f.kernel).kernel, f.build(), Launch({"rows": 2, **f.sizes}), numbers=True)
    assert wrong == (None if f.not_shown else "value")


REUSED = [n for n, text in enumerate(TEMPLATES["scores"]) if "reuse(" in text]


@pytest.mark.parametrize("number", REUSED)
def test_what_is_reused_is_not_missed(number: int) -> None:
    """The sums of the second sweep are computed once, in the first; what they are used for still is."""
    kernel, made = source("scores").kernel, template("scores", number)
    launch = Launch(sizes_for(made, "scores", random.Random(1)))
    assert why_wrong(kernel, made, launch, ("forward",), numbers=True) is None
    assert not false_claim(kernel, made, launch, numbers=True)
    results = change(made, lambda s: () if isinstance(s, Store) and s.buffer in kernel.params else None)
    assert false_claim(kernel, results, launch, numbers=True)
