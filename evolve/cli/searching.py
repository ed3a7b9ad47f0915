"""What `run` and `resume` share: the session with display, workers and Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from evolve.cli.interrupts import Interrupts
from evolve.cli.output import note
from evolve.ir.errors import EvolveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evolve.agents.portfolio.agent import AnyAgent
    from evolve.events.schema import Body, Settings
    from evolve.runs.folder import RunFolder
    from evolve.runs.session import OpenProblem, Session
    from evolve.search.problem import ProblemInfo

_MOST_WORKERS = 16


@contextmanager
def searching(open_problem: OpenProblem, workers: int | None, agent: str) -> Iterator[Session]:
    """A session that shows progress on standard error and stops on Ctrl-C. Where a person is asked there, it
    draws nothing.

    Whatever ends a search that had begun, the message says how to go on.
    """
    from evolve.agents.registry import make_agent
    from evolve.report.display import make_display
    from evolve.runs.session import Session

    display = make_display(live="human" not in agent.split("+"))
    begun: RunFolder | None = None

    def announce(folder: RunFolder, info: ProblemInfo) -> None:
        nonlocal begun
        begun = folder
        display.announce(folder.path, info)

    def made(settings: Settings, prompts: Mapping[str, str]) -> AnyAgent:
        agent = make_agent(settings, prompts)
        for line in getattr(agent, "notes", ()):
            note(f"goes on without: {line}")
        return agent

    with Interrupts() as interrupts:

        def observe(body: Body, recorded: bool) -> None:
            display.observe(body, recorded)
            # From the baseline on there is something to resume.
            interrupts.soft = interrupts.soft or body.kind == "baseline"

        try:
            with display:
                yield Session(
                    open_problem=open_problem,
                    make_agent=made,
                    workers=workers or min(_MOST_WORKERS, _cores()),
                    interrupted=interrupts,
                    observe=observe,
                    announce=announce,
                )
        except (EvolveError, KeyboardInterrupt):
            if interrupts.soft and begun is not None:
                with suppress(EvolveError):
                    note(_table(begun))
                note(f"the run is on disk; go on with: evolve resume {begun.name}")
            raise


def _table(folder: RunFolder) -> str:
    """What a run that cannot go on has come to."""
    from evolve.report.table import final_table
    from evolve.runs.summary import as_document, read_view

    return final_table(as_document(read_view(folder), folder.name, folder.blobs), folder.path)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
