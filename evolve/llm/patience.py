"""Which requests are tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

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
        growing = wait_exponential(multiplier=self.first_s, max=self.most_s) + wait_random(0, self.first_s)

        def pause(state: RetryCallState) -> float:
            fault = state.outcome.exception() if state.outcome is not None else None
            asked_s = fault.after_s if isinstance(fault, Fault) else 0.0
            return min(max(growing(state), asked_s), self.most_s)

        until = 0.0

        def note(seconds: float) -> None:
            nonlocal until
            until = time.monotonic() + seconds

        attempts = Retrying(
            retry=retry_if_exception(lambda e: isinstance(e, Fault) and e.again),
            stop=stop_after_attempt(self.attempts),
            wait=pause,
            sleep=note,  # who drives the generator waits
            reraise=True,
        )
        for attempt in attempts:
            while time.monotonic() < until:
                yield
            with attempt:
                try:
                    return (yield from request())
                except Fault as fault:
                    failed(fault)
                    raise
        raise AssertionError("the last attempt is answered or raises")
