"""Some seconds of the prover's record: nothing wrong is accepted. `benchmarks/prover/record.py` is the whole.

EVOLVE_RECORD_SECONDS says how long. CI takes a minute.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace

import pytest

from evolve.dsl.registry import primitives
from evolve.legality.analysis import strip
from evolve.legality.prove import CHECKS, prove
from evolve.legality.verdict import Limits
from tests.illegal.adversary import KERNELS, Case, family, judged, original, primitive_of, program_for
from tests.illegal.forging import good
from tests.illegal.templates import TEMPLATES
from tests.legality.judge import FaultError, Launch, contents_for, execute, why_wrong

SECONDS = float(os.environ.get("EVOLVE_RECORD_SECONDS", "12"))
FEWEST = 20
ORDERS = ("forward", "reversed", "permuted", "interleaved")
SMALL = {
    "softmax": {"rows": 2, "cols": 96},
    "matmul": {"M": 9, "N": 8, "K": 8},
    "transpose": {"rows": 9, "cols": 5},
    "spmv": {"rows": 5, "col_size": 9, "x_size": 4},
    "stencil": {"rows": 9, "cols": 11},
}
PICKED = {"softmax": 2, "matmul": 1, "transpose": 0, "spmv": 1, "stencil": 0}


def test_nothing_wrong_is_accepted() -> None:
    made, rejected, wrong_accepted, wrong = 0, 0, list[Case](), 0
    end = time.monotonic() + SECONDS
    seed = 0
    while time.monotonic() < end or made < FEWEST:
        rng = random.Random(f"record {seed}")
        seed += 1
        for case in family(rng):
            j = judged(case, rng)
            if j is None:
                continue
            made += 1
            wrong += j.wrong is not None
            rejected += j.false_reject
            if j.false_accept:
                wrong_accepted.append(case)
                print(f"{case.text}{j.wrong} at {j.sizes[-1]}")
    assert not wrong_accepted
    assert wrong > made / 10
    assert rejected <= 2 + made / 20


def test_the_truth_finds_what_a_prover_without_checks_accepts() -> None:
    """The test above can fail: with the checks left out it does."""
    found = 0
    for seed in range(200):
        rng = random.Random(f"record {seed}")
        for case in family(rng):
            j = judged(case, rng, tries=1)
            if j is not None and j.wrong and j.wrong != "claim":
                found += prove(original(case.kernel_name), case.kernel, Limits(), skip=CHECKS).proved
        if found >= 5:
            return
    raise AssertionError(f"{found} wrong programs")


def test_good_programs_are_right_in_every_order() -> None:
    for name, number in PICKED.items():
        kernel = original(name)
        sizes = dict(SMALL[name])
        launch = Launch(sizes, contents_for(kernel, sizes, random.Random(name)))
        assert why_wrong(kernel, good(name, number), launch, ORDERS) is None


def test_every_order_leaves_the_same() -> None:
    for name, number in PICKED.items():
        kernel, target = original(name), good(name, number)
        launch = Launch(SMALL[name], contents_for(kernel, SMALL[name], random.Random(name)))
        results = [execute(target, launch, order, seed=3) for order in ORDERS]
        assert all(r == results[0] for r in results)


def test_a_race_is_found_in_every_order() -> None:
    target = good("transpose")
    bare = replace(target, body=strip(target.body))
    for order in ORDERS:
        try:
            execute(bare, Launch(SMALL["transpose"]), order)
        except FaultError as f:
            assert str(f) in ("race", "undefined")
        else:
            raise AssertionError(order)


def test_every_kernel_is_drawn_from() -> None:
    assert set(TEMPLATES) <= set(KERNELS)


@pytest.mark.parametrize("wanted", primitives())
def test_every_primitive_is_drawn(wanted: str) -> None:
    for seed in range(30):
        rng = random.Random(f"{wanted} {seed}")
        _, _, lines = program_for(wanted, "fast" if wanted == "set_precision" else "reassociate", rng)
        if any(primitive_of(x) == wanted for x in lines):
            return
    raise AssertionError(wanted)
