"""What is written in `events.jsonl`: one frozen model a kind of event.

Version 1. A reader refuses a newer version and unknown kinds; fields added later need a default.
Times are microseconds, `t` is seconds since the epoch. Numbers of proposals start at 1; 0 is the
baseline, the empty program.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCHEMA_VERSION = 1

Status = Literal[
    "unparsable",
    "duplicate",
    "illegal",
    "miscompiled",
    "compile_failed",
    "prefiltered",
    "incorrect",
    "quarantined",
    "scored",
]
StopReason = Literal["budget", "speed_of_light", "stagnation", "exhausted", "ended"]
Failed = Literal["", "nothing", "fault", "for-good", "resting", "left"]
"""Why an agent that was to be asked gave nothing: it had no program; what it asks failed, which may pass or
not; it failed too often lately and was not asked; it will never give anything again."""


class Model(BaseModel):
    """Frozen, strict about unknown fields; infinities and NaN are refused since JSON has none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DeviceInfo(Model):
    """`profile` is the stem of a file in `hardware/`; `timing` says what the times are."""

    kind: str
    profile: str
    timing: Literal["measured", "estimated"]


class SolInfo(Model):
    """Attainable and hard bound in microseconds, and the name of the limit that binds."""

    time_us: float
    hard_time_us: float
    bound: str


class Settings(Model):
    """What determines the search, beside the kernel and the workload.

    `agent` is a name, or several joined by `+`. `model` and `api_base` are those of the agent `llm`, `models`
    and `api_bases` those of several models, in order, an address empty for a protocol's own. `prompts` are
    the templates that replace built-in ones, as blobs by name; `context` is what `--context` says, in tokens.
    `answers` is what models are asked for: statements one by one, whole programs, or what their context
    allows.
    `max_tokens` and `max_usd` are what its models may take in all.
    Results are awaited before an ask while a tuning needs them and more than `early` are out; None is what
    older runs did: none where times are estimated, half of `look_ahead` where they are measured.
    """

    budget: Annotated[int, Field(ge=1)]
    seed: int = 0
    agent: str = "expert"
    model: str | None = None
    api_base: str | None = None
    models: tuple[str, ...] = ()
    api_bases: tuple[str, ...] = ()
    model_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    answer_tokens: Annotated[int, Field(ge=1)] = 4096
    context: Annotated[int | None, Field(ge=1)] = None
    answers: Literal["auto", "steps", "programs"] = "auto"
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_usd: Annotated[float | None, Field(gt=0)] = None
    prompts: dict[str, str] = {}
    search: Literal["evolve", "best-of-n"] = "evolve"
    look_ahead: Annotated[int, Field(ge=1, le=256)] = 8
    early: Annotated[int | None, Field(ge=0, le=256)] = None
    islands: Annotated[int, Field(ge=1, le=64)] = 3
    epsilon: Annotated[float, Field(ge=0)] = 0.02
    patience: Annotated[int, Field(ge=1)] | None = None


class RunStarted(Model):
    """The first event: everything a resume needs. `source` and `workload` are blobs.

    `prepared_s` is the time before it: lifting, the reference, the baseline.
    """

    kind: Literal["run_started"] = "run_started"
    schema_version: int = SCHEMA_VERSION
    tool_version: str
    run: str
    kernel_file: str
    entry: str
    source: str
    workload: str
    workload_summary: dict[str, Any] = {}
    numerics: str = "reassociate"
    device_request: str
    device: DeviceInfo
    sol: SolInfo
    assumptions: tuple[str, ...] = ()
    settings: Settings
    prepared_s: float = 0.0


class Baseline(Model):
    """The score of the kernel as it was given."""

    kind: Literal["baseline"] = "baseline"
    time_us: float
    fitness: float
    key: str | None = None
    source: str | None = None
    gap: dict[str, Any] = {}
    detail: dict[str, Any] = {}


class Idea(Model):
    """One program an agent or an operator offered; it may contain holes.

    `note` is its hypothesis and `expected` the effect that its author expects, who need not say so.
    """

    program: str
    operator: str
    parents: tuple[int, ...] = ()
    note: str = ""
    expected: str = ""


class Opened(Model):
    """An agent that takes its time was asked; the search goes on until the `asked` of that number comes."""

    kind: Literal["opened"] = "opened"
    ask: int
    island: int
    arm: str


class Asked(Model):
    """An agent or an operator was asked for programs and gave these, possibly none.

    `arm` names the agent, or the model of `llm`, that was asked (`by_agent`); where `failed` says that it
    gave nothing, `why` says it in words, and the ideas are those of operators. `tokens` and `usd` are what
    the ask took, `usd` None where no price is known.
    """

    kind: Literal["asked"] = "asked"
    ask: int
    island: int
    by_agent: bool
    ideas: tuple[Idea, ...]
    arm: str = ""
    failed: Failed = ""
    why: str = ""
    tokens: int = 0
    usd: float | None = None


class Proposed(Model):
    """A program with its holes filled entered the funnel.

    `template` is the first proposal of the tuning it belongs to, `filling` the choices it took.
    """

    kind: Literal["proposed"] = "proposed"
    proposal: int
    ask: int
    island: int
    program: str
    operator: str
    parents: tuple[int, ...] = ()
    note: str = ""
    expected: str = ""
    template: int | None = None
    filling: tuple[int, ...] | None = None


class Result(Model):
    """What became of a proposal; written in the order of proposals whatever finished first."""

    kind: Literal["result"] = "result"
    proposal: int
    status: Status
    key: str | None = None
    module: str | None = None
    same_as: int | None = None
    verdict: Literal["PROVED", "REFUTED", "UNKNOWN"] | None = None
    diagnostics: tuple[dict[str, Any], ...] = ()
    time_us: float | None = None
    fitness: float = 0.0
    cell: tuple[str, ...] = ()
    source: str | None = None
    gap: dict[str, Any] = {}
    detail: dict[str, Any] = {}
    message: str = ""


