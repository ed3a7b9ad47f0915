"""`evolve show`: the story of a run, or of one candidate."""

from __future__ import annotations

from typing import Annotated

import typer

from evolve.cli import options


def command(
    run: options.Run,
    candidate: Annotated[
        int | None,
        typer.Argument(
            metavar="CANDIDATE",
            parser=options.whole(0, options.MOST_PROPOSALS),
            help="A proposal's number; 0 is the baseline.",
        ),
    ] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="What was said to a model and what it answered.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Tell the story of a run, or of one candidate.

    Its champions and what became of the proposals.

    With CANDIDATE: that program, where it came from, its verdict, score and gap.
    """
    from evolve.cli.output import Output
    from evolve.ir.errors import EvolveError
    from evolve.report.conversation import conversation_text
    from evolve.report.story import candidate_text, run_text
    from evolve.runs.conversation import conversation
    from evolve.runs.folder import find_run
    from evolve.runs.story import candidate_story, run_story
    from evolve.runs.summary import read_view

    with Output(json) as output:
        folder = find_run(run)
        if prompts:
            if candidate is not None:
                raise EvolveError("usage", "--prompts shows a whole run, and CANDIDATE one program of it")
            said = conversation(folder)
            if output.as_json:
                output.document({"run": folder.name, "exchanges": said})
            output.text(conversation_text(said))
            return 0
        view = read_view(folder)
        if candidate is None:
            story = run_story(view, folder)
            if output.as_json:
                output.document(story)
            output.text(run_text(story))
        else:
            story = candidate_story(view, folder, candidate)
            if output.as_json:
                output.document(story)
            output.text(candidate_text(story))
        return 0
