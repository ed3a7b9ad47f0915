"""What a family of schedules offers: a program, the reason for it, the lost time that it is good against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sketch:
    """A program with holes. `against` names causes of the gap report that it addresses."""

    text: str
    why: str
    against: tuple[str, ...] = ()
