"""Several agents, slow ones beside the search: what is recorded of them, and that it decides alike again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.base import AgentFailed, AgentLeft, Context, Proposal, Waiting
from evolve.agents.portfolio.agent import Portfolio
from evolve.agents.random import RandomAgent
from evolve.events.log import LOG_NAME, read_log
from evolve.events.schema import Asked, Body, Opened, Proposed, Result, Settings
from evolve.ir.errors import EvolveError
from evolve.runs.folder import RunFolder
from evolve.runs.session import Session, replay, resume, start
from evolve.runs.summary import read_view
from tests.runs.helpers import REQUEST, SketchAgent, after
from tests.search.fake import FakeProblem

Say = Callable[[int], str]


class Slow:
    """Answers ask n, from 0 on, when it has been looked for so often."""

    def __init__(self, say: Say, looks: Callable[[int], int] = lambda n: 3) -> None:
        self.say, self.looks = say, looks
        self.asked: list[int] = []
        self.given_up: list[int] = []

    def converse(self, context: Context) -> Waiting[Sequence[Proposal]]:
        self.asked.append(context.ask)
        try:
            for _ in range(self.looks(context.ask)):
                yield
        except GeneratorExit:
            self.given_up.append(context.ask)
            raise
        return [Proposal(self.say(context.ask))]


def fails(n: int) -> str:
    raise AgentFailed("it is gone")


def fails_for_good(n: int) -> str:
    raise AgentFailed("the key is wrong", for_good=True)


def good(n: int) -> str:
    return f"set(tile, {24 + n})\nset(width, 4)\n"


def bad(n: int) -> str:
    return f"set(width, {1000 + n})\n"


SETTINGS: dict[str, Any] = {"agent": "llm", "models": ("m/a", "m/b"), "seed": 5, "patience": 1000}


def session(agents: dict[str, Any], **fields: Any) -> Session:
    return Session(lambda request: FakeProblem(), lambda settings, prompts: Portfolio(agents), **fields)


def run(out: Path, agents: dict[str, Any], interrupted: Any = lambda: False, **fields: Any) -> RunFolder:
    settings = Settings(**(SETTINGS | {"budget": 30} | fields))
    return start(REQUEST, settings, out / "run", session(agents, interrupted=interrupted))


def bodies(folder: RunFolder) -> list[Body]:
    return [event.body for event in read_log(folder.log).events]


def of(folder: RunFolder, kind: type[Any]) -> list[Any]:
    return [body for body in bodies(folder) if isinstance(body, kind)]


def test_several_are_open_at_once_and_the_search_goes_on(tmp_path: Path) -> None:
    agents = {"m/a": Slow(good, lambda n: 40), "m/b": Slow(bad, lambda n: 7)}
    folder = run(tmp_path, agents)
    open_, most, meanwhile = dict[int, str](), 0, 0
    for body in bodies(folder):
        if isinstance(body, Opened):
            open_[body.ask] = body.arm
            most = max(most, len(open_))
            assert sum(arm == body.arm for arm in open_.values()) <= 2
        elif isinstance(body, Asked):
            open_.pop(body.ask, None)
        meanwhile += bool(open_) and isinstance(body, Result)
    assert most >= 3 and meanwhile >= 10
    numbers = [body.ask for body in of(folder, Asked) if body.arm]
    assert numbers != sorted(numbers), "who answers first is heard first"
    assert read_view(folder).state.scored == 30
    assert replay(folder).scored == 30


def test_replay_follows_the_record_and_notices_when_it_was_edited(tmp_path: Path) -> None:
    folder = run(tmp_path, {"m/a": Slow(good), "m/b": Slow(bad)})
    text = folder.log.read_text()
    opened = of(folder, Opened)[-1]
    other = {"m/a": "m/b", "m/b": "m/a"}[opened.arm]
    events = list(read_log(folder.log).events)
    swapped = [
        event.model_copy(update={"body": event.body.model_copy(update={"arm": other})})
        if isinstance(event.body, Opened | Asked) and event.body.ask == opened.ask
        else event
        for event in events
    ]
    from evolve.runs.session import opening_of, replay_events

    with pytest.raises(EvolveError) as caught:
        replay_events(*opening_of(folder, swapped), lambda body, recorded: None)
    assert caught.value.code == "diverged" and folder.log.read_text() == text


def test_cut_anywhere_it_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Agents that answer after a fixed number of looks: a kill changes when they come, and nothing else."""
    whole = run(tmp_path / "whole", {"m/a": Slow(good), "m/b": Slow(bad)}, budget=12)
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for cut in range(3, len(lines), 5):
        copy = RunFolder(tmp_path / str(cut), str(cut))
        copy.path.mkdir()
        for file in whole.path.rglob("*"):
            if file.is_file() and file.name != LOG_NAME:
                target = copy.path / file.relative_to(whole.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        copy.log.write_bytes(b"".join(lines[:cut]))
        resume(copy, session({"m/a": Slow(good), "m/b": Slow(bad)}))
        assert read_view(copy).state.scored == 12, cut
        assert copy.log.read_bytes().splitlines(keepends=True)[:cut] == lines[:cut]
        replay(copy)


def test_what_was_open_at_an_interrupt_is_asked_again(tmp_path: Path) -> None:
    first = {"m/a": Slow(good, lambda n: 10**9), "m/b": Slow(bad, lambda n: 10**9)}
    folder = run(tmp_path, first, interrupted=after(30))
    assert first["m/a"].given_up and not of(folder, Asked)
    second = {"m/a": Slow(good), "m/b": Slow(bad)}
    resume(folder, session(second))
    assert second["m/a"].asked[: len(first["m/a"].asked)] == first["m/a"].asked
    assert read_view(folder).state.scored == 30
    replay(folder)


@pytest.mark.parametrize("how", [fails, fails_for_good])
def test_a_broken_arm_costs_the_run_nothing(tmp_path: Path, how: Say) -> None:
    broken = Slow(how, lambda n: 0)
    folder = run(tmp_path, {"m/a": broken, "m/b": Slow(bad)}, search="best-of-n")
    view = read_view(folder)
    assert (view.ended, view.state.scored) == ("budget", 30)
    assert len(broken.asked) <= (8 if how is fails else 1)
    answered = [body for body in of(folder, Asked) if body.arm == "m/a"]
    assert {body.failed for body in answered} <= {"fault", "for-good"} and answered[0].why
    replay(folder)


@pytest.mark.parametrize("search", ["evolve", "best-of-n"])
def test_models_that_are_all_gone_for_good_stop_the_run_which_can_be_resumed(
    tmp_path: Path, search: str
) -> None:
    def dies(n: int) -> str:
        return bad(n) if n < 2 else fails_for_good(n)

    with pytest.raises(EvolveError) as caught:
        run(tmp_path, {"m/a": Slow(dies), "m/b": Slow(fails_for_good)}, search=search)
    assert (caught.value.code, caught.value.exit_status) == ("model-failed", 1)
    folder = RunFolder(tmp_path / "run", "run")
    assert read_view(folder).ended == "error: model-failed"
    resume(folder, session({"m/a": Slow(lambda n: bad(n + 50)), "m/b": Slow(good)}))
    assert read_view(folder).state.scored == 30
    replay(folder)


def test_beside_an_agent_that_is_here_models_may_all_be_gone(tmp_path: Path) -> None:
    agents = {"m/a": Slow(fails_for_good), "m/b": Slow(fails), "random": RandomAgent()}
    folder = run(tmp_path, agents, agent="llm+random", search="best-of-n")
    assert read_view(folder).state.scored == 30
    replay(folder)


def test_the_better_arm_has_the_larger_share(tmp_path: Path) -> None:
    def better(n: int) -> str:
        return f"set(tile, {24 + n})\nset(width, {1 + n // 10})\nset(warps, {1 + n // 6})\n"

    agents = {"m/a": Slow(bad, lambda n: 1), "m/b": Slow(better, lambda n: 1)}
    folder = run(tmp_path, agents, search="best-of-n", budget=60)
    arms = [body.arm for body in of(folder, Opened)]
    assert arms.count("m/b") > 1.3 * arms.count("m/a") > 0


def test_agents_that_answer_at_once_share_a_run_too(tmp_path: Path) -> None:
    folder = run(
        tmp_path, {"expert": SketchAgent(), "random": RandomAgent()}, agent="expert+random", models=()
    )
    again = run(
        tmp_path / "b", {"expert": SketchAgent(), "random": RandomAgent()}, agent="expert+random", models=()
    )
    assert bodies(folder)[2:] == bodies(again)[2:], "from the seed alone"
    assert {body.arm for body in of(folder, Asked)} == {"", "expert", "random"} and not of(folder, Opened)
    replay(folder)


def test_who_has_ended_it_ends_the_run_in_good_order(tmp_path: Path) -> None:
    def leaves(n: int) -> str:
        if n > 2:
            raise AgentLeft
        return good(n)

    folder = run(tmp_path, {"human": Slow(leaves)}, agent="human", models=(), search="best-of-n")
    view = read_view(folder)
    assert (view.ended, view.state.scored) == ("ended", 3)
    assert replay(folder).scored == 3
    # Each was asked knowing what became of the one before.
    kinds = [type(body) for body in bodies(folder) if isinstance(body, Opened | Proposed | Result)]
    assert kinds[:6] == [Opened, Proposed, Result] * 2
    # Beside another agent, the run goes on without.
    other = run(
        tmp_path / "b", {"human": Slow(leaves), "random": RandomAgent()}, agent="human+random", models=()
    )
    assert read_view(other).state.scored == 30
    replay(other)
