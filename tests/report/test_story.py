"""What `show` and `report` tell people: units, reasons, and what a result rests on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.events.log import read_log
from evolve.events.schema import ReadBack
from evolve.report.evidence import NUMERICS, evidence_text
from evolve.report.story import candidate_text, run_text
from evolve.runs.evidence import evidence
from evolve.runs.folder import RunFolder
from evolve.runs.story import candidate_story, run_story
from evolve.runs.summary import RunView, fold, shipped_text
from evolve.workload.model import Contract
from tests.runs.helpers import run

GAP = {
    "bound_s": 129.7e-6,
    "bound_by": "dram",
    "limiter": "memory",
    "causes": [
        {
            "name": "shared_traffic",
            "seconds": 3.4e-6,
            "share": 0.02,
            "primitives": ["tile"],
            "advice": "less",
            "evidence": "seen",
        },
        {"name": "tail", "seconds": 1e-9, "share": 1e-5, "primitives": [], "advice": "nothing"},
    ],
    "doubts": ["trip counts were corrected"],
}
DETAIL = {
    "timed_variants": [0, -1],
    "times_us": [136.488, 5240.0],
    "conditions": ["cols == 8192"],
    "registers": [32, 32],
    "shared_bytes": [128],
    "local_bytes": [0],
    "runs_checked": 8,
    "worst_error": 0.0170532,
    "shapes_checked": [{"rows": n, "cols": 8192} for n in range(1, 9)],
    "estimate": {
        "terms": {"dram": 129.7e-6, "alu": 17e-6},
        "shares": {"dram": 121e-6, "alu": 0.0},
        "facts": {"dram_read": 268435456.0, "occupancy": 0.625, "spill_share": 0.0, "unheard_of": 3.0},
    },
}
STORY: dict[str, Any] = {
    "candidate": 3,
    "program": "bind(row, grid.x)\n",
    "operator": "sketch",
    "parents": [],
    "status": "scored",
    "time_us": 5376.5,
    "fitness": 0.95,
    "timing": "estimated",
    "timed": [{"rows": 8192, "cols": 8192}, {"rows": 8192, "cols": 8193}],
    "verdict": "PROVED",
    "diagnostics": [],
    "gap": GAP,
    "detail": DETAIL,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("run") / "run")


def view(folder: RunFolder) -> RunView:
    return fold(read_log(folder.log).events)


def test_a_candidate_in_words_and_units() -> None:
    lines = [line.strip() for line in candidate_text(STORY).splitlines()]
    for line in (
        "candidate 3 (sketch): scored, 5.38 ms (estimated), 0.950 of the speed of light",
        "verdict: PROVED",
        "variant 1 runs where cols == 8192; elsewhere the original does",
        "checked: 8 runs against the float64 reference; the largest error is 0.017 of what is allowed",
        "speed of light of the first of 2 launches (so is all below but times): 129.7 us, bound by dram; "
        "limited by memory",
        "needs: 32 registers a thread, 128 bytes of shared memory a block, 0 bytes of local memory a thread",
        "at rows=8192, cols=8192: 136 us, by variant 1",
        "at rows=8192, cols=8193: 5.24 ms, by the original",
        "121 us  DRAM (busy for 130 us)",
        "3.40 us    2%  shared-memory traffic: seen",
        "less [tile]",
        "268 MB  read from DRAM",
        "62%  of the warps that an SM can hold",
        "trip counts were corrected",
    ):
        assert line in lines, line
    internal = [name for name in (*DETAIL, "dram_read", "unheard_of", "e-06") if "_" in name or "-" in name]
    assert not [name for name in internal if name in " ".join(lines)]


def test_a_refusal_in_words() -> None:
    reason = {
        "code": "E-RACE",
        "statement": 0,
        "line": 1,
        "message": "a race",
        "witness": None,
        "repair": "sync",
    }
    refused = {**STORY, "status": "illegal", "verdict": "REFUTED", "time_us": None, "diagnostics": [reason]}
    lines = [line.strip() for line in candidate_text({**refused, "gap": {}, "detail": {}}).splitlines()]
    assert "line 1: E-RACE: a race" in lines and "repair: sync" in lines
    assert not [line for line in lines if line.startswith(("statement", "witness"))]


def test_every_failure_after_the_proof_is_told_with_its_reason(folder: RunFolder) -> None:
    story = run_story(view(folder), folder)
    failed = {one["status"]: one for one in story["failures"]}
    assert set(failed) == {"compile_failed", "incorrect", "quarantined"}
    shown = run_text(story)
    for status, one in failed.items():
        line = f"candidate {one['candidate']}: {status.replace('_', ' ')}: {one['message']}"
        assert one["message"] and line in shown.splitlines()
        assert line.split(": ", 1)[1] in candidate_text(
            candidate_story(view(folder), folder, one["candidate"])
        )


def test_the_ways_of_making_programs_stand_under_a_heading(folder: RunFolder) -> None:
    story = run_story(view(folder), folder)
    lines = run_text(story).splitlines()
    at = lines.index("how programs were made, and what became of them:")
    below = lines[at + 1 :]
    assert [x.split(":")[0].strip() for x in below] == list(story["operators"])
    assert all(x.startswith("    ") for x in below)


def test_the_report_tells_what_the_result_rests_on(folder: RunFolder) -> None:
    found = evidence(view(folder))
    found["proved"] |= {"conditions": ["cols == 8192"], "premises": ["the input has starts[0] == 0"]}
    found["checked"].update(runs=8, worst_error=0.017, shapes=DETAIL["shapes_checked"], families=["ones"])
    found["timed"]["sizes"] = [{"rows": 8192}]
    text = " ".join(evidence_text(found).split())
    for said in (
        "given kernel fake of fake.cu (sha256 ",
        "assumed x and y do not overlap",
        f"numerics reassociate: {NUMERICS['reassociate']}",
        f"proved candidate {found['candidate']}: its loops compute what the kernel's compute",
        "variant 1 wherever cols == 8192; elsewhere the original runs",
        "resting on: the input has starts[0] == 0",
        "the CUDA text of its kernels is proved too: read back,",
        "8 runs without a finding, the largest error 0.017 of what is allowed",
        "on the CPU, thread by thread",
        "at rows=1, cols=8192;",
        "and 2 more",
        "not executed at the timed sizes",
        "estimated for h200-sxm at rows=8192",
        "no GPU ran it",
        "the hard bound of 80 us",
    ):
        assert said in text, said
    measured = {**found, "timed": {**found["timed"], "timing": "measured"}}
    text = " ".join(evidence_text(measured).split())
    assert "measured on this machine's GPU" in text and "estimated" not in text and "on the CPU" not in text


@pytest.mark.parametrize(
    ("status", "reason", "line", "said"),
    [
        ("PROVED", "", 0, "the CUDA text of its kernels is proved too: read back,"),
        ("", "", 0, "checked, not proved: that it was read back is not on record"),
        ("UNKNOWN", "a goto", 7, "checked, not proved: it is not read back (line 7 of best.cu: a goto)"),
        (
            "REFUTED",
            "m differs",
            0,
            "the CUDA text is REFUTED: it does something else than the loops (m differs)",
        ),
    ],
)
def test_the_report_says_what_reading_the_text_back_came_to(
    folder: RunFolder, status: str, reason: str, line: int, said: str
) -> None:
    found = evidence(view(folder))
    found["proved"]["text"] = {"status": status, "reason": reason, "line": line}
    text = " ".join(evidence_text(found).split())
    assert said in text and ("read back is not on record" in text) == (status == "")
    assert ("is proved too" in text) == (status == "PROVED")


def test_the_line_of_a_text_is_one_of_best_cu(folder: RunFolder) -> None:
    seen = view(folder)
    unread = ReadBack(candidate=seen.shipped, status="UNKNOWN", reason="a goto", line=7)
    seen.read_back[seen.shipped] = unread
    head = (folder.path / "best.cu").read_text().partition("\n\n")[0].count("\n") + 2
    found = shipped_text(seen)
    assert found is not None and found["reason"] == "a goto"
    assert found["line"] == head + 1 + 7, "the reason has a line of its own"
    assert evidence(seen)["proved"]["text"] == found


def test_times_of_several_launches_are_called_a_sum(folder: RunFolder) -> None:
    found = evidence(view(folder))
    found["timed"]["sizes"] = [{"n": 64, "flag": 1}, {"n": 64, "flag": 0}]
    text = " ".join(evidence_text(found).split())
    assert "at n=64, flag=1; n=64, flag=0 (times are the sum of 2 launches)" in text


def test_a_baseline_that_nothing_beats_claims_no_proof(folder: RunFolder) -> None:
    found = evidence(view(folder))
    found["candidate"] = 0
    text = " ".join(evidence_text(found).split())
    assert "proved nothing: the best is the kernel as given" in text and "its loops" not in text


def test_every_contract_is_explained() -> None:
    assert set(NUMERICS) == set(Contract.__args__)  # type: ignore[attr-defined]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_figures_that_somebody_edited_are_left_out_not_fatal(data: st.DataObject) -> None:
    def edited(value: Any) -> Any:
        if data.draw(st.integers(0, 4)) == 0:
            return data.draw(JSON)
        if isinstance(value, dict):
            return {k: edited(v) for k, v in value.items()}
        return [edited(v) for v in value] if isinstance(value, list) else value

    gap, detail = edited(GAP), edited(DETAIL)
    candidate_text({**STORY, "gap": gap, "detail": detail, "timed": edited(STORY["timed"])})
    found = {"candidate": 3, "proved": {"verdict": "PROVED", "conditions": ["x"]}, "checked": DETAIL}
    evidence_text({name: edited(value) for name, value in found.items()})
