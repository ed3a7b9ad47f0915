"""How a time was measured, in words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evolve.report.evidence import evidence_text
from evolve.report.story import candidate_text
from evolve.report.timing import timing_lines
from tests.report.test_examined import JSON
from tests.report.test_story import STORY

SHAPES = [{"n": 100}, {"n": 200}]
DETAIL: dict[str, Any] = {
    "samples_us": [[12.0, 11.0, 13.0, 12.0, 12.0, 11.5, 12.5, 12.0, 12.0, 30.0], [500.0, 501.0]],
    "timing": [
        {
            "floor_us": 2.5,
            "warm_us": 7.5,
            "batch": {"launches": 16, "us": [5.0], "floor_us": [2.0], "kernel_us": 3.0},
            "checked_launches": 53,
            "same_bits": True,
            "clocks": [{"sm_mhz": 1980}, {"sm_mhz": 1965}],
            "clock_moved": False,
            "right_by": "reference",
            "input_sets": 3,
        },
        {
            "floor_us": 2.5,
            "batch": None,
            "checked_launches": 9,
            "same_bits": False,
            "clocks": [{"sm_mhz": 1980, "reasons": []}, {"sm_mhz": 1500, "reasons": ["power cap"]}],
            "clock_moved": True,
            "right_by": "original",
            "input_sets": 1,
        },
    ],
    "families_not_judged_timed": ["wide"],
}


def test_all_that_matters_is_said() -> None:
    assert list(timing_lines(DETAIL, SHAPES)) == [
        "at n=100: 10 samples, L2 cold and clean before each: median 12 us, least 11 us, 90 % below 30 us; "
        "an empty launch takes 2.5 us",
        "    warm, with what L2 held before: 7.5 us, which the score does not count",
        "    in batches of 16 it takes 3 us longer than an empty launch",
        "    what 53 timed launches on 3 sets of inputs left was checked by the float64 reference",
        "    the same bits each time",
        "    SM clock 1980 MHz before and 1965 after",
        "at n=200: 2 samples, L2 cold and clean before each: median 500.5 us, least 500.0 us, 90 % below "
        "501.0 us; an empty launch takes 2.5 us",
        "    what 9 timed launches on 1 set of inputs left was checked by what the original leaves, within "
        "twice the tolerance",
        "    not the same bits each time, all within the tolerance",
        "    SM clock 1980 MHz before and 1500 after, which moved in two attempts; held down by: power cap",
        "inputs on which nobody is judged at a timed size, as nothing tells what is right: wide",
    ]


def test_an_estimate_was_not_timed() -> None:
    assert list(timing_lines({"times_us": [3.0]}, SHAPES)) == []
    assert "how it was timed" not in candidate_text(STORY)


def test_show_and_report_have_it() -> None:
    measured = STORY | {"timing": "measured", "timed": SHAPES, "detail": STORY["detail"] | DETAIL}
    assert "how it was timed:\n    at n=100: 10 samples" in candidate_text(measured)
    timed = {"kind": "cuda", "profile": "h200-sxm", "timing": "measured", "sizes": SHAPES, "detail": DETAIL}
    assert "the same bits each time" in evidence_text({"timed": timed})


@given(st.dictionaries(st.sampled_from(sorted(DETAIL)), JSON), JSON)
def test_whatever_a_log_holds_there_is_an_answer(detail: dict[str, Any], one: Any) -> None:
    for made in (detail, {"timing": [one], "samples_us": [one]}):
        assert all(isinstance(line, str) for line in timing_lines(made, [one]))