class Compared(Model):
    """An interleaved re-measurement of a challenger against the incumbent.

    `wrong` is the one of them that turned out to be incorrect, as `message` says: its score no longer counts.
    """

    kind: Literal["compared"] = "compared"
    challenger: int
    incumbent: int
    challenger_us: float
    incumbent_us: float
    better: bool
    detail: dict[str, Any] = {}
    wrong: int | None = None
    message: str = ""


class Champion(Model):
    """A proposal became the best one."""

    kind: Literal["champion"] = "champion"
    proposal: int
    time_us: float
    fitness: float


class ReadBack(Model):
    """A champion's text was read back and compared with what was proved; no decision of the search.

    UNKNOWN: it has a form that is not read, as `reason` says, `line` of the text; it proves nothing.
    """

    kind: Literal["read_back"] = "read_back"
    candidate: int
    status: Literal["PROVED", "REFUTED", "UNKNOWN"]
    reason: str = ""
    line: int = 0


class Stopped(Model):
    """The search ended by a rule; only an examination may follow."""

    kind: Literal["stopped"] = "stopped"
    reason: StopReason


class Examined(Model):
    """The best program after a measured search: at sizes and on inputs that it had not met, and under
    compute-sanitizer. It changes nothing that the search decides.

    `candidate` is its proposal, 0 for the kernel as given. `secret`, hexadecimal, is what inputs were drawn
    from; a process that resumes a run draws its own. The rest is as `scoring.final` has it.
    """

    kind: Literal["examined"] = "examined"
    candidate: int
    state: Literal["passed", "failed", "incomplete"]
    failures: tuple[str, ...] = ()
    open_points: tuple[str, ...] = ()
    retimed: dict[str, Any] = {}
    held_out: tuple[dict[str, Any], ...] = ()
    perturbed: tuple[dict[str, Any], ...] = ()
    sanitizer: dict[str, Any] = {}
    counters: dict[str, Any] = {}
    secret: Annotated[str, Field(pattern="^[0-9a-f]{1,32}$")]


class Exchanged(Model):
    """A request to a model and what came back; no decision of the search.

    `ask` is the ask it belongs to, `step` 0 where programs were asked for and 1 where an answer was sent
    back with what is wrong in it; where a program is made statement by statement, it counts the exchanges.
    `held` is what the answer was held to (grammar, schema or nothing), `seed` that of its sampling. `prompt`
    is the blob of a JSON list of messages, `answer` that of the text; it is None where `fault`
    (`llm.faults.KINDS`) came instead. Tokens are those that the server tells, `counted` those by the rule
    where it tells none: where there is no answer, as many as it may have had. `usd` is None where no price is
    known.
    """

    kind: Literal["exchanged"] = "exchanged"
    ask: int
    step: int
    model: str
    prompt: str
    answer: str | None = None
    cut: bool = False
    fault: str = ""
    message: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    counted: int = 0
    usd: float | None = None
    seconds: float = 0.0
    seed: int | None = None
    held: str = ""


class Sent(Model):
    """A request to a model that is about to be sent, and the most it may take; no decision of the search.

    What becomes of it is the `exchanged` of the same ask and step that follows. Where none does, the process
    was killed: the next one notes that it is lost.
    """

    kind: Literal["sent"] = "sent"
    ask: int
    step: int
    model: str
    prompt: str
    tokens: int
    usd: float | None = None


class Probed(Model):
    """What a model's server was found to be before a run (`llm.probe.Probe`); no decision of the search.

    `context` is in tokens, said by `context_from`; `scale` is the server's count of tokens over the rule's;
    `grammar` is the field in which it takes a grammar and keeps to it, `schema_kept`: it keeps to a schema.
    """

    kind: Literal["probed"] = "probed"
    model: str
    seconds: float
    context: int
    context_from: str
    scale: float
    scale_from: str
    grammar: str
    schema_kept: bool


class Paused(Model):
    """The process was told to stop (Ctrl-C) or an error ended it; `resume` goes on."""

    kind: Literal["paused"] = "paused"
    reason: str


class Resumed(Model):
    """A new process took the run up; the time since the event before is not run time. `max_tokens` and
    `max_usd` hold from now on where they are given."""

    kind: Literal["resumed"] = "resumed"
    tool_version: str
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_usd: Annotated[float | None, Field(gt=0)] = None


Body = Annotated[
    RunStarted
    | Baseline
    | Opened
    | Asked
    | Proposed
    | Result
    | Compared
    | Champion
    | ReadBack
    | Stopped
    | Examined
    | Sent
    | Exchanged
    | Probed
    | Paused
    | Resumed,
    Field(discriminator="kind"),
]


class Event(Model):
    """One line of the log. `prev` chains the lines: a hash of the line before, '' on the first."""

    v: Literal[1] = 1
    seq: Annotated[int, Field(ge=0)]
    t: float
    prev: str
    body: Body


EVENT = TypeAdapter(Event)


def as_json(value: Any) -> Any:
    """`value` as it will read back from a log: plain JSON data.

    Search decides on what it would read back, so that a resumed run decides alike. Tuples and sets
    become lists (sets sorted by text), infinities and NaN become None, other objects their text.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): as_json(item) for key, item in value.items()}
        case Set():
            return sorted((as_json(item) for item in value), key=json.dumps)
        case Sequence():
            return [as_json(item) for item in value]
        case _:
            return str(value)
