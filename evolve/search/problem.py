"""What the search needs of a kernel: the seam between the loop and everything that compiles or runs.

The loop knows programs only as text. A `Problem` parses, proves, renders, executes and scores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Verdict = Literal["PROVED", "REFUTED", "UNKNOWN"]
ScoreStatus = Literal["scored", "miscompiled", "compile_failed", "incorrect", "quarantined", "prefiltered"]


@dataclass(frozen=True)
class ProblemRequest:
    """What a user asked for, as texts: a run folder keeps these, so a resume needs no other file.

    `kernel_file` and `workload_file` only serve messages. `workload_text` is TOML, None to infer.
    """

    kernel_file: str
    kernel_text: str
    entry: str | None = None
    workload_text: str | None = None
    workload_file: str | None = None
    device: str = "auto"
    numerics: str | None = None


@dataclass(frozen=True)
class Device:
    """`kind` (sim, cuda, opencl), `profile` (stem of a file in hardware/), what the times are; which GPUs.

    `reason` says why it was chosen where the user did not name it.
    """

    kind: str
    profile: str
    timing: Literal["measured", "estimated"]
    ordinals: tuple[int, ...] = (0,)
    reason: str = ""

    @property
    def name(self) -> str:
        """How `--device` spells it."""
        return f"{self.kind}:{self.profile}"


@dataclass(frozen=True)
class Sol:
    """The speed of light in microseconds: attainable (guides) and hard (integrity), and what binds."""

    time_us: float
    hard_time_us: float
    bound: str


SAY_LAUNCH = (
    "say in a file for --workload how it is launched: under a line [launch], a line such as "
    'grid = ["(n + 255) / 256"] and one such as block = [256]'
)
"""What to do where the launch that is assumed is not the kernel's."""


@dataclass(frozen=True)
class ProblemInfo:
    """What is known before the search. All but `kernel` and `target` must be JSON data.

    `workload_toml` goes to the run folder; `kernel` (the IR) and `target` are for agents and `variation`.
    `assumed_launch`: grid and block as a workload has them, where neither file nor workload says so.
    """

    entry: str
    device: Device
    sol: Sol
    workload_toml: str
    workload: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    summary: str = ""
    features: Mapping[str, Any] = field(default_factory=dict)
    numerics: str = "reassociate"
    kernel: Any = None
    target: Any = None
    assumed_launch: str = ""


@dataclass(frozen=True)
class Compiled:
    """A program after the compiler: its verdict, and what `score` needs in `payload`.

    `module_hash` identifies the rendered module (None unless PROVED). Diagnostics are JSON objects
    `{code, statement, line, message, witness, repair}`. `premises` is what the proof rests on that lifting
    does not say, and what the numerics contract lets it take for the same function.
    """

    verdict: Verdict
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    module_hash: str | None = None
    payload: Any = None
    premises: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """What execution and timing said. `fitness` is 0 and `time_us` may be None unless scored.

    `miscompiled`: its text does something else than what was proved, an error of the tool;
    `incorrect` did something wrong; `quarantined` could not be judged, or its time cannot be; `prefiltered`
    was not measured, because its estimate is too slow.
    `source` is the CUDA text, `gap` the gap report, `cell` overrides the structural archive cell,
    `message` says in a sentence why it is not scored. `gap` and `detail` must be JSON data.
    """

    status: ScoreStatus
    time_us: float | None = None
    fitness: float = 0.0
    source: str | None = None
    gap: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    cell: tuple[str, ...] | None = None
    message: str = ""


@dataclass(frozen=True)
class Comparison:
    """An interleaved re-measurement; `better` only if the first is faster beyond the noise.

    `wrong` is 0 or 1 where the first or the second turned out to be incorrect, which `message` says how.
    """

    first_us: float
    second_us: float
    better: bool
    detail: Mapping[str, Any] = field(default_factory=dict)
    wrong: int | None = None
    message: str = ""


@dataclass(frozen=True)
class TextFound:
    """Whether the emitted text does what was proved. UNKNOWN: `line` of it has a form that is not read, as
    `reason` says."""

    status: Verdict
    reason: str = ""
    line: int = 0

    @property
    def said(self) -> str:
        """In a few words."""
        word = {"PROVED": "proved", "REFUTED": "REFUTED", "UNKNOWN": "not read back"}[self.status]
        at = f"line {self.line}: " if self.line else ""
        return f"{word}: {at}{self.reason}" if self.reason else word


ProgramT = TypeVar("ProgramT")


class Problem(Protocol[ProgramT]):
    """A kernel on a workload and a device. `open_problem(request)` of `evolve.search.task` makes one.

    `parse`, `compile`, `score` are called in worker processes forked after `baseline` returned, so
    no thread may be running then. `parse("")` must be the kernel as given.
    A deterministic problem (`sim`) must answer the same for the same text in every process.
    """

    def info(self) -> ProblemInfo:
        """What is known before the search: counts what the kernel needs, for which index arrays are drawn."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of `info`, which cost nothing."""
        ...

    @property
    def numerics(self) -> str:
        """The contract."""
        ...

    def parse(self, text: str) -> ProgramT:
        """The program. Raises EvolveError on what the grammar or the primitives' signatures refuse."""
        ...

    def canonical(self, program: ProgramT) -> str:
        """A text equal for programs that differ only in spelling."""
        ...

    def compile(self, program: ProgramT) -> Compiled:
        """Applies and proves the program. An EvolveError counts as a refusal with its code."""
        ...

    def explain(self, program: ProgramT) -> Compiled:
        """As `compile`; a refusal names the statement at fault, however long that takes: for people."""
        ...

    def score(self, compiled: Compiled) -> Score:
        """Builds, executes, checks and times a PROVED program.

        What the candidate does wrong is a status. An EvolveError about it counts as `quarantined`, not
        judged (`cannot-render` as `compile_failed`); one about the machine (`workers.ABOUT_THE_MACHINE`: the
        device is gone) pauses the run.
        """
        ...

    def baseline(self) -> Score:
        """The score of the kernel as given. Raises EvolveError if it cannot be run or checked."""
        ...

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        """Times two programs against each other, interleaved; only called where times are measured."""
        ...

    def legal_moves(self, text: str) -> Sequence[str]:
        """Statements that may be appended to this program, each legal, holes allowed, in a fixed order."""
        ...

    def render(self, compiled: Compiled) -> str:
        """The CUDA text of a PROVED program."""
        ...

    def read_back(self, compiled: Compiled) -> TextFound | None:
        """What reading the text of a PROVED program back comes to; None where none was emitted."""
        ...

    def inspect(self) -> Mapping[str, Any]:
        """JSON data with `kernels`, `loops`, `buffers`, `features`, `workload` and `sol`."""
        ...
