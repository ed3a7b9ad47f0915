"""Starting, resuming and replaying a run: one session of the search over one folder."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evolve.agents.base import Parent
from evolve.agents.portfolio.agent import AnyAgent
from evolve.events.log import EventWriter, read_log
from evolve.events.schema import (
    Baseline,
    Body,
    DeviceInfo,
    Event,
    Paused,
    ReadBack,
    Resumed,
    RunStarted,
    Settings,
    SolInfo,
    as_json,
)
from evolve.ir.errors import EvolveError
from evolve.llm.purse import Purse
from evolve.runs.best import shipped, write_best
from evolve.runs.conversation import check_answers
from evolve.runs.examination import as_event, is_due
from evolve.runs.folder import RunFolder, new_folder
from evolve.runs.summary import fold
from evolve.runs.version import tool_version
from evolve.search.desk import lost, purse_of
from evolve.search.journal import Journal
from evolve.search.loop import Search
from evolve.search.pipeline import PipelineEvaluator
from evolve.search.pool import PoolEvaluator
from evolve.search.problem import SAY_LAUNCH, Device, Problem, ProblemInfo, ProblemRequest, Score, Sol
from evolve.search.state import SearchState
from evolve.search.workers import Evaluator, SerialEvaluator

_NO_BASELINE = {
    "compile_failed": "the kernel as given does not compile for this GPU",
    "incorrect": "the kernel as given fails its own check",
    "quarantined": "the kernel as given cannot be a baseline",
    "scored": "the kernel as given has no time",
}
_LOOK_AHEAD = 32
"""For each GPU: what is in the builders' hands, on the way, and on the GPU."""
Observer = Callable[[Body, bool], None]
_NO_PROMPTS: Mapping[str, str] = MappingProxyType({})
OpenProblem = Callable[[ProblemRequest], Problem[Any]]


@dataclass(frozen=True)
class Session:
    """What a session needs beside the run itself.

    `make_agent` takes the texts of the prompts that replace built-in ones, by name; an agent with a `close`
    is closed. `workers` processes evaluate, and where times are measured one more for each GPU; with 0 this
    one does. `max_tokens` and `max_usd` are new limits of a run that is resumed.
    """

    open_problem: OpenProblem
    make_agent: Callable[[Settings, Mapping[str, str]], AnyAgent]
    workers: int = 0
    max_tokens: int | None = None
    max_usd: float | None = None
    interrupted: Callable[[], bool] = lambda: False
    observe: Observer = lambda body, recorded: None
    announce: Callable[[RunFolder, ProblemInfo], None] = lambda folder, info: None


def start(
    request: ProblemRequest,
    settings: Settings,
    out: Path | None,
    session: Session,
    prompts: Mapping[str, str] = _NO_PROMPTS,
) -> RunFolder:
    """Makes a run's folder and searches until it ends or is interrupted.

    Raises EvolveError. Until the baseline has been scored nothing stays on disk; after that the run
    can be resumed whatever happens.
    """
    begun = time.monotonic()
    # First of all: it may take keys out of the environment, which no process forked later is to have.
    with _closing(session.make_agent(settings, prompts)) as agent:
        return _start(request, settings, out, session, prompts, agent, begun)


def _start(
    request: ProblemRequest,
    settings: Settings,
    out: Path | None,
    session: Session,
    prompts: Mapping[str, str],
    agent: AnyAgent,
    begun: float,
) -> RunFolder:
    problem = session.open_problem(request)
    info = problem.info()
    if info.device.timing == "measured":
        settings = settings.model_copy(update={"look_ahead": _LOOK_AHEAD * len(info.device.ordinals)})
    if settings.early is None:
        # Who waits for work costs more than an ask that does not know the last results, a GPU above all.
        early = settings.look_ahead // (2 if info.device.timing == "measured" else 4)
        settings = settings.model_copy(update={"early": early})
    with closing(_evaluator(problem, info, session)) as evaluator:
        with new_folder(Path(request.kernel_file).stem, out) as folder:
            session.announce(folder, info)
            baseline = evaluator.baseline()
            if baseline.status != "scored" or baseline.time_us is None:
                message = f"{_NO_BASELINE[baseline.status]}: {baseline.message}"
                smaller = "smaller sizes, under [[check]] in the workload, take less time and memory"
                hint = smaller if baseline.status == "quarantined" else None
                if baseline.status == "incorrect" and info.assumed_launch:
                    message = (
                        f"launched as is assumed, with {info.assumed_launch}, the kernel as given fails "
                        f"its own check: {baseline.message}"
                    )
                    hint = SAY_LAUNCH
                raise EvolveError("baseline-failed", message, file=request.kernel_file, hint=hint)
            writer = EventWriter(folder.path)
            try:
                kept = {name: folder.blobs.put(text) for name, text in prompts.items()}
                settings = settings.model_copy(update={"prompts": kept})
                started = _started(request, settings, info, folder, time.monotonic() - begun)
                opening = (started, _baseline(baseline, problem, folder))
                folder.write("kernel.cu", request.kernel_text)
                folder.write("workload.toml", info.workload_toml)
                original = Parent(0, "", baseline.fitness, baseline.time_us)
                text = baseline.source or request.kernel_text
                write_best(folder, started, original, original, text, text)
                for body in opening:
                    writer.append(body)
            except BaseException:
                writer.close()
                raise
        with writer:
            state = SearchState()
            for body in opening:
                state.apply(body)
                session.observe(body, False)
            journal = Journal((), writer, session.observe)
            purse = purse_of(settings, ())
            _search(folder, started, state, journal, info, agent, problem, evaluator, session, purse)
    return folder


