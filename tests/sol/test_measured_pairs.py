"""What a cause is said to cost, against what its removal saved on an H200.

Pairs of kernels that do the same work, both timed (`tests/devices/h200_times.json`); the second lacks what
the report names in the first.
"""

import pytest

from evolve.features.model import BufferUse, Features
from evolve.sol.bound import Bound, bound_of
from evolve.sol.gap import GapReport, gap
from tests.devices.test_estimate import H200, TIMES, built, estimated
from tests.sol.reported import breakdown

SAVED = [
    ("transpose_conflicts", "transpose32", {"bank_conflicts", "shared_traffic"}),
    ("transpose_wide_block", "transpose32", {"uncoalesced", "block_starts", "latency"}),
    ("transpose_naive", "transpose32", {"uncoalesced", "redundant_l2", "latency"}),
    ("copy4", "copy16", {"narrow_accesses", "block_starts", "latency"}),
    ("gelu_scalar", "gelu_wide", {"narrow_accesses", "block_starts", "latency"}),
    ("add_scalar", "add_wide", {"narrow_accesses", "block_starts", "latency"}),
    ("row_sum_naive", "row_sum_block", {"idle_sms", "uncoalesced"}),
    ("naive_softmax", "row_softmax", {"idle_sms", "uncoalesced", "global_accesses"}),
    ("softmax_warp", "row_softmax", {"redundant_dram", "latency"}),
    ("matmul_tile32", "matmul_tile64", {"shared_traffic"}),
]


def bound_for(name: str) -> Bound:
    case = built(name)[0]
    read, written = (int(n) // 4 for n in case.footprint)
    operations = {"f32.fma": 2048.0**3} if name.startswith("matmul") else {}
    use = BufferUse("all", 4, read, written, 0.0, 1, 1.0, True)
    return bound_of(Features(name, {}, (use,), (), (), (), operations, 0.0, "other", True), H200)


def report(name: str) -> GapReport:
    case, resources, sass, traffic = built(name)
    return gap(bound_for(name), breakdown(H200, resources, sass, traffic, case.launch, estimated(name)))


@pytest.mark.parametrize(("slow", "fast", "causes"), SAVED, ids=[x for x, _, _ in SAVED])
def test_removing_a_cause_saves_what_it_was_said_to_cost(slow: str, fast: str, causes: set[str]) -> None:
    found = report(slow)
    said = sum(c.share for c in found.causes if c.name in causes)
    saved = 1 - TIMES[fast] / TIMES[slow]
    assert said == pytest.approx(saved, abs=0.12), found.lines()
    assert found.named[0].name in causes
