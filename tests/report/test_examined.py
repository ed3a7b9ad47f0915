"""The examination's lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evolve.report.examined import examined_lines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
RIGHT = {"verdict": "right", "speedup": 1.9, "fraction": 0.71}
PASSED: dict[str, Any] = {
    "candidate": 3,
    "state": "passed",
    "retimed": {
        "speedup": 1.95,
        "ratio_interval": [[1.94, 1.96], [1.92, 1.95]],
        "noise_interval": [[0.999, 1.002]],
    },
    "held_out": (RIGHT, RIGHT | {"speedup": 2.1, "fraction": 0.75}),
    "perturbed": ({"verdict": "right"},),
    "sanitizer": {"state": "clean"},
    "counters": {"state": "not permitted", "message": "this user may not"},
    "secret": "1f",
}


def test_one_line_when_it_passed() -> None:
    assert list(examined_lines(PASSED)) == [
        "examined after the search: timed once more, 1.95x the speed of the original (95 %: 1.920 to 1.960, "
        "by chance: 0.999 to 1.002); right at 2 of 2 held-out sizes, there 1.90 to 2.10x the speed of the "
        "original and 0.710 to 0.750 of the speed of light; 1 of 1 times right with one input element "
        "changed; compute-sanitizer: clean; Nsight Compute: not permitted"
    ]
    assert list(examined_lines(None)) == []


def test_what_the_gpu_counted() -> None:
    counters = {"state": "counted", "limiter": "memory", "near_limit": True, "memory": 0.914, "compute": 0.3}
    (line,) = examined_lines(PASSED | {"counters": counters})
    assert line.endswith(
        "; by the GPU's counters limited by memory, near the limit "
        "(memory at 91% of its peak, compute at 30%)"
    )


def test_failures_come_first_and_some_of_many() -> None:
    failed = PASSED | {"state": "failed", "failures": tuple(f"bad {i}" for i in range(6))}
    lines = list(examined_lines(failed))
    assert lines[0].startswith("THE BEST PROGRAM FAILED")
    assert lines[1:6] == [*(f"    failed: bad {i}" for i in range(4)), "    and 2 more"]


def test_what_was_not_judged_is_said() -> None:
    got = list(examined_lines(PASSED | {"state": "incomplete", "open_points": ("racecheck: too slow",)}))
    assert got[-1] == "    not judged: racecheck: too slow"


@given(st.dictionaries(st.sampled_from(sorted([*PASSED, "failures", "open_points"])), JSON))
def test_whatever_a_log_holds_there_is_an_answer(examined: dict[str, Any]) -> None:
    assert all(isinstance(line, str) for line in examined_lines(examined))
