"""Start, resume, replay: the same candidates whatever happened to the process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.events.log import EventWriter, read_log
from evolve.events.schema import Body, Paused, Resumed, Settings
from evolve.ir.errors import EvolveError
from evolve.runs.folder import RunFolder, find_run
from evolve.runs.session import replay, resume, start
from evolve.runs.summary import as_document, fold, read_view
from evolve.search.problem import Comparison, Compiled, ProblemInfo, Score, Sol
from evolve.search.state import FUNNEL
from tests.runs.helpers import REQUEST, after, run, session
from tests.search.fake import SOL_US, FakeProblem


def story(folder: RunFolder) -> list[Body]:
    """What the search did, without what processes did."""
    bodies = [event.body for event in read_log(folder.log).events]
    return [body for body in bodies if not isinstance(body, Paused | Resumed)][1:]


def document(folder: RunFolder) -> dict[str, object]:
    return as_document(fold(read_log(folder.log).events), folder.name, folder.blobs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("whole") / "run")


def test_run_spends_its_budget_and_fills_every_stage_of_the_funnel(whole: RunFolder) -> None:
    found = document(whole)
    assert found["budget"] == {"limit": 40, "scored": 40}
    assert found["stopped"] == "budget"
    funnel = found["funnel"]
    assert isinstance(funnel, dict) and list(funnel) == list(FUNNEL)
    assert all(funnel[stage] for stage in FUNNEL if stage not in ("prefiltered", "miscompiled")), funnel
    assert funnel["prefiltered"] == 0  # that is for measured times
    assert funnel["miscompiled"] == 0  # its texts have nothing in them that could differ
    assert funnel["proposed"] == sum(funnel.values()) - funnel["proposed"]


def test_run_finds_a_faster_program_and_writes_it(whole: RunFolder) -> None:
    found = document(whole)
    best, baseline = found["best"], found["baseline"]
    assert isinstance(best, dict) and isinstance(baseline, dict)
    assert best["fitness"] > 4 * baseline["fitness"]
    assert best["speedup"] == pytest.approx(baseline["time_us"] / best["time_us"])
    assert best["time_us"] == pytest.approx(SOL_US / best["fitness"])
    assert (whole.path / "best.dsl").read_text() == best["program"]
    text = (whole.path / "best.cu").read_text()
    assert text.endswith(best["source"]) and text != best["source"]
    assert (whole.path / "workload.toml").read_text() == "rows = 4\n"
    json.dumps(found, allow_nan=False)


def test_same_seed_same_run_other_seed_other_run(whole: RunFolder, tmp_path: Path) -> None:
    assert story(run(tmp_path / "again")) == story(whole)
    other = run(tmp_path / "other", settings=Settings(budget=40, seed=4, patience=40))
    assert story(other) != story(whole)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_and_their_order_change_nothing(whole: RunFolder, tmp_path: Path, workers: int) -> None:
    parallel = run(tmp_path / "run", problem=FakeProblem(jitter_s=0.003), workers=workers)
    assert story(parallel) == story(whole)


def test_resume_after_a_cut_at_every_event_boundary(whole: RunFolder, tmp_path: Path) -> None:
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines)):
        cut = tmp_path / str(kept)
        shutil.copytree(whole.path, cut)
        (cut / "events.jsonl").write_bytes(b"".join(lines[:kept]))
        resume(find_run(str(cut)), session())
        assert story(RunFolder(cut, "cut")) == story(whole), kept
        shutil.rmtree(cut)


def test_resume_after_a_cut_in_the_middle_of_a_line(whole: RunFolder, tmp_path: Path) -> None:
    data = whole.log.read_bytes()
    lines = data.splitlines(keepends=True)
    for kept in range(2, len(lines), 7):
        start_of_line = sum(map(len, lines[:kept]))
        for extra in (1, len(lines[kept]) // 2, len(lines[kept]) - 1):
            cut = tmp_path / f"{kept}-{extra}"
            shutil.copytree(whole.path, cut)
            (cut / "events.jsonl").write_bytes(data[: start_of_line + extra])
            resume(find_run(str(cut)), session())
            assert story(RunFolder(cut, "cut")) == story(whole), (kept, extra)


def test_interrupted_and_resumed_many_times(whole: RunFolder, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", interrupted=after(20))
    assert document(folder)["stopped"] == "interrupted"
    for _ in range(200):
        if document(folder)["stopped"] != "interrupted":
            break
        before = len(story(folder))
        resume(folder, session(interrupted=after(before + 25)))
    assert story(folder) == story(whole)


def test_kill_9_in_the_middle_then_resume(whole: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "run"
    script = (
        "import sys; from pathlib import Path; from tests.runs.helpers import run;"
        "from tests.search.fake import FakeProblem;"
        "run(Path(sys.argv[1]), problem=FakeProblem(jitter_s=0.01), workers=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(out)], start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (out / "events.jsonl").exists() and (out / "events.jsonl").read_bytes().count(b"\n") > 25:
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # the workers end with it
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    folder = find_run(str(out))
    assert len(story(folder)) < len(story(whole))
    resume(folder, session())  # also shows that workers left behind hold no lock
    assert story(folder) == story(whole)


def test_resume_of_a_finished_run_changes_nothing(whole: RunFolder) -> None:
    before = whole.log.read_bytes()
    resume(whole, session())
    assert whole.log.read_bytes() == before


def test_a_run_scored_by_another_bound_is_not_mixed(whole: RunFolder, tmp_path: Path) -> None:
    class Other(FakeProblem):
        def info(self) -> ProblemInfo:
            return replace(super().info(), sol=Sol(90.0, 80.0, "dram"))

    begun = run(tmp_path / "begun", interrupted=after(12))
    before = begun.log.read_bytes()
    with pytest.raises(EvolveError) as caught:
        resume(begun, session(Other()))
    assert caught.value.code == "other-version"
    assert "100 us" in caught.value.message and "90 us" in caught.value.message
    assert begun.log.read_bytes() == before


def test_replay_decides_alike_and_executes_nothing(whole: RunFolder) -> None:
    state = replay(whole)
    assert state.stopped == "budget"
    assert state.funnel["scored"] == 40


def test_replay_of_an_unfinished_run_stops_where_it_ends(whole: RunFolder, tmp_path: Path) -> None:
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines), 5):
        (tmp_path / "events.jsonl").write_bytes(b"".join(lines[:kept]))
        state = replay(RunFolder(tmp_path, "cut"))
        assert state.stopped is None
        assert sum(state.funnel.values()) == sum(
            b'"kind":"proposed"' in x or b'"kind":"result"' in x for x in lines[:kept]
        )


def test_replay_refuses_another_decision(whole: RunFolder, tmp_path: Path) -> None:
    bodies = [event.body for event in read_log(whole.log).events]
    at = next(i for i, body in enumerate(bodies) if body.kind == "proposed" and i > 40)
    bodies[at] = bodies[at].model_copy(update={"program": "set(tile, 5)\n"})
    with EventWriter(tmp_path) as writer:
        for body in bodies:
            writer.append(body)
    with pytest.raises(EvolveError) as caught:
        replay(RunFolder(tmp_path, "edited"))
    assert caught.value.code == "diverged"


class _Revealing(FakeProblem):
    """A duel shows that `warps` 8 without a `tile` is wrong."""

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        settings = dict(second.payload.settings)
        if settings.get("warps") == 8 and "tile" not in settings:
            return Comparison(0.0, 0.0, True, wrong=1, message="y[3] is wrong")
        return super().compare(first, second)


def test_a_champion_that_a_duel_shows_wrong_is_scored_no_longer(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", problem=_Revealing(timing="measured"))
    bodies = story(folder)
    wrong = {body.wrong for body in bodies if body.kind == "compared"} - {None}
    assert wrong, "the search met it"
    view = read_view(folder)
    assert not wrong & set(view.champions) and view.state.champion not in wrong
    assert {view.state.results[n].status for n in wrong} == {"incorrect"}
    held = {e.proposal for island in view.state.archive.islands for e in island.values()}
    assert not wrong & held
    assert document(folder)["funnel"]["incorrect"] >= len(wrong)
    assert replay(folder).champion == view.state.champion
    best = view.state.proposals[view.state.champion].program
    assert (folder.path / "best.dsl").read_text() == best


def test_measured_devices_confirm_every_champion(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", problem=FakeProblem(timing="measured"))
    bodies = story(folder)
    for at, body in enumerate(bodies):
        if body.kind == "champion":
            compared = bodies[at - 1]
            assert compared.kind == "compared" and compared.better
            assert compared.challenger == body.proposal
    compared = sum(body.kind == "compared" for body in bodies)
    scored = sum(body.kind == "result" and body.status == "scored" for body in bodies)
    # What was in flight when a duel took the last of the budget is folded all the same.
    assert compared and scored <= 40 - 2 and 40 <= scored + compared <= 40 + compared
    lines = folder.log.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines), 9):
        cut = tmp_path / str(kept)
        shutil.copytree(folder.path, cut)
        (cut / "events.jsonl").write_bytes(b"".join(lines[:kept]))
        resume(RunFolder(cut, "cut"), session(FakeProblem(timing="measured")))
        assert story(RunFolder(cut, "cut")) == bodies


@pytest.mark.parametrize("assumed", ["", 'grid = ["rows"] and block = ["32"]'])
def test_a_baseline_that_is_wrong_as_launched_names_an_assumed_launch(tmp_path: Path, assumed: str) -> None:
    class Wrong(FakeProblem):
        def info(self) -> ProblemInfo:
            return replace(super().info(), assumed_launch=assumed)

        def baseline(self) -> Score:
            return Score("incorrect", message="two threads write y[0]")

    with pytest.raises(EvolveError) as caught:
        run(tmp_path / "run", problem=Wrong())
    said = f"launched as is assumed, with {assumed}, " if assumed else ""
    assert caught.value.message == f"{said}the kernel as given fails its own check: two threads write y[0]"
    assert (caught.value.hint is not None and "[launch]" in caught.value.hint) == bool(assumed)


def test_a_failing_baseline_leaves_nothing_behind(tmp_path: Path) -> None:
    class Broken(FakeProblem):
        def baseline(self):  # type: ignore[no-untyped-def]
            raise EvolveError("baseline", "the kernel does not run")

    with pytest.raises(EvolveError, match="does not run"):
        start(REQUEST, Settings(budget=3), tmp_path / "a" / "b", session(Broken()))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_run_is_not_written_again(whole: RunFolder) -> None:
    before = whole.log.read_bytes()
    with pytest.raises(EvolveError) as caught:
        run(whole.path)
    assert caught.value.code == "run-exists"
    assert whole.log.read_bytes() == before


@pytest.mark.parametrize("out", ["/proc/evolve-run", "/dev/full", "/dev/full/run", "/sys/evolve-run"])
def test_folders_that_cannot_be_written(out: str) -> None:
    with pytest.raises(EvolveError) as caught:
        run(Path(out))
    assert caught.value.code == "cannot-write"
    assert out.split("/evolve")[0] in str(caught.value.file)


def test_a_file_size_limit_is_an_error_and_keeps_whole_lines(tmp_path: Path) -> None:
    script = """if True:
        import resource, sys
        from pathlib import Path
        from evolve.ir.errors import EvolveError
        from tests.runs.helpers import run
        limit = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            run(Path(sys.argv[1]))
        except EvolveError as error:
            print(error.code)
    """
    for limit, begun in ((100, False), (9000, True)):
        out = tmp_path / str(limit)
        done = subprocess.run(
            [sys.executable, "-c", script, str(out), str(limit)], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stdout) == (0, "cannot-write\n"), done.stderr
        assert out.exists() == begun
        if begun:
            assert not read_log(out / "events.jsonl").torn
            resume(find_run(str(out)), session())
            assert document(find_run(str(out)))["stopped"] == "budget"
        assert not list(tmp_path.rglob(".tmp-*"))


def test_a_dying_worker_costs_its_candidate_only(tmp_path: Path) -> None:
    class Killer:
        def propose(self, context):  # type: ignore[no-untyped-def]
            from evolve.agents.base import Proposal

            if context.ask:
                return []
            return [Proposal(f"set(tile, {tile})\n") for tile in (19, 64, 23, 32)]

    settings = Settings(budget=2, seed=1)
    folder = start(
        REQUEST, settings, tmp_path / "run", session(make_agent=lambda settings, prompts: Killer(), workers=2)
    )
    statuses = [body.status for body in story(folder) if body.kind == "result"]
    assert statuses[:2] == ["illegal", "scored"]
    assert document(folder)["budget"] == {"limit": 2, "scored": 2}
    codes = [d["code"] for b in story(folder) if b.kind == "result" for d in b.diagnostics]
    assert "E-INTERNAL" in codes


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_that_came_after_ctrl_c_is_not_recorded(tmp_path: Path, workers: int) -> None:
    """Ctrl-C in a terminal also reaches the processes that candidates run in, and they fail by it."""
    pressed = tmp_path / "pressed"

    class Terminal(FakeProblem):
        def score(self, compiled):  # type: ignore[no-untyped-def]
            if dict(compiled.payload.settings).get("tile") == 64:
                pressed.touch()
                return Score("incorrect", message="killed by SIGINT")
            return super().score(compiled)

    folder = run(tmp_path / "run", problem=Terminal(), workers=workers, interrupted=pressed.exists)
    assert document(folder)["stopped"] == "interrupted"
    assert not any(body.kind == "result" and "SIGINT" in body.message for body in story(folder))


def test_wall_time_counts_preparation_and_work_but_no_pauses(tmp_path: Path) -> None:
    class Slow(FakeProblem):
        def baseline(self):  # type: ignore[no-untyped-def]
            time.sleep(0.4)
            return super().baseline()

    folder = run(tmp_path / "run", budget=5, problem=Slow(), interrupted=after(10))
    first = fold(read_log(folder.log).events).wall_s
    assert first >= 0.4
    time.sleep(1.5)
    begun = time.monotonic()
    resume(folder, session())
    assert fold(read_log(folder.log).events).wall_s <= first + time.monotonic() - begun + 0.1
