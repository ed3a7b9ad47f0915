"""Which requests are tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import uniform

from evolve.llm.faults import Fault
from evolve.llm.request import Reply, Wait, Waiting

_TICK_S = 0.05


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
        """As `asking`, of a request that waits itself; `wait` is called during the pauses, and may raise."""

        def at_once() -> Waiting[Reply]:
            return request()
            yield

        asking = self.asking(at_once, failed)
        while True:
            try:
                next(asking)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            wait()
            time.sleep(_TICK_S)

    def asking(
        self, request: Callable[[], Waiting[Reply]], failed: Callable[[Fault], None] = lambda fault: None
    ) -> Waiting[Reply]:
        """What the first attempt that is answered brings. `failed` hears of every fault; the last one is
        raised."""
        for attempt in count(1):
            try:
                return (yield from request())
            except Fault as fault:
                failed(fault)
                if not fault.again or attempt >= self.attempts:
                    raise
                until = time.monotonic() + self._pause(attempt, fault.after_s)
            while time.monotonic() < until:
                yield
        raise AssertionError("the last attempt is answered or raises")

    def _pause(self, attempt: int, asked_s: float) -> float:
        """Seconds after so many attempts, with a random part, so that clients do not come back at once."""
        growing = min(self.first_s * 2.0 ** (attempt - 1), self.most_s) + uniform(0, self.first_s)
        return min(max(growing, asked_s), self.most_s)
