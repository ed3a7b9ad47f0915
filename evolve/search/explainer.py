"""Explaining refusals in a process of its own, which can be given up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from evolve.search.problem import Compiled, Problem
from evolve.search.processes import BUILDER_BYTES, Forked, fork
from evolve.search.workers import explain_text

LIMIT_S = 60.0
"""For one program."""
_POLL_S = 0.1


class Explainer:
    """Forked when first asked, replaced when it dies or takes too long."""

    def __init__(self, problem: Problem[Any]) -> None:
        self._problem = problem
        self._worker: Forked | None = None

    def explain(self, text: str, others: Iterable[Forked], idle: Callable[[], None]) -> Compiled:
        """As `workers.explain_text`. `others` are the processes forked so far; `idle` may raise."""
        worker = self._worker or fork(partial(_serve, self._problem), others, headroom=BUILDER_BYTES)
        self._worker = worker
        try:
            worker.pipe.send(text)
            worker.jobs, worker.at = {0: text}, 0
            while not worker.pipe.poll(_POLL_S):
                idle()
                worker.give_up(LIMIT_S)
            compiled: Compiled = worker.pipe.recv()
            worker.jobs = {}
            return compiled
        except (EOFError, OSError):
            self._worker = None
            how = worker.bury()
            if worker.late:
                told = {"code": "E-TIME", "message": f"it was given up after {LIMIT_S:g} s of analysis"}
            else:
                told = {"code": "E-INTERNAL", "message": f"the analysis died on this program ({how})"}
            return Compiled("UNKNOWN", (told,))
        except BaseException:
            self.close()  # what it still has to say answers nobody
            raise

    def close(self) -> None:
        """Ends the process. Safe to call twice."""
        if self._worker is not None:
            self._worker.end(kill=True)
            self._worker = None


def _serve(problem: Problem[Any], pipe: Connection, text: str) -> None:
    pipe.send(explain_text(problem, text))
