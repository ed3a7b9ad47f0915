"""The agent in whole searches: what it asks, what it makes of answers, what faults cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.base import Agent
from evolve.agents.llm.agent import LlmAgent
from evolve.events.log import LOG_NAME, read_log
from evolve.events.schema import Asked, Baseline, Exchanged, Idea, Proposed, Result, Settings
from evolve.ir.errors import EvolveError
from evolve.llm.faults import Fault, Tokens
from evolve.llm.patience import Patience
from evolve.llm.prompts import Prompts
from evolve.llm.request import Answer, Messages, Request
from evolve.population.archive import Archive
from evolve.report.story import run_text
from evolve.runs.conversation import conversation, ledger
from evolve.runs.effects import effects
from evolve.runs.folder import RunFolder
from evolve.runs.session import Session, replay, resume, start
from evolve.runs.story import run_story
from evolve.runs.summary import read_view
from evolve.search.propose import waiting
from evolve.search.state import SearchState
from tests.runs.helpers import REQUEST, after
from tests.search.fake import FakeProblem

QUICK = Patience(attempts=2, first_s=0.001, most_s=0.002)
Say = Callable[[int], str]


class Scripted:
    """Answers request n, from 1 on; a script may raise Fault. Each answer is ready when asked for the second
    time."""

    def __init__(self, say: Say) -> None:
        self.say, self.asked = say, list[Messages]()
        self.looked = set[int]()
        self.closed = False

    def begin(self, request: Request) -> int:
        self.asked.append(request.messages)
        return len(self.asked)

    def ready(self, ticket: int) -> bool:
        known = ticket in self.looked
        self.looked.add(ticket)
        return known

    def answer(self, ticket: int) -> Answer:
        return Answer(self.say(ticket), False, Tokens(100, 10, None), 0.5)

    def drop(self, ticket: int) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def agent(voice: Scripted) -> LlmAgent:
    return LlmAgent(voice, "openai/scripted", Prompts(), QUICK)


def session(made: Agent, **fields: Any) -> Session:
    values = {"open_problem": lambda request: FakeProblem(), "make_agent": lambda settings, prompts: made}
    return Session(**(values | fields))


def run(out: Path, voice: Scripted, budget: int = 6, search: str = "best-of-n", **fields: Any) -> RunFolder:
    settings = Settings(budget=budget, seed=1, agent="llm", search=search, model="openai/scripted")  # type: ignore[arg-type]
    return start(REQUEST, settings, out / "run", session(agent(voice), **fields))


def block(program: str, hypothesis: str = "better") -> str:
    return f"Hypothesis: {hypothesis}\nExpected: faster\n```\n{program}\n```\n"


def fresh(n: int) -> str:
    return block(f"set(width, {n})")


def bodies(folder: RunFolder, kind: type[Any]) -> list[Any]:
    return [event.body for event in read_log(folder.log).events if isinstance(event.body, kind)]


def told(folder: RunFolder) -> list[tuple[str, str, str]]:
    """Each proposal: its text, note and status."""
    state = read_view(folder).state
    return [(one.program, one.note, state.results[n].status) for n, one in state.proposals.items()]


def test_programs_with_hypotheses_become_proposals(tmp_path: Path) -> None:
    voice = Scripted(lambda n: block("set(tile, ?[4, 8])", "tiles") + fresh(n))
    folder = run(tmp_path, voice, budget=3)
    assert told(folder)[:2] == [
        ("set(tile, 4)\n", "tiles", "scored"),
        ("set(width, 1)\n", "better", "scored"),
    ]
    assert {one.expected for one in bodies(folder, Proposed)} == {"faster"}
    assert voice.closed
    (entry,) = ledger(bodies(folder, Exchanged))
    assert entry["answered"] == entry["requests"] == len(voice.asked)
    assert (entry["prompt_tokens"], entry["cached_tokens"], entry["usd"]) == (
        100 * len(voice.asked),
        None,
        None,
    )
    assert replay(folder).scored == 3


def test_a_refused_program_goes_back_once_with_the_reason(tmp_path: Path) -> None:
    answers = {1: block("set(tile, 7)", "wrong") + block("set(tile, 4)"), 2: block("set(tile, 8)", "right")}
    voice = Scripted(lambda n: answers.get(n, fresh(n)))
    folder = run(tmp_path, voice, budget=2)
    asked = voice.asked[1]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "user"]
    assert "E-RACE: a race; repair: tile 8" in asked[-1]["content"]
    assert "    set(tile, 7)" in asked[-1]["content"] and "set(tile, 4)" not in asked[-1]["content"]
    assert [(program, status) for program, _, status in told(folder)] == [
        ("set(tile, 4)\n", "scored"),
        ("set(tile, 8)\n", "scored"),
    ], "what was corrected cost no proposal"


def test_what_stays_refused_is_on_record_and_told_the_next_time(tmp_path: Path) -> None:
    answers = {1: block("set(tile, 7)"), 2: block("set(tile, 7)\nset(width, 3)"), 3: "sorry", 4: "no"}
    voice = Scripted(lambda n: answers.get(n, fresh(n)))
    folder = run(tmp_path, voice, budget=2)
    assert told(folder)[0][::2] == ("set(tile, 7)\nset(width, 3)\n", "illegal")
    assert "No program could be read" in voice.asked[3][-1]["content"]
    later = voice.asked[-1][-1]["content"]
    assert "What failed, and why" in later and "E-RACE: a race" in later


def test_the_effect_is_told_beside_what_was_expected(tmp_path: Path) -> None:
    def say(n: int) -> str:
        program = f"set(tile, {13 if n == 2 else 100 + n})"
        return f"Hypothesis: idea {n}\nExpected: {n}x faster\n```\n{program}\n```\n"

    voice = Scripted(say)
    folder = run(tmp_path, voice, budget=12)
    later = voice.asked[-1][-1]["content"]
    told = effects(read_view(folder).state)
    first, second = told[:2]
    assert (first["expected"], first["expected_factor"]) == ("1x faster", 1.0)
    assert f"- idea 1 -> expected 1x, got {first['actual_factor']:.3g}x: " in later and "us, 0." in later
    assert (second["status"], second["actual_factor"]) == ("incorrect", None)
    assert "- idea 2 -> expected 2x faster, got incorrect" in later
    assert "effects that were expected" in voice.asked[-1][-1]["content"]
    shown = run_text(run_story(read_view(folder), folder))
    both = [one for one in told if one["expected_factor"] and one["actual_factor"]]
    assert len(both) >= 11 and f"expectations: Of {len(both)} effects" in shown


def test_of_the_numbers_that_were_tried_the_best_is_told(tmp_path: Path) -> None:
    voice = Scripted(lambda n: block("set(tile, ?[4, 64])", "tiles") if n == 1 else fresh(n))
    folder = run(tmp_path, voice, budget=8)
    best = max(one["actual_factor"] or 0.0 for one in effects(read_view(folder).state)[:8])
    later = voice.asked[-1][-1]["content"]
    assert later.count("- tiles -> ") == 1 and f"got {best:.3g}x" in later


FAULTS = (
    "timeout",
    "unreachable",
    "rate-limited",
    "server-error",
    "malformed",
    "empty",
    "refusal",
    "bad-request",
)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_may_pass_costs_an_ask(tmp_path: Path, kind: str) -> None:
    def say(n: int) -> str:
        if n in (2, 3):
            raise Fault(kind, "not now")
        return fresh(n)

    folder = run(tmp_path, Scripted(say), budget=4)
    view = read_view(folder)
    assert (view.ended, view.state.scored) == ("budget", 4)
    assert {one.fault for one in bodies(folder, Exchanged)} == {"", kind}
    replay(folder)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_model_that_never_answers_again_leaves_the_search_to_others(tmp_path: Path, kind: str) -> None:
    def say(n: int) -> str:
        if n > 1:
            raise Fault(kind, "gone")
        return fresh(n) + block("set(tile, 4)")

    voice = Scripted(say)
    folder = run(tmp_path, voice, budget=60, search="evolve")
    view = read_view(folder)
    assert view.ended in ("budget", "stagnation", "speed_of_light", "exhausted")
    assert view.state.scored > 10
    assert len(voice.asked) < view.state.asks, "and is left alone for longer and longer"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_run_that_has_nothing_else_stops_and_can_be_resumed(tmp_path: Path, kind: str) -> None:
    def say(n: int) -> str:
        if n > 2:
            raise Fault(kind, "gone")
        return fresh(n)

    with pytest.raises(EvolveError) as caught:
        run(tmp_path, Scripted(say), budget=4)
    assert (caught.value.code, caught.value.exit_status) == ("model-failed", 1)
    assert kind in str(caught.value) and "gone" in str(caught.value)
    folder = RunFolder(tmp_path / "run", "run")
    assert read_view(folder).ended == "error: model-failed"
    resume(folder, session(agent(Scripted(lambda n: fresh(n + 10)))))
    assert read_view(folder).state.scored == 4
    replay(folder)


@pytest.mark.parametrize("kind", ["wrong-key", "no-quota", "unknown-model", "client-died"])
def test_what_no_waiting_mends_stops_the_run_at_once(tmp_path: Path, kind: str) -> None:
    def say(n: int) -> str:
        if n > 1:
            raise Fault(kind, "gone")
        return fresh(n)

    voice = Scripted(say)
    with pytest.raises(EvolveError) as caught:
        run(tmp_path, voice, search="evolve")
    assert caught.value.code == "model-failed" and len(voice.asked) == 2


def test_a_model_without_programs_is_given_up(tmp_path: Path) -> None:
    voice = Scripted(lambda n: "I would rather talk about the weather.")
    with pytest.raises(EvolveError) as caught:
        run(tmp_path, voice, search="evolve")
    assert "hold no program" in str(caught.value) and len(voice.asked) == 6


def test_a_program_that_kills_the_analysis_costs_itself(tmp_path: Path) -> None:
    voice = Scripted(lambda n: block("set(tile, 19)") + fresh(n) if n == 1 else fresh(n))
    folder = run(tmp_path, voice, budget=2, workers=1)
    assert "E-INTERNAL" in voice.asked[1][-1]["content"]
    assert read_view(folder).state.scored == 2


def test_an_answer_that_was_paid_for_is_not_asked_for_again(tmp_path: Path) -> None:
    """A process that ends between an answer and what comes of it loses nothing."""
    voice = Scripted(lambda n: block("set(tile, 7)") if n == 1 else fresh(n))
    folder = run(tmp_path, voice, budget=1)
    lines = folder.log.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"exchanged"' in line)
    assert b'"asked"' in lines[first + 3]
    (folder.path / LOG_NAME).write_bytes(b"".join(lines[: first + 1]))
    again = Scripted(lambda n: fresh(n + 1))
    resume(folder, session(agent(again)))
    assert len(again.asked) == 1 and len(again.asked[0]) == 4, "only the second step is asked"
    assert [one.step for one in bodies(folder, Exchanged)] == [0, 1]
    assert [ask.ideas[0].program for ask in bodies(folder, Asked)] == ["set(width, 2)\n"]


def test_interrupted_and_resumed_it_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", Scripted(fresh), budget=6)
    for calls in (3, 9, 14, 20):
        out = tmp_path / str(calls)
        folder = run(out, Scripted(fresh), budget=6, interrupted=after(calls))
        for _ in range(20):
            if read_view(folder).ended == "budget":
                break
            said = len({(e.ask, e.step) for e in bodies(folder, Exchanged) if e.answer is not None})
            voice = Scripted(lambda n, said=said: fresh(n + said))  # type: ignore[misc]
            resume(folder, session(agent(voice)))
        assert told(folder) == told(whole)


def test_replay_reads_the_answers_again(tmp_path: Path) -> None:
    folder = run(tmp_path, Scripted(fresh), budget=2)
    replay(folder)
    answer = bodies(folder, Exchanged)[0].answer
    folder.blobs.path(answer).write_text("something else")
    with pytest.raises(EvolveError) as caught:
        replay(folder)
    assert caught.value.code == "damaged-blob"


def test_replay_refuses_programs_that_no_answer_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(tmp_path, Scripted(fresh), budget=2)
    monkeypatch.setattr("evolve.runs.conversation.read_answer", lambda text: ())
    monkeypatch.setattr("evolve.runs.conversation.read_step", lambda text: "")
    with pytest.raises(EvolveError) as caught:
        replay(folder)
    assert caught.value.code == "diverged" and "ask 1" in caught.value.message


def test_the_conversation_is_on_record(tmp_path: Path) -> None:
    voice = Scripted(fresh)
    folder = run(tmp_path, voice, budget=2)
    said = conversation(folder)
    assert [one["prompt"] for one in said] == [list(map(dict, messages)) for messages in voice.asked]
    assert said[0]["answer"] == fresh(1)


def test_templates_can_be_replaced_and_are_part_of_the_run(tmp_path: Path) -> None:
    made: list[Mapping[str, str]] = []
    voices: list[Scripted] = []

    def make(settings: Settings, prompts: Mapping[str, str]) -> Agent:
        made.append(prompts)
        voices.append(Scripted(lambda n: fresh(n + 10 * len(voices))))
        return LlmAgent(voices[-1], "openai/scripted", Prompts(prompts), QUICK)

    mine = {"propose": "Make {{ kernel.strip() }} fast; {{ most }} ways."}
    settings = Settings(budget=4, agent="llm", search="best-of-n")
    stopping = session(agent(Scripted(fresh)), make_agent=make, interrupted=after(12))
    folder = start(REQUEST, settings, tmp_path / "run", stopping, mine)
    resume(folder, session(agent(Scripted(fresh)), make_agent=make))
    assert made == [mine, mine]
    assert all(v.asked[0][-1]["content"] == "Make one loop fast; 4 ways.\n" for v in voices)
    assert read_view(folder).state.scored == 4


def test_what_has_no_result_yet_is_told_too() -> None:
    """An answer with many programs is not worked off when the next question goes out."""
    state = SearchState(settings=Settings(budget=9, agent="llm"))
    idea = {"operator": "llm", "expected": "2x"}
    state.apply(Baseline(time_us=100.0, fitness=0.5))
    state.archive = Archive.empty(3)
    ideas = tuple(Idea(program=f"set(tile, {n})\n", note=f"idea {n}", **idea) for n in (1, 2, 3))
    silent = Idea(program="set(width, 2)\n", operator="mutation")
    state.apply(Asked(ask=1, island=0, by_agent=True, ideas=(*ideas, silent)))
    common = {"ask": 1, "island": 0, **idea}
    for n in (1, 2):
        state.apply(Proposed(proposal=n, program=f"set(tile, {n})\n", note=f"idea {n}", **common))
    state.apply(Result(proposal=1, status="scored", time_us=50.0, fitness=1.0))
    assert [one.note for one in waiting(state)] == ["idea 2", "idea 3"]
