"""What reading the text back came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TextStatus(Enum):
    """UNKNOWN: something in the text is of a form that is not read. It proves nothing."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class TextVerdict:
    """`reason` names the first difference, or the form that is not read; `line` of the text, 0 for none."""

    status: TextStatus
    reason: str = ""
    line: int = 0

    @property
    def proved(self) -> bool:
        return self.status is TextStatus.PROVED

    def __str__(self) -> str:
        at = f"line {self.line}: " if self.line else ""
        return "PROVED" if self.proved else f"{self.status.value}: {at}{self.reason}"


class UnreadError(Exception):
    """A form that is not read: the answer is UNKNOWN."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class DifferenceError(Exception):
    """The text does something else than the kernel: the answer is REFUTED."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
