"""Ctrl-C: the first one asks the search to stop, the second one stops it at once."""

from __future__ import annotations

import signal
from types import FrameType

from evolve.cli.output import note


class Interrupts:
    """While entered, SIGINT and SIGTERM set `requested`, if `soft`; else, and the second time, they raise.

    Raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.requested = False
        self.soft = False

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._on) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        return self.requested

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.requested or not self.soft:
            raise KeyboardInterrupt
        self.requested = True
        note("stopping after the candidate in work; Ctrl-C again stops at once")
