"""What a display shows while a search runs: a fold over the events, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable

from evolve.events.schema import Body, RunStarted
from evolve.search.state import SearchState


class Progress:
    """The state of the search, and how long the rest of the budget may take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.state = SearchState()
        self.started: RunStarted | None = None
        self._clock = clock
        self._since: float | None = None
        self._scored_before = 0

    def apply(self, body: Body, recorded: bool) -> None:
        """Folds an event in; recorded ones took no time now."""
        if isinstance(body, RunStarted):
            self.started = body
        if not recorded and self._since is None and body.kind in ("asked", "proposed"):
            self._since = self._clock()
            self._scored_before = self.state.scored
        self.state.apply(body)

    @property
    def elapsed_s(self) -> float:
        """Seconds since this process began to search."""
        return 0.0 if self._since is None else self._clock() - self._since

    def time_left_s(self) -> float | None:
        """Seconds until the budget is spent at the pace so far; None before there is a pace."""
        done = self.state.scored - self._scored_before
        if self._since is None or done < 3 or self.state.settings is None:
            return None
        return self.elapsed_s / done * max(0, self.state.settings.budget - self.state.scored)
