"""`evolve report`: what a run came to."""

from __future__ import annotations

from evolve.cli import options


def command(run: options.Run, json: options.Json = False) -> int:
    """Show what a run came to.

    Baseline, best, speed of light, funnel, files."""
    from evolve.cli.output import Output
    from evolve.events.log import read_log
    from evolve.report.table import final_table
    from evolve.runs.folder import find_run
    from evolve.runs.summary import as_document, fold

    with Output(json) as output:
        folder = find_run(run)
        document = as_document(fold(read_log(folder.log).events), folder.name, folder.blobs)
        if output.as_json:
            output.document(document)
        output.text(final_table(document, folder.path))
        return 0
