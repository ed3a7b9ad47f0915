"""`evolve report`: what a run came to."""

from __future__ import annotations

from evolve.cli import options


def command(run: options.Run, json: options.Json = False) -> int:
    """Show what a run came to.

    Baseline, best, speed of light, funnel, files; and what the result rests on: what was given,
    assumed, proved, checked and timed."""
    from evolve.cli.output import Output
    from evolve.report.evidence import evidence_text
    from evolve.report.table import final_table
    from evolve.runs.evidence import evidence
    from evolve.runs.folder import find_run
    from evolve.runs.summary import as_document, read_view

    with Output(json) as output:
        folder = find_run(run)
        view = read_view(folder)
        document = as_document(view, folder.name, folder.blobs)
        if output.as_json:
            output.document(document)
        output.text(f"{final_table(document, folder.path)}\n\n{evidence_text(evidence(view))}")
        return 0
