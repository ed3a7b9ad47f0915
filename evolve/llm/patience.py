"""Which requests are tried again, and when a model is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from evolve.llm.faults import Fault
from evolve.llm.request import Wait

_TICK_S = 0.1
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Patience:
    """`attempts` for a request, with pauses that double from `first_s` to `most_s`, or as long as the server
    says, but never longer than that."""

    attempts: int = 4
    first_s: float = 0.5
    most_s: float = 30.0

    def ask(
        self,
        request: Callable[[], Reply],
        wait: Wait = lambda: None,
        failed: Callable[[Fault], None] = lambda fault: None,
    ) -> Reply:
        """What the first attempt that is answered brings.

        `failed` hears of every fault; the last one is raised. `wait` is called during the pauses.
        """
        growing = wait_exponential(multiplier=self.first_s, max=self.most_s) + wait_random(0, self.first_s)

        def pause(state: RetryCallState) -> float:
            fault = state.outcome.exception() if state.outcome is not None else None
            asked = fault.after_s if isinstance(fault, Fault) else 0.0
            return min(max(growing(state), asked), self.most_s)

        def attempt() -> Reply:
            try:
                return request()
            except Fault as fault:
                failed(fault)
                raise

        def sleep(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                wait()
                time.sleep(min(_TICK_S, left))

        retrying = Retrying(
            retry=retry_if_exception(lambda e: isinstance(e, Fault) and e.again),
            stop=stop_after_attempt(self.attempts),
            wait=pause,
            sleep=sleep,
            reraise=True,
        )
        return retrying(attempt)


class Breaker:
    """Leaves a model alone that has failed again and again: after `limit` failures in a row the next ask is
    skipped, after each further failure twice as many."""

    def __init__(self, limit: int = 3, most: int = 64) -> None:
        self._limit, self._most = limit, most
        self._failures = 0
        self._skip = 0

    @property
    def tripped(self) -> bool:
        """Whether it has failed so often in a row."""
        return self._failures >= self._limit

    def skips(self) -> bool:
        """Whether this ask is to be skipped; counts it if so."""
        self._skip -= 1
        return self._skip >= 0

    def failed(self) -> None:
        """An ask that brought nothing."""
        self._failures += 1
        if self.tripped:
            self._skip = min(self._most, 1 << (self._failures - self._limit))

    def succeeded(self) -> None:
        """An ask that brought a program."""
        self._failures = self._skip = 0
