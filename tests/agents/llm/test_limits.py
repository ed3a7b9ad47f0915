"""`--max-tokens` and `--max-usd` in whole searches: they hold, say so, and hold when a run is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.llm.agent import LlmAgent
from evolve.agents.portfolio.agent import AnyAgent, Portfolio
from evolve.agents.random import RandomAgent
from evolve.events.schema import Asked, Exchanged, Resumed, Sent, Settings
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.faults import Fault, Tokens
from evolve.llm.prompts import Prompts
from evolve.llm.purse import Price
from evolve.llm.request import Answer, Request
from evolve.llm.window import Window, tokens
from evolve.runs.conversation import ledger
from evolve.runs.folder import RunFolder
from evolve.runs.session import replay, resume, start
from evolve.runs.summary import read_view
from tests.agents.llm.test_agent import QUICK, Scripted, bodies, fresh, session
from tests.runs.helpers import REQUEST, after

PRICE = Price(1e-6, 1e-5)
WINDOW = Window(8192, 500)
TOKENS = (2400, 400)
"""What the server says that each request took: less than the rule's count and the longest answer."""


class Costly(Scripted):
    """Tells those tokens and what they cost, if anything."""

    told: Tokens = Tokens(*TOKENS)

    def __init__(self) -> None:
        super().__init__(fresh)
        self.most = 0

    def begin(self, request: Request) -> int:
        self.most = max(self.most, WINDOW.count(request.messages) + WINDOW.answer)
        return super().begin(request)

    def answer(self, ticket: int) -> Answer:
        usd = None if self.told.prompt is None else PRICE.of(*TOKENS)
        return Answer(self.say(ticket), False, self.told, 0.5, usd)


def talking(voice: Scripted, price: Price | None = PRICE) -> LlmAgent:
    return LlmAgent(voice, "openai/scripted", Prompts(), QUICK, WINDOW, price=price)


def begin(
    out: Path, made: AnyAgent, agent: str = "llm", search: Any = "best-of-n", **limits: Any
) -> RunFolder:
    settings = Settings(budget=8, seed=1, agent=agent, search=search, model="openai/scripted", **limits)
    return start(REQUEST, settings, out / "run", session(made))


def stopped(out: Path, voice: Scripted, **limits: Any) -> tuple[RunFolder, str]:
    """The run of a limit that its only agent meets, with nobody else to go on; and what is said of it."""
    with pytest.raises(NegativeAnswerError) as caught:
        begin(out, talking(voice), **limits)
    assert caught.value.code == "limit-reached"
    assert caught.value.hint == "evolve resume RUN --max-tokens N --max-usd X goes on with more"
    return RunFolder(out / "run", "run"), caught.value.message


def spent(folder: RunFolder) -> int:
    said = bodies(folder, Exchanged)
    return sum((one.prompt_tokens or 0) + (one.completion_tokens or 0) + one.counted for one in said)


@pytest.mark.parametrize("told", [Tokens(*TOKENS), Tokens()], ids=["told", "counted"])
def test_a_limit_on_tokens_holds(tmp_path: Path, told: Tokens) -> None:
    voice = Costly()
    voice.told = told
    folder, message = stopped(tmp_path, voice, max_tokens=16_000)
    assert "openai/scripted is not asked: --max-tokens 16000 is reached" in message
    assert len(voice.asked) >= 2, "it is not there to forbid everything"
    assert 16_000 - voice.most < spent(folder) <= 16_000
    assert read_view(folder).ended == "error: limit-reached"
    (entry,) = ledger(bodies(folder, Exchanged))
    assert (entry["counted"] > 0) == (told.prompt is None) == (entry["prompt_tokens"] is None)
    assert entry["usd"] > 0


