"""`evolve replay`: makes a run's decisions again from its record."""

from __future__ import annotations

from evolve.cli import options


def command(run: options.Run, json: options.Json = False) -> int:
    """Make the decisions of a run again, from its record.

    Agents and scores answer as recorded.
    Nothing is compiled or executed. Exit status 1 if the search now decides otherwise.
    """
    from evolve.cli.output import Output
    from evolve.ir.errors import EvolveError
    from evolve.runs.folder import find_run
    from evolve.runs.session import replay

    with Output(json) as output:
        folder = find_run(run)
        events = 0

        def count(body: object, recorded: bool) -> None:
            nonlocal events
            events += 1

        difference: str | None = None
        try:
            replay(folder, count)
        except EvolveError as error:
            if error.code != "diverged":
                raise
            difference = error.message
        if output.as_json:
            output.document(
                {"run": folder.name, "agrees": difference is None, "events": events, "difference": difference}
            )
        output.text(difference or f"{folder.name}: all {events} events of the search come out the same")
        return 0 if difference is None else 1
