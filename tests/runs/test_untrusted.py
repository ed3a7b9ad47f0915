"""A run folder may come from anybody: whatever its log says, commands answer or refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from evolve.events.log import line_hash, read_log
from evolve.ir.errors import EvolveError
from evolve.report.story import candidate_text, run_text
from evolve.report.table import final_table
from evolve.report.units import harmless
from evolve.runs.folder import RunFolder
from evolve.runs.session import replay
from evolve.runs.story import candidate_story, run_story
from evolve.runs.summary import fold
from tests.runs.helpers import run

VALUES: list[Any] = [0, 1, -1, 7, 10**6, 0.5, "", "x", "scored", None, [], {}, [3], True]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("whole") / "run", budget=12)


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += spots(item, (*path, key))
    return found


def chained(events: list[dict[str, Any]]) -> bytes:
    """The log of these events, numbered and hashed as a writer would."""
    data, prev = b"", ""
    for seq, event in enumerate(events):
        line = json.dumps({**event, "seq": seq, "prev": prev}, separators=(",", ":")).encode() + b"\n"
        data, prev = data + line, line_hash(line)
    return data


@hypothesis_settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_edited_log_is_answered_or_refused(
    whole: RunFolder, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    events = [json.loads(line) for line in whole.log.read_bytes().splitlines()]
    assert chained(events).count(b"\n") == len(events)
    at = data.draw(st.integers(0, len(events) - 1))
    match data.draw(st.sampled_from(["edit", "edit", "edit", "drop", "repeat", "swap"])):
        case "edit":
            path = data.draw(st.sampled_from(spots(events[at]["body"])))
            spot = events[at]["body"]
            for key in path[:-1]:
                spot = spot[key]
            spot[path[-1]] = data.draw(st.sampled_from(VALUES))
        case "drop":
            del events[at]
        case "repeat":
            events.insert(at, events[at])
        case _:
            other = data.draw(st.integers(0, len(events) - 1))
            events[at], events[other] = events[other], events[at]
    folder = RunFolder(tmp_path_factory.mktemp("edited"), "edited")
    (folder.path / "blobs").symlink_to(whole.path / "blobs")
    folder.log.write_bytes(chained(events))
    try:
        view = fold(read_log(folder.log).events)
        story = run_story(view, folder)
        run_text(story)
        final_table(story, folder.path)
        for number in range(len(view.state.proposals) + 1):
            candidate_text(candidate_story(view, folder, number))
    except EvolveError as error:
        assert error.code in ("damaged-log", "damaged-blob", "newer-log")
    try:
        replay(folder)
    except EvolveError as error:
        assert error.code in ("damaged-log", "damaged-blob", "newer-log", "diverged")


def test_terminal_control_is_not_printed() -> None:
    assert (
        harmless("a\x1b]0;title\x07\tb\nc\x9b2J\x7f\u202e")
        == "a\ufffd]0;title\ufffd\tb\nc\ufffd2J\ufffd\ufffd"
    )
    assert harmless("π ≤ ∞, 速い") == "π ≤ ∞, 速い"


def test_a_blob_name_cannot_reach_other_files(whole: RunFolder, tmp_path: Path) -> None:
    events = [json.loads(line) for line in whole.log.read_bytes().splitlines()]
    events[0]["body"]["source"] = "../../../etc/passwd"
    folder = RunFolder(tmp_path, "edited")
    folder.log.write_bytes(chained(events))
    view = fold(read_log(folder.log).events)
    with pytest.raises(EvolveError) as caught:
        run_story(view, folder)
    assert caught.value.code == "damaged-log"
