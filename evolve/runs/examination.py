"""The examination after a measured search, once a run: whether it is due, and its event.

A log that ends with `stopped` and should hold an examination is one whose process was killed while it
examined: a resume makes up for it. One that holds it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolve.events.schema import Event, Examined, RunStarted, Stopped, as_json


def is_due(events: Sequence[Event]) -> bool:
    """Whether a search on a GPU has ended by a rule and its best program was not examined."""
    bodies = [event.body for event in events]
    measured = any(isinstance(b, RunStarted) and b.device.timing == "measured" for b in bodies)
    stopped = any(isinstance(b, Stopped) for b in bodies)
    return measured and stopped and not any(isinstance(b, Examined) for b in bodies)


def of_the_search(events: Sequence[Event]) -> list[Event]:
    """The events without examinations: what the search itself decides again in a replay."""
    return [event for event in events if not isinstance(event.body, Examined)]


def as_event(candidate: int, found: Mapping[str, Any]) -> Examined:
    """The event of an examination; `found` is `scoring.final.Examination.to_json`."""
    return Examined.model_validate({**as_json(found), "candidate": candidate})