def test_it_holds_when_the_run_is_resumed_and_may_be_raised(tmp_path: Path) -> None:
    folder, message = stopped(tmp_path, Costly(), max_tokens=16_000)
    again = Costly()
    with pytest.raises(NegativeAnswerError) as caught:
        resume(folder, session(talking(again)))
    assert (caught.value.message, again.asked) == (message, []), "nothing was left, and nothing was asked"
    more = Costly()
    with pytest.raises(NegativeAnswerError):
        resume(folder, replace(session(talking(more)), max_tokens=22_000))
    assert more.asked and 22_000 - more.most < spent(folder) <= 22_000
    last = Costly()
    with pytest.raises(NegativeAnswerError):
        resume(folder, session(talking(last)))
    assert not last.asked, "the limit given last holds on"
    rich = Costly()
    resume(folder, replace(session(talking(rich)), max_tokens=10**7))
    assert read_view(folder).state.scored == 8 and replay(folder).scored == 8
    assert [body.max_tokens for body in bodies(folder, Resumed)] == [None, 22_000, None, 10**7]


def test_a_limit_on_usd_holds(tmp_path: Path) -> None:
    voice = Costly()
    folder, message = stopped(tmp_path, voice, max_usd=0.03)
    (entry,) = ledger(bodies(folder, Exchanged))
    assert entry["usd"] == pytest.approx(len(voice.asked) * PRICE.of(*TOKENS)) and len(voice.asked) >= 2
    assert entry["usd"] <= 0.03 and "--max-usd 0.03 is reached" in message


def test_a_run_goes_on_with_its_other_agents(tmp_path: Path) -> None:
    voice = Costly()
    both = Portfolio({"llm": talking(voice), "random": RandomAgent()})
    folder = begin(tmp_path, both, "llm+random", max_tokens=9_000)
    assert read_view(folder).state.scored == 8 and replay(folder).scored == 8
    assert spent(folder) <= 9_000 and voice.asked
    told = [body.why for body in bodies(folder, Asked) if body.failed == "for-good"]
    assert told and "--max-tokens 9000 is reached" in told[0]


def test_a_search_goes_on_with_what_it_has(tmp_path: Path) -> None:
    voice = Costly()
    folder = begin(tmp_path, talking(voice), search="evolve", max_tokens=9_000)
    view = read_view(folder)
    assert view.state.scored == 8 and spent(folder) <= 9_000
    assert {one.operator for one in view.state.proposals.values()} > {"llm"}


