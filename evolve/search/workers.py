"""Evaluating proposals: here, or in forked worker processes; either way with the same outcomes.

Workers may finish in any order. A program whose rendered module an *earlier* proposal has already
compiled is not scored again; which one is earlier goes by number, so this too is independent of
timing.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from evolve.events.schema import as_json
from evolve.ir.errors import EvolveError
from evolve.search.prefilter import Decision
from evolve.search.problem import Comparison, Compiled, Problem, Score


@dataclass(frozen=True)
class Outcome:
    """What became of a program; `score` is None if it was not PROVED or not scored again."""

    compiled: Compiled
    score: Score | None = None
    fault: bool = False
    """Whether an exception of ours, not the program, decided it."""


ABOUT_THE_MACHINE = frozenset(
    (
        "no-cuda",
        "gpu-memory",
        "gpu-failed",
        "no-host-compiler",
        "no-nvrtc",
        "no-tool",
        "bad-cxx",
        "unsupported-arch",
        "sim.conformance",
        "sim.cache",
        "cannot-write",
    )
)
"""Codes of errors that no program causes: nothing can be scored any more, and the run pauses."""

Known = Callable[[str], bool]
Admit = Callable[[int, float | None], Decision]
"""Whether a candidate is worth measuring, from its number and its estimated microseconds if there are any."""


def admit_all(proposal: int, estimated_us: float | None) -> Decision:
    """Without a pre-filter."""
    return Decision("measure", "no_estimate")


class Evaluator(Protocol):
    """Evaluates proposals; `start` returns at once, `finish` waits."""

    def start(self, proposal: int, text: str) -> None:
        """Begins to evaluate a program."""
        ...

    def finish(
        self, proposal: int, known: Known, idle: Callable[[], None], admit: Admit = admit_all
    ) -> Outcome:
        """The outcome of a started proposal; they are asked for in order.

        `known(module)` says whether a finished proposal has that module: it is not scored again. Where times
        are measured and candidates estimated first, `admit` says which go to the GPU.
        Calls `idle` now and then while waiting; it may raise. Raises EvolveError if nothing can be
        scored any more.
        """
        ...

    def baseline(self) -> Score:
        """The score of the kernel as given, before anything is started. Raises EvolveError."""
        ...

    def tend(self, known: Known, admit: Admit = admit_all) -> None:
        """Passes on what lies ready, without waiting; for a caller that is busy with something else."""
        ...

    def explain(self, text: str, idle: Callable[[], None]) -> Compiled:
        """Why a program would be refused, without its payload; calls `idle` now and then, which may raise."""
        ...

    def compare(self, first: str, second: str) -> Comparison:
        """Times two PROVED programs against each other."""
        ...

    def examine(self, program: str) -> Any:
        """The last look at a PROVED program, None where times are estimated. Raises EvolveError."""
        ...

    def close(self) -> None:
        """Ends all workers."""
        ...


def compile_text(problem: Problem[Any], text: str) -> tuple[Compiled, bool]:
    """Compiles a program; an exception of ours is a refusal with code E-INTERNAL, and the flag."""
    return _compiled(problem, text, problem.compile)


def explain_text(problem: Problem[Any], text: str) -> Compiled:
    """Compiles a program so that a refusal names the statement at fault; without its payload."""
    return plain_compiled(_compiled(problem, text, problem.explain)[0])


def _compiled(problem: Problem[Any], text: str, how: Callable[[Any], Compiled]) -> tuple[Compiled, bool]:
    try:
        return how(problem.parse(text)), False
    except EvolveError as error:
        diagnostic = {"code": error.code, "message": error.message, "line": error.line}
        diagnostic |= {"repair": error.hint} if error.hint else {}
        return Compiled("UNKNOWN", (diagnostic,)), False
    except Exception as error:
        if os.environ.get("EVOLVE_DEBUG"):
            raise
        # A crashed analysis proves nothing: the program is refused, the run goes on, the report says so.
        return Compiled("UNKNOWN", ({"code": "E-INTERNAL", "message": _describe(error)},)), True


@runtime_checkable
class Staged(Protocol):
    """A problem whose `score` comes in stages, of which one is cheaper for several programs at once.

    `score(c)` is `begin(c)` where that gives a Score, else `conclude(begun, seen)`, `seen` being the
    entry of `look` for it, or None.
    """

    def begin(self, compiled: Compiled) -> Score | Any:
        """Decides what it can; else answers with something for the other two."""
        ...

    def look(self, begun: Sequence[Any]) -> Sequence[Any]:
        """Something about each; may raise EvolveError, which says nothing about any one of them."""
        ...

    def conclude(self, begun: Any, seen: Any | None) -> Score:
        """The score."""
        ...


@runtime_checkable
class Measuring(Protocol):
    """A problem whose times are measured: `score(c)` is `build(c)` where that gives a Score, else `measure`.

    What `build` gives can be pickled. `gpu` counts the run's GPUs; each has a process of its own, and there
    only that one is asked for.
    """

    def build(self, compiled: Compiled) -> Score | Any:
        """All that needs no GPU."""
        ...

    def estimate(self, built: Any) -> tuple[Any, float | None]:
        """The same with what the model says, and its time in microseconds; None where it can say nothing."""
        ...

    def measure(self, built: Any, gpu: int = 0) -> Score:
        """The rest."""
        ...

    def explain_time(self, built: Any, score: Score) -> Score:
        """A measured score with the model's view of where its time goes; needs no GPU."""
        ...

    def duel(self, first: Any, second: Any, gpu: int = 0) -> Comparison:
        """Interleaved times of two."""
        ...

    def examine(self, built: Any, gpu: int = 0) -> Any:
        """For the end of a run: what reaches no proposer, as JSON data."""
        ...

    def baseline(self) -> Score:
        """The kernel as given, on the first GPU."""
        ...

    def close(self) -> None:
        """Lets go of the GPUs."""
        ...


