"""`evolve resume`: goes on with a run."""

from __future__ import annotations

from evolve.cli import options


def command(
    run: options.Run,
    max_tokens: options.MaxTokens = None,
    max_usd: options.MaxUsd = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> int:
    """Go on with an interrupted run.

    On `sim` it ends with the same candidates as a run that was never interrupted. A run that has
    ended by its own rules is only shown again. --max-tokens and --max-usd take the place of the run's own.
    """
    from dataclasses import replace

    from evolve.cli.inputs import note_changes, open_problem
    from evolve.cli.output import Output
    from evolve.cli.run import finish
    from evolve.cli.searching import searching
    from evolve.runs.folder import find_run
    from evolve.runs.session import resume
    from evolve.runs.summary import read_view

    with Output(json) as output:
        folder = find_run(run)
        note_changes(folder)
        started = read_view(folder).started
        assert started is not None
        with searching(open_problem, workers, started.settings.agent) as session:
            resume(folder, replace(session, max_tokens=max_tokens, max_usd=max_usd))
        return finish(folder, output)