@contextmanager
def _closing(agent: AnyAgent) -> Iterator[AnyAgent]:
    try:
        yield agent
    finally:
        close = getattr(agent, "close", None)
        if close is not None:
            close()


def _evaluator(problem: Problem[Any], info: ProblemInfo, session: Session) -> Evaluator:
    if not session.workers:
        return SerialEvaluator(problem)
    if info.device.timing == "measured":
        return PipelineEvaluator(problem, session.workers, len(info.device.ordinals))
    return PoolEvaluator(problem, session.workers)


def resume(folder: RunFolder, session: Session) -> None:
    """Takes a run up where its log ends. A run that has ended by a rule stays as it is.

    Raises EvolveError: `damaged-log`, `run-in-use`, `diverged`, `other-device`, `other-version` (it would
    score by another bound), and what opening the problem raises.
    """
    with EventWriter(folder.path) as writer:
        started, baseline, rest = opening_of(folder, writer.recorded)
        due = is_due(writer.recorded)
        if not due and any(event.body.kind == "stopped" for event in writer.recorded):
            replay_events(started, baseline, rest, session.observe)
            return
        prompts = {name: folder.blobs.get(blob) for name, blob in started.settings.prompts.items()}
        purse = _purse(started.settings, rest, session)
        limits = {"max_tokens": purse.max_tokens, "max_usd": purse.max_usd}
        with _closing(session.make_agent(started.settings.model_copy(update=limits), prompts)) as agent:
            _resume(folder, session, writer, agent)


def _purse(settings: Settings, rest: Sequence[Event], session: Session) -> Purse:
    """What models may still take when a run is resumed."""
    purse = purse_of(settings, (event.body for event in rest))
    purse.max_tokens = session.max_tokens or purse.max_tokens
    purse.max_usd = session.max_usd or purse.max_usd
    return purse


def _resume(folder: RunFolder, session: Session, writer: EventWriter, agent: AnyAgent) -> None:
    started, baseline, rest = opening_of(folder, writer.recorded)
    problem = session.open_problem(request_of(folder, started))
    info = problem.info()
    if _device(info.device) != started.device:
        message = f"the run was made on {started.device.kind}:{started.device.profile}"
        raise EvolveError("other-device", message, hint=f"here it would be {info.device.name}")
    if _sol(info.sol) != started.sol:
        message = (
            f"the run was made against a speed of light of {started.sol.time_us:.4g} us, "
            f"here it is {info.sol.time_us:.4g} us: its figures would not be comparable"
        )
        hint = f"evolve {started.tool_version} made it, this is {tool_version()}: start a new run"
        raise EvolveError("other-version", message, file=str(folder.path), hint=hint)
    session.announce(folder, info)
    state = SearchState()
    for body in (started, baseline):
        state.apply(body)
        session.observe(body, True)
    journal = Journal(rest, writer, session.observe)
    resumed = Resumed(tool_version=tool_version(), max_tokens=session.max_tokens, max_usd=session.max_usd)
    journal.note(resumed)
    for request in lost(event.body for event in rest):
        journal.note(request)
    with closing(_evaluator(problem, info, session)) as evaluator:
        purse = _purse(started.settings, rest, session)
        _search(folder, started, state, journal, info, agent, problem, evaluator, session, purse)


def replay(folder: RunFolder, observe: Observer = lambda body, recorded: None) -> SearchState:
    """Makes every decision of a run again from its recorded answers and scores; nothing is executed, no model
    is asked.

    Raises EvolveError `diverged` where the search decides otherwise, naming the event.
    """
    log = read_log(folder.log)
    started, baseline, rest = opening_of(folder, log.events)
    check_answers(log.events, folder.blobs)
    return replay_events(started, baseline, rest, observe)


def replay_events(
    started: RunStarted, baseline: Baseline, rest: Sequence[Event], observe: Observer
) -> SearchState:
    """`replay` of events already read."""
    state = SearchState()
    for body in (started, baseline):
        state.apply(body)
        observe(body, True)
    Search(
        state=state,
        journal=Journal(rest, None, observe),
        info=info_of(started),
        agent=None,
        problem=None,
        evaluator=None,
        store=lambda text: hashlib.sha256(text.encode()).hexdigest(),
    ).run()
    return state


def opening_of(folder: RunFolder, events: Sequence[Event]) -> tuple[RunStarted, Baseline, Sequence[Event]]:
    """The first two events and the others. Raises EvolveError `damaged-log` if they are not there."""
    try:
        fold(events)
    except EvolveError as error:
        error.file = str(folder.log)
        raise
    bodies = [event.body for event in events[:2]]
    if len(bodies) == 2 and isinstance(bodies[0], RunStarted) and isinstance(bodies[1], Baseline):
        return bodies[0], bodies[1], events[2:]
    message = "the run ended before its baseline was scored"
    raise EvolveError("damaged-log", message, file=str(folder.log), hint="start it again")


