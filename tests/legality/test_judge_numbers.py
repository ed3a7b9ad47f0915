"""What the judge says of running sums, where algebra makes values the same."""

from __future__ import annotations

import pytest

from tests.illegal.forged import FORGED, Forged
from tests.illegal.forged_online import good
from tests.illegal.lifted import source
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
