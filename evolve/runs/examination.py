"""The examination after a measured search, once a run: whether it is due, its event, and repeating it.

A log that ends with `stopped` and should hold an examination is one whose process was killed while it
examined: a resume makes up for it. One that holds it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from evolve.events.schema import Event, Examined, RunStarted, Stopped, as_json


def is_due(events: Sequence[Event]) -> bool:
    """Whether a search on a GPU has ended by a rule and its best program was not examined."""
    bodies = [event.body for event in events]
    measured = any(isinstance(b, RunStarted) and b.device.timing == "measured" for b in bodies)
    stopped = any(isinstance(b, Stopped) for b in bodies)
    return measured and stopped and not any(isinstance(b, Examined) for b in bodies)


def as_event(candidate: int, found: Mapping[str, Any]) -> Examined:
    """The event of an examination; `found` is `scoring.final.Examination.to_json`."""
    return Examined.model_validate({**as_json(found), "candidate": candidate})


@runtime_checkable
class Repeatable(Protocol):
    """A problem whose checks are drawn from a secret; see `search.workers.Measuring` for the others."""

    secret: int

    def build(self, compiled: Any) -> Any:
        """What `examine` takes."""
        ...

    def examine(self, built: Any) -> Mapping[str, Any]:
        """As `scoring.final.Examination.to_json`."""
        ...

    def close(self) -> None:
        """Forgets everything that was drawn from the secret."""
        ...


def repeat(problem: Any, compiled: Any, recorded: Examined) -> Examined | None:
    """The same examination of a proved program again, drawn from the recorded secret.

    None where times are estimated. Raises EvolveError as examining does. `problem` is closed before and
    after.
    """
    if not isinstance(problem, Repeatable):
        return None
    problem.close()
    problem.secret = int(recorded.secret, 16)
    try:
        return as_event(recorded.candidate, problem.examine(problem.build(compiled)))
    finally:
        problem.close()
