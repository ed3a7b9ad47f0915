"""The summary of a run: a fold over its events, what `run --json` prints and the final table shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evolve.events.blobs import BlobStore
from evolve.events.log import LOG_NAME, read_log
from evolve.events.schema import (
    Asked,
    Champion,
    Compared,
    Event,
    Examined,
    Exchanged,
    Paused,
    Probed,
    ReadBack,
    Resumed,
    RunStarted,
)
from evolve.ir.errors import EvolveError
from evolve.runs.arms import shares
from evolve.runs.best import heading, is_gain, shipped
from evolve.runs.conversation import ledger
from evolve.runs.effects import effects
from evolve.runs.folder import RunFolder
from evolve.search.filtering import saved
from evolve.search.state import FUNNEL, SearchState

_STILL_RUNNING = "running"


@dataclass
class RunView:
    """The events of a run, folded."""

    started: RunStarted | None = None
    state: SearchState = field(default_factory=SearchState)
    ended: str = _STILL_RUNNING
    wall_s: float = 0.0
    champions: list[int] = field(default_factory=list)
    examined: Examined | None = None
    read_back: dict[int, ReadBack] = field(default_factory=dict)
    exchanges: list[Exchanged] = field(default_factory=list)
    probes: dict[str, Probed] = field(default_factory=dict)
    given_up: dict[str, str] = field(default_factory=dict)
    _last_t: float | None = None

    @property
    def shipped(self) -> int:
        """The best champion whose text is not refuted, 0 for the kernel as given."""
        refuted = {one for one, found in self.read_back.items() if found.status == "REFUTED"}
        return shipped(self.state.champions, refuted)

    def apply(self, event: Event) -> None:
        """Folds one event in; the time before a `resumed` event does not count."""
        body = event.body
        if self._last_t is not None and not isinstance(body, Resumed):
            self.wall_s += max(0.0, event.t - self._last_t)
        self._last_t = event.t
        if isinstance(body, RunStarted):
            self.started = body
            self.wall_s = body.prepared_s
        elif isinstance(body, Champion):
            self.champions.append(body.proposal)
        elif isinstance(body, Compared) and body.wrong is not None:
            self.champions = [one for one in self.champions if one != body.wrong]
        elif isinstance(body, Exchanged):
            self.exchanges.append(body)
        elif isinstance(body, Probed):
            self.probes[body.model] = body
        elif isinstance(body, Asked) and body.arm:
            self.given_up.pop(body.arm, None)
            if body.failed == "for-good":
                self.given_up[body.arm] = body.why
        elif isinstance(body, ReadBack):
            self.read_back[body.candidate] = body
        elif isinstance(body, Examined):
            if body.candidate != self.shipped or self.state.stopped is None:
                raise ValueError(f"candidate {body.candidate} is not what the search came to")
            self.examined = body
        self.state.apply(body)
        if isinstance(body, Paused):
            self.ended = body.reason
        elif isinstance(body, Resumed):
            self.ended = _STILL_RUNNING
        if self.state.stopped:
            self.ended = self.state.stopped


def fold(events: Iterable[Event]) -> RunView:
    """The view of a run.

    Raises EvolveError `damaged-log` if its beginning is missing or an event makes no sense where it
    stands: lines may be whole and yet come from no search.
    """
    view = RunView()
    for event in events:
        try:
            view.apply(event)
        except ValueError as cause:
            message = f"a {event.body.kind} event makes no sense here: {cause}"
            raise EvolveError("damaged-log", message, file=LOG_NAME, line=event.seq + 1) from cause
    if view.started is None or view.state.baseline is None:
        message = "the log ends before its search began"
        raise EvolveError("damaged-log", message, file=LOG_NAME, hint="start the run again")
    return view


def read_view(folder: RunFolder) -> RunView:
    """The view of the run in a folder. Raises EvolveError as `read_log` and `fold` do, naming the log."""
    try:
        return fold(read_log(folder.log).events)
    except EvolveError as error:
        error.file = str(folder.log)
        raise


def as_document(view: RunView, name: str, blobs: BlobStore) -> dict[str, Any]:
    """The JSON object of `run --json`.

    Times in microseconds. Candidate 0 is the baseline, with the empty program. `source` is CUDA
    text, and `text` says what reading it back came to, None where nothing was emitted or read; its `line` is
    of best.cu. `refuted` is
    the program that leads where its text was refuted, None else: `best` is then what led before. `speedup`
    is baseline time over best time. `examined` says what became of the best program after
    a measured search, None where it was not examined: one whose state is failed is not to be used.
    `prefilter` says what the pre-filter saved and cost, None where it decided on nothing. `arms` says
    what part each agent and model had (`runs.arms.shares`), `models` what
    was asked of models and what that took (`runs.conversation.ledger`), `effects` what was
    expected of programs and what came of it, `probed` what the models' servers were found to be,
    `given_up` why agents or models are asked no more.
    """
    started, state = view.started, view.state
    assert started is not None and state.baseline is not None
    filtered = saved(started.settings.seed, state.results.values())
    return {
        "run": name,
        "kernel": started.entry,
        "device": started.device.model_dump(),
        "workload": started.workload_summary,
        "baseline": {"time_us": state.baseline.time_us, "fitness": state.baseline.fitness},
        "best": _best(view, blobs, blobs.get(started.source)) | {"text": shipped_text(view)},
        "refuted": _refuted(view),
        "examined": view.examined.model_dump(mode="json", exclude={"kind"}) if view.examined else None,
        "sol": started.sol.model_dump(),
        "budget": {"limit": started.settings.budget, "scored": state.scored},
        "funnel": {stage: state.funnel[stage] for stage in FUNNEL},
        "prefilter": filtered.to_json() | {"text": filtered.text()} if filtered else None,
        "arms": shares(state),
        "models": ledger(view.exchanges),
        "effects": effects(state),
        "given_up": dict(view.given_up),
        "probed": [found.model_dump(exclude={"kind"}) for found in view.probes.values()],
        "stopped": view.ended,
        "wall_s": round(view.wall_s, 3),
    }


def shipped_text(view: RunView) -> dict[str, Any] | None:
    """What reading the shipped program's text back came to; `line` is of best.cu, 0 where
    that does not hold it."""
    started, state = view.started, view.state
    assert started is not None
    best, baseline, leads = (state.parent(one) for one in (view.shipped, 0, state.champion))
    said = _text(view, best.proposal)
    if said is None or not said["line"]:
        return said
    if not is_gain(best, baseline):
        return said | {"line": 0}
    refuted = leads if leads.proposal != best.proposal else None
    head = heading(started, best, baseline, refuted, view.read_back[best.proposal])
    return said | {"line": said["line"] + head.count("\n")}


def _text(view: RunView, candidate: int) -> dict[str, Any] | None:
    found = view.read_back.get(candidate)
    return None if found is None else found.model_dump(exclude={"kind", "candidate"})


def _refuted(view: RunView) -> dict[str, Any] | None:
    leads = view.state.parent(view.state.champion)
    if leads.proposal == view.shipped:
        return None
    said = {"candidate": leads.proposal, "program": leads.program, "time_us": leads.time_us}
    return said | {"text": _text(view, leads.proposal)}


def _best(view: RunView, blobs: BlobStore, original: str) -> dict[str, Any]:
    state = view.state
    best = state.parent(view.shipped)
    assert state.baseline is not None
    blob = state.results[view.shipped].source if view.shipped else state.baseline.source
    return {
        "candidate": best.proposal,
        "program": best.program,
        "time_us": best.time_us,
        "fitness": best.fitness,
        "speedup": state.baseline.time_us / best.time_us if best.time_us else None,
        "source": blobs.get(blob) if blob else original,
    }