def request_of(folder: RunFolder, started: RunStarted) -> ProblemRequest:
    """The request that opens a run's problem again, from its own folder."""
    return ProblemRequest(
        kernel_file=started.kernel_file,
        kernel_text=folder.blobs.get(started.source),
        entry=started.entry,
        workload_text=folder.blobs.get(started.workload),
        workload_file=str(folder.path / "workload.toml"),
        device=_again(started),
        numerics=started.numerics,
    )


def _again(started: RunStarted) -> str:
    """The device of a run as `--device` spells it; what `auto` chose then is chosen now."""
    device = started.device
    if started.device_request != "auto":
        return started.device_request
    return f"sim:{device.profile}" if device.kind == "sim" else device.kind


def info_of(started: RunStarted) -> ProblemInfo:
    """As much of a problem's info as the log holds."""
    device, sol = started.device, started.sol
    return ProblemInfo(
        entry=started.entry,
        device=Device(device.kind, device.profile, device.timing),
        sol=Sol(sol.time_us, sol.hard_time_us, sol.bound),
        workload_toml="",
        workload=started.workload_summary,
    )


def _search(
    folder: RunFolder,
    started: RunStarted,
    state: SearchState,
    journal: Journal,
    info: ProblemInfo,
    agent: AnyAgent,
    problem: Problem[Any],
    evaluator: Evaluator,
    session: Session,
    purse: Purse,
) -> None:
    def on_champion(proposal: int, program: str, source: str) -> None:
        assert state.baseline is not None
        if proposal and not journal.has_read_back(proposal):
            found = _read_back(problem, proposal, program)
            if found is not None:
                journal.note(found)
        original = folder.blobs.get(state.baseline.source or started.source)
        best = shipped(state.champions, journal.refuted)
        if best != proposal:
            source = (state.results[best].source if best else None) or ""
        code = folder.blobs.get(source) if source else original
        refuted = state.parent(proposal) if best != proposal else None
        text = journal.text_of(best)
        write_best(folder, started, state.parent(best), state.parent(0), code, original, refuted, text)

    for found in getattr(agent, "probes", ()):
        journal.note(found)
    try:
        reason = Search(
            state=state,
            journal=journal,
            info=info,
            agent=agent,
            problem=problem,
            evaluator=evaluator,
            store=folder.blobs.put,
            load=folder.blobs.get,
            purse=purse,
            on_champion=on_champion,
            interrupted=session.interrupted,
        ).run()
        if reason not in ("interrupted", "replayed"):
            _examine(state, journal, evaluator)
    except EvolveError as error:
        if error.code not in ("cannot-write", "diverged"):
            journal.note(Paused(reason=f"error: {error.code}"))
        raise


def _read_back(problem: Problem[Any], proposal: int, program: str) -> ReadBack | None:
    """What reading a champion's text back comes to."""
    compiled = problem.compile(problem.parse(program))
    found = problem.read_back(compiled) if compiled.verdict == "PROVED" else None
    if found is None:
        return None
    return ReadBack(candidate=proposal, status=found.status, reason=found.reason, line=found.line)


def _examine(state: SearchState, journal: Journal, evaluator: Evaluator) -> None:
    """The best program where nobody has looked; nothing where times are estimated."""
    best = shipped(state.champions, journal.refuted)
    found = evaluator.examine(state.parent(best).program)
    if found is not None:
        journal.note(as_event(best, found))


def _device(device: Device) -> DeviceInfo:
    return DeviceInfo(kind=device.kind, profile=device.profile, timing=device.timing)


def _sol(sol: Sol) -> SolInfo:
    return SolInfo(time_us=sol.time_us, hard_time_us=sol.hard_time_us, bound=sol.bound)


def _started(
    request: ProblemRequest, settings: Settings, info: ProblemInfo, folder: RunFolder, prepared_s: float
) -> RunStarted:
    return RunStarted(
        tool_version=tool_version(),
        run=folder.name,
        kernel_file=request.kernel_file,
        entry=info.entry,
        source=folder.blobs.put(request.kernel_text),
        workload=folder.blobs.put(info.workload_toml),
        workload_summary=as_json(info.workload),
        numerics=info.numerics,
        device_request=request.device,
        device=_device(info.device),
        sol=_sol(info.sol),
        assumptions=info.assumptions,
        settings=settings,
        prepared_s=round(prepared_s, 3),
    )


def _baseline(score: Score, problem: Problem[Any], folder: RunFolder) -> Baseline:
    assert score.time_us is not None
    canonical = problem.canonical(problem.parse(""))
    return Baseline(
        time_us=score.time_us,
        fitness=score.fitness,
        key=hashlib.sha256(canonical.encode()).hexdigest()[:16],
        source=folder.blobs.put(score.source) if score.source is not None else None,
        gap=as_json(score.gap),
        detail=as_json(score.detail),
    )
