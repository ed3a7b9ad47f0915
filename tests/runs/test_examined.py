"""An examination in the log: it is shown, and changes nothing that the search decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from evolve.devices.cuda.sanitizer import Finding, Sanitized
from evolve.events.log import EventWriter, read_log
from evolve.events.schema import EVENT, Event, Examined
from evolve.ir.errors import EvolveError
from evolve.report.display import PlainDisplay
from evolve.report.evidence import evidence_text
from evolve.report.story import run_text
from evolve.report.table import final_table
from evolve.runs.evidence import evidence
from evolve.runs.examination import as_event, is_due
from evolve.runs.folder import RunFolder
from evolve.runs.session import replay
from evolve.runs.story import run_story
from evolve.runs.summary import RunView, as_document, fold
from evolve.scoring.final import Examination, Retimed
from evolve.scoring.held_out import HeldOut
from evolve.scoring.perturbed import Perturbed
from tests.runs.helpers import run
from tests.search.fake import FakeProblem

HELD_OUT = {"verdict": "right", "speedup": 2.0, "fraction": 0.8}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return run(tmp_path / "run", budget=8)


def view(folder: RunFolder) -> RunView:
    return fold(read_log(folder.log).events)


def examined(folder: RunFolder, **fields: object) -> Examined:
    """Appends an examination of the champion."""
    given = {
        "candidate": view(folder).state.champion,
        "state": "passed",
        "held_out": (HELD_OUT,),
        "sanitizer": {"state": "clean"},
        "secret": "1f",
    }
    body = Examined.model_validate(given | fields)
    with EventWriter(folder.path) as writer:
        writer.append(body)
    return body


def test_without_an_examination(folder: RunFolder) -> None:
    document = as_document(view(folder), folder.name, folder.blobs)
    assert document["examined"] is None
    assert "examined" not in final_table(document, folder.path)
    assert "examined" not in evidence_text(evidence(view(folder)))


def test_it_is_in_every_answer(folder: RunFolder) -> None:
    before = as_document(view(folder), folder.name, folder.blobs)
    body = examined(folder)
    after = as_document(view(folder), folder.name, folder.blobs)
    assert EVENT.validate_python(read_log(folder.log).events[-1]).body == body
    assert {**after, "examined": None, "wall_s": 0} == {**before, "wall_s": 0}
    assert after["examined"]["state"] == "passed" and after["examined"]["secret"] == "1f"
    json.dumps(after, allow_nan=False)
    line = "examined after the search: right at 1 of 1 held-out sizes, there 2.00x the speed of the original"
    assert line in final_table(after, folder.path)
    assert line in run_text(run_story(view(folder), folder))
    text = evidence_text(evidence(view(folder)))
    assert "  examined  examined after the search" in text and "the secret 1f" in " ".join(text.split())


def test_the_display_says_it_when_it_happens(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    body = examined(folder)
    display = PlainDisplay()
    for event in read_log(folder.log).events[:-1]:
        display.observe(event.body, True)
    display.observe(body, True)
    assert capsys.readouterr().err == ""
    display.observe(body, False)
    assert capsys.readouterr().err.startswith("examined after the search: right at 1 of 1")


def test_replay_agrees(folder: RunFolder) -> None:
    champion = view(folder).state.champion
    examined(folder)
    assert replay(folder).champion == champion


def test_a_failure_cannot_be_overlooked(folder: RunFolder) -> None:
    failures = ("n=5: 3 elements of y are wrong",)
    examined(folder, state="failed", failures=failures, held_out=({"verdict": "failed"},))
    document = as_document(view(folder), folder.name, folder.blobs)
    assert document["examined"]["state"] == "failed"
    for text in (final_table(document, folder.path), run_text(run_story(view(folder), folder))):
        assert "FAILED THE EXAMINATION" in text and "failed: n=5: 3 elements of y are wrong" in text


def test_it_is_about_the_best_program_after_the_search(folder: RunFolder) -> None:
    examined(folder, candidate=view(folder).state.champion + 1)
    with pytest.raises(EvolveError) as error:
        view(folder)
    assert error.value.code == "damaged-log"


def test_it_is_due_once_and_only_where_times_are_measured(folder: RunFolder, tmp_path: Path) -> None:
    assert not is_due(read_log(folder.log).events)
    measured = run(tmp_path / "measured", budget=8, problem=FakeProblem(timing="measured"))
    events = read_log(measured.log).events
    assert is_due(events) and not is_due(events[:-1])
    examined(measured)
    assert not is_due(read_log(measured.log).events)


def test_an_event_is_made_of_what_scoring_found() -> None:
    held_out = HeldOut({"n": 5}, -1, "right", "", 1e-6, 2e-6, 0.5)
    finding = Finding("racecheck", "Race reported", "k", 144, 13, (1, 0, 0), (2, 0, 0))
    perturbed = Perturbed({"n": 5}, 0, "x", 3, 1)
    again = Retimed(1e-6, 2e-6, True, False, ((1.9, 2.1),), ((0.99, 1.01),))
    found = Examination(again, (held_out,), (perturbed,), Sanitized(True, (finding,)), 31)
    body = as_event(7, found.to_json())
    assert (body.candidate, body.state, body.secret) == (7, "failed", "1f")
    assert body.retimed["speedup"] == 2.0 and body.retimed["noise_interval"] == [[0.99, 1.01]]
    assert body.held_out[0]["speedup"] == 2.0 and body.perturbed[0]["array"] == "x"
    assert body.sanitizer["findings"][0]["thread"] == [1, 0, 0]
    assert EVENT.validate_json(EVENT.dump_json(Event(seq=0, t=1.0, prev="", body=body))).body == body


@pytest.mark.parametrize("field", [{"secret": "0x1f"}, {"secret": ""}, {"state": "fine"}, {"more": 1}])
def test_what_it_may_hold(field: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Examined.model_validate({"candidate": 1, "state": "passed", "secret": "1f"} | field)