class Lost(Costly):
    """Answers nothing: each request meets this fault, or is not answered for ever."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__()
        self.fault, self.may = fault, 0

    def begin(self, request: Request) -> int:
        self.may += WINDOW.count(request.messages) + WINDOW.answer
        return super().begin(request)

    def ready(self, ticket: int) -> bool:
        return self.fault is not None and super().ready(ticket)

    def answer(self, ticket: int) -> Answer:
        assert self.fault is not None
        raise self.fault


LOST = {
    "timeout": Fault("timeout", "no whole answer within 1 s"),
    "breaks off": Fault("unreachable", "the connection broke off"),
    "breaks off in midst of a stream": Fault("unreachable", "it has no end", tokens=Tokens(4000, None)),
    "server error": Fault("server-error", "HTTP 502"),
    "malformed": Fault("malformed", "no JSON"),
    "empty": Fault("empty", "it is empty"),
    "zeros": Fault("empty", "it is empty", tokens=Tokens(0, 0, 0), usd=0.0),
}


@pytest.mark.parametrize("name", LOST)
def test_limits_hold_for_what_is_lost(tmp_path: Path, name: str) -> None:
    """A server that never answers may bill whatever it generates: the most that its requests may take."""
    voice = Lost(LOST[name])
    folder, message = stopped(tmp_path, voice, max_tokens=16_000)
    assert "--max-tokens 16000 is reached" in message and len(voice.asked) == 3
    told = LOST[name].tokens.prompt
    assert spent(folder) == (3 * (told + WINDOW.answer) if told else voice.may) <= 16_000
    dear, _ = stopped(tmp_path / "usd", Lost(LOST[name]), max_usd=0.03)
    usd = [one.usd for one in bodies(dear, Exchanged)]
    assert len(usd) == 3 and 0.026 < sum(usd) <= 0.03, "500 tokens of an answer cost 0.005 USD"


def test_what_no_server_did_costs_nothing(tmp_path: Path) -> None:
    voice = Lost(Fault("rate-limited", "HTTP 429", unspent=True))
    with pytest.raises(NegativeAnswerError) as caught:
        begin(tmp_path, talking(voice), max_tokens=6_000)
    folder = RunFolder(tmp_path / "run", "run")
    assert (caught.value.code, spent(folder)) == ("model-failed", 0)
    assert {one.usd for one in bodies(folder, Exchanged)} == {0.0} and len(voice.asked) > 4


def test_what_was_under_way_when_a_run_was_interrupted_is_spent(tmp_path: Path) -> None:
    voice = Lost(None)
    settings = Settings(
        budget=8, seed=1, agent="llm", search="best-of-n", model="openai/scripted", max_tokens=20_000
    )
    folder = start(REQUEST, settings, tmp_path / "run", session(talking(voice), interrupted=after(12)))
    assert read_view(folder).ended == "interrupted" and len(voice.asked) >= 2
    assert {one.fault for one in bodies(folder, Exchanged)} == {"given-up"}
    assert spent(folder) == voice.may <= 20_000
    again = Costly()
    with pytest.raises(NegativeAnswerError):
        resume(folder, session(talking(again)))
    assert spent(folder) <= 20_000 and len(again.asked) < 4
    rich = Costly()
    resume(folder, replace(session(talking(rich)), max_tokens=10**7))
    assert replay(folder).scored == 8


def test_what_a_killed_process_left_open_is_spent(tmp_path: Path) -> None:
    """Whatever ends it: here its log ends where it had sent two requests."""
    voice = Lost(None)
    settings = Settings(
        budget=8, seed=1, agent="llm", search="best-of-n", model="openai/scripted", max_tokens=20_000
    )
    folder = start(REQUEST, settings, tmp_path / "run", session(talking(voice), interrupted=after(12)))
    lines = folder.log.read_text().splitlines(keepends=True)
    last = [n for n, line in enumerate(lines) if '"kind":"sent"' in line.replace(" ", "")][1]
    folder.log.write_text("".join(lines[: last + 1]))
    assert not bodies(folder, Exchanged)
    again = Lost(LOST["timeout"])
    with pytest.raises(NegativeAnswerError):
        resume(folder, session(talking(again)))
    sent, said = bodies(folder, Sent), bodies(folder, Exchanged)
    assert [one.counted for one in said[:2]] == [one.tokens for one in sent[:2]]
    assert [one.fault for one in said[:2]] == ["given-up"] * 2 and len(sent) == len(said)
    assert spent(folder) == sum(one.tokens for one in sent) <= 20_000
    more = Costly()
    with pytest.raises(NegativeAnswerError):
        resume(folder, session(talking(more)))
    assert not more.asked and len(bodies(folder, Exchanged)) == len(said), "it is counted once"


@pytest.mark.parametrize(
    ("told", "usd"),
    [
        (Tokens(None, 10), None),
        (Tokens(0, 0), 0.0),
        (Tokens(2400, None), None),
        (Tokens(2400, 0), PRICE.of(2400, 0)),
    ],
)
def test_what_a_server_tells_by_halves_is_counted(tmp_path: Path, told: Tokens, usd: float | None) -> None:
    class Half(Scripted):
        def answer(self, ticket: int) -> Answer:
            return Answer(self.say(ticket), False, told, 0.5, usd)

    voice = Half(fresh)
    folder = begin(tmp_path, talking(voice))
    for asked, one in zip(voice.asked, bodies(folder, Exchanged), strict=True):
        read, made = WINDOW.count(asked), tokens(fresh(1))
        assert one.counted == (made if told.prompt else read + made)
        assert (one.prompt_tokens, one.completion_tokens) == ((2400, None) if told.prompt else (None, None))
        assert one.usd == pytest.approx(PRICE.of(told.prompt or read, made))


def test_a_refused_answer_that_may_not_go_back_is_proposed_as_it_is(tmp_path: Path) -> None:
    """The limit is met between the two steps of an ask: what the first one brought is kept."""
    voice = Costly()
    voice.say = lambda number: fresh(number) + "Hypothesis: wrong\n```\nset(tile, 7)\n```\n"
    folder, _ = stopped(tmp_path, voice, max_tokens=7_000)
    assert len(voice.asked) == 1
    programs = [one.program for one in read_view(folder).state.proposals.values()]
    assert "set(width, 1)\n" in programs and "set(tile, 7)\n" in programs