def score_compiled(problem: Problem[Any], compiled: Compiled) -> tuple[Score, bool]:
    """Scores a PROVED program, as `guarded` does."""
    return guarded(lambda: read_first(problem, compiled, problem.score))


def read_first(problem: Problem[Any], compiled: Compiled, then: Callable[[Compiled], Any]) -> Any:
    """What `then` gives, for a PROVED program whose text, read back, is not refuted: else that is its score.

    So no program whose text does something else than what was proved is ever executed, bred from or best.
    """
    found = problem.read_back(compiled)
    if found is not None and found.status == "REFUTED":
        at = f"line {found.line}: " if found.line else ""
        message = f"an error of evolve: its text does something else than what was proved: {at}{found.reason}"
        return Score("miscompiled", message=message, source=problem.render(compiled))
    return then(compiled)


def guarded(score: Callable[[], Any]) -> tuple[Any, bool]:
    """What `score` returns; an exception of ours sets the program aside, not judged, and the flag.

    So does an EvolveError about the program, except that it has no CUDA text: that is `compile_failed`. One
    about the machine is raised: it says nothing about the program, which a resume scores again.
    """
    try:
        return score(), False
    except EvolveError as error:
        if error.code in ABOUT_THE_MACHINE:
            raise
        if error.code == "cannot-render":
            return Score("compile_failed", message=f"{error.code}: {error}"), False
        return Score("quarantined", message=f"not judged: {error.code}: {error}"), True
    except Exception as error:
        if os.environ.get("EVOLVE_DEBUG"):
            raise
        return Score("quarantined", message=f"not judged: internal error: {_describe(error)}"), True


def plain_compiled(compiled: Compiled) -> Compiled:
    """Without the payload, diagnostics as they read back from the log."""
    diagnostics = tuple(as_json(compiled.diagnostics))
    return replace(compiled, diagnostics=diagnostics, payload=None)


def plain_score(score: Score) -> Score:
    """With gap and detail as they read back from the log."""
    return replace(score, gap=as_json(score.gap), detail=as_json(score.detail))


def _describe(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"[:500]


class SerialEvaluator:
    """Evaluates in this process, when the outcome is asked for."""

    def __init__(self, problem: Problem[Any]) -> None:
        self._problem = problem
        self._texts: dict[int, str] = {}

    def baseline(self) -> Score:
        """The score of the kernel as given."""
        return self._problem.baseline()

    def start(self, proposal: int, text: str) -> None:
        """Keeps the text for `finish`."""
        self._texts[proposal] = text

    def tend(self, known: Known, admit: Admit = admit_all) -> None:
        """Nothing goes on meanwhile."""

    def finish(
        self, proposal: int, known: Known, idle: Callable[[], None], admit: Admit = admit_all
    ) -> Outcome:
        """Evaluates now, whatever `admit` says."""
        idle()
        compiled, fault = compile_text(self._problem, self._texts.pop(proposal))
        plain = plain_compiled(compiled)
        if compiled.verdict != "PROVED" or (compiled.module_hash and known(compiled.module_hash)):
            return Outcome(plain, fault=fault)
        idle()
        score, fault = score_compiled(self._problem, compiled)
        if score.status != "scored":
            idle()  # Ctrl-C reaches what candidates run in too: a failure that came after it proves nothing
        return Outcome(plain, plain_score(score), fault)

    def explain(self, text: str, idle: Callable[[], None]) -> Compiled:
        """In this process."""
        idle()
        return explain_text(self._problem, text)

    def compare(self, first: str, second: str) -> Comparison:
        """Compiles both again, then times them."""
        return compare_texts(self._problem, first, second)

    def examine(self, program: str) -> Any:
        """Compiles it again, then looks."""
        return examine_text(self._problem, program)

    def close(self) -> None:
        """Lets go of what the problem holds."""
        if isinstance(self._problem, Measuring):
            self._problem.close()


def examine_text(problem: Problem[Any], program: str) -> Any:
    """The last look at a program's text; None where times are estimated."""
    if not isinstance(problem, Measuring):
        return None
    return problem.examine(problem.build(problem.compile(problem.parse(program))))


def compare_texts(problem: Problem[Any], first: str, second: str) -> Comparison:
    """Times two program texts against each other; the empty text is the kernel as given."""
    return compared(
        lambda: problem.compare(problem.compile(problem.parse(first)), problem.compile(problem.parse(second)))
    )


def compared(compare: Callable[[], Comparison]) -> Comparison:
    """What `compare` returns.

    An error that is not about the machine leaves the first no better, the error in `detail`: raised, it would
    stop the run at this very comparison each time that it is resumed.
    """
    try:
        return compare()
    except EvolveError as error:
        if error.code in ABOUT_THE_MACHINE:
            raise
        return Comparison(0.0, 0.0, False, {"error": f"{error.code}: {error}"})
    except Exception as error:
        if os.environ.get("EVOLVE_DEBUG"):
            raise
        return Comparison(0.0, 0.0, False, {"error": f"internal error: {_describe(error)}"})
