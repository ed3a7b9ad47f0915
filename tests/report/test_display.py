"""What people see while a search runs."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from evolve.events.log import read_log
from evolve.events.schema import Champion
from evolve.report.display import PlainDisplay, make_display
from evolve.report.live import LiveDisplay
from evolve.report.progress import Progress
from evolve.report.table import final_table
from evolve.report.units import duration, microseconds
from evolve.runs.folder import RunFolder
from evolve.runs.summary import as_document, fold
from tests.runs.helpers import run
from tests.search.fake import FakeProblem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("run") / "run")


def test_plain_lines(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with PlainDisplay() as display:
        display.announce(folder.path, FakeProblem().info())
        for event in read_log(folder.log).events:
            display.observe(event.body, False)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert "times are estimated" in lines[0]
    assert "assumed: x and y do not overlap" in lines
    assert any(line.startswith("baseline: ") for line in lines)
    fitness = [
        float(found[1]) for line in lines if (found := re.match(r"candidate \d+: .*, ([\d.]+) of", line))
    ]
    assert fitness == sorted(fitness) and len(fitness) > 1
    assert [line.split(" scored")[0] for line in lines if " scored (" in line] == [
        f"{n} of 40" for n in (10, 20, 30, 40)
    ]
    assert not any(" left" in line for line in lines if line.startswith("40 of 40"))
    assert not any(" scored" in line.split("(")[1] for line in lines if " scored (" in line)
    for status in ("compile failed", "incorrect", "quarantined"):
        assert any(re.match(rf"candidate \d+: {status}: \w", line) for line in lines), status
    assert lines[-1] == "stopped: the budget is spent"


def test_recorded_events_are_not_told_again(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    for event in read_log(folder.log).events:
        display.observe(event.body, True)
    assert capsys.readouterr().err == ""


def test_what_is_faster_by_less_than_is_shown_says_by_how_much(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    display = PlainDisplay()
    events = [event.body for event in read_log(folder.log).events]
    for body in events:
        display.observe(body, False)
    assert "% faster" not in capsys.readouterr().err
    last = [body for body in events if isinstance(body, Champion)][-1]
    display.observe(last.model_copy(update={"time_us": last.time_us / 1.0001}), False)
    assert capsys.readouterr().err.endswith("of the speed of light (0.01 % faster)\n")


def test_no_terminal_no_cursor_games() -> None:
    assert isinstance(make_display(), PlainDisplay)


def test_live_display_shows_funnel_best_and_budget(folder: RunFolder) -> None:
    events = [event.body for event in read_log(folder.log).events]
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    with LiveDisplay(console) as display:
        display.announce(folder.path, FakeProblem().info())
        for body in events:
            display.observe(body, False)
        console.print(display.render())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    document = as_document(fold(read_log(folder.log).events), folder.name, folder.blobs)
    for text in (
        "40/40 of the budget",
        f"{document['best']['fitness']:.3f} of the speed of light",
        f"candidate {document['best']['candidate']}",
        *(stage.replace("_", " ") for stage in document["funnel"]),
        "quarantined: faster than physics",
    ):
        assert text in shown, text


def test_time_left_follows_the_pace_of_this_process(folder: RunFolder) -> None:
    now = 0.0
    progress = Progress(clock=lambda: now)
    bodies = [event.body for event in read_log(folder.log).events]
    half = next(
        i
        for i in range(len(bodies))
        if sum(b.kind == "result" and b.status == "scored" for b in bodies[:i]) == 20
    )
    for body in bodies[:half]:
        progress.apply(body, True)
    assert progress.time_left_s() is None
    for body in bodies[half:]:
        progress.apply(body, False)
        now += body.kind == "result" and body.status == "scored"
        if progress.state.scored == 30:
            break
    assert progress.time_left_s() == pytest.approx(10, abs=1)


def test_final_table(folder: RunFolder) -> None:
    document = as_document(fold(read_log(folder.log).events), folder.name, folder.blobs)
    table = final_table(document, Path("runs/x"))
    for text in ("time (estimated)", "baseline", "speed of light", "bound: dram", "1.00x", "runs/x/best.cu"):
        assert text in table
    assert f"{document['best']['speedup']:.2f}x" in table
    assert "no gain" not in table
    document["best"]["speedup"] = 1.0049
    assert "  no gain: best.cu is the kernel as given" in final_table(document, Path("runs/x"))
    document["workload"] = {"sizes": {"rows": 1024, "cols": 64, "alpha": 1.25}}
    title = final_table(document, Path("runs/x")).splitlines()[0]
    assert title.endswith(", rows=1024, cols=64")
    document["workload"] = {"timed": [{"n": 8, "flag": flag, "alpha": 1.25} for flag in (1, 0)]}
    title = final_table(document, Path("runs/x")).splitlines()[0]
    assert title.endswith(", sum of 2 launches: n=8, flag=1; n=8, flag=0")
    document["best"]["text"] = {"status": "UNKNOWN", "reason": "a goto", "line": 44}
    assert "text: not read back: line 44 of best.cu: a goto" in final_table(document, Path("runs/x"))
    assert "the budget is spent" in table and "1 quarantined" in table


def test_the_final_table_says_for_which_launches_the_best_is(folder: RunFolder) -> None:
    document = as_document(fold(read_log(folder.log).events), folder.name, folder.blobs)
    assert "for launches with" not in final_table(document, Path("runs/x"))
    document["best"]["program"] = "specialize(cols == 8192 and rows <= 65535)\nbind(row, grid.x)\n"
    assert (
        "  for launches with cols == 8192 and rows <= 65535: others run the kernel as given"
        in final_table(document, Path("runs/x"))
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.5, "0.5 us"),
        (12.345, "12.3 us"),
        (133.04, "133.0 us"),
        (5240, "5.24 ms"),
        (2.5e6, "2.5 s"),
    ],
)
def test_microseconds(value: float | None, text: str) -> None:
    assert microseconds(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
