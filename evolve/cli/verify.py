"""`evolve verify`: checks a run's winner again, from its record, on this machine."""

from __future__ import annotations

from evolve.cli import options


def command(run: options.Run, json: options.Json = False) -> int:
    """Check a run's best program again.

    It is proved, executed and scored on this machine.

    Exit status 1 if it is not PROVED and scored now, or if the code it renders to differs from the
    recorded one.
    """
    from evolve.cli.inputs import open_problem
    from evolve.cli.output import Output
    from evolve.events.log import read_log
    from evolve.runs.folder import find_run
    from evolve.runs.session import request_of
    from evolve.runs.summary import as_document, fold

    with Output(json) as output:
        folder = find_run(run)
        view = fold(read_log(folder.log).events)
        assert view.started is not None
        best = as_document(view, folder.name, folder.blobs)["best"]
        problem = open_problem(request_of(folder, view.started))
        compiled = problem.compile(problem.parse(best["program"]))
        proved = compiled.verdict == "PROVED"
        score = problem.score(compiled) if proved else None
        same = score is not None and (score.source is None or score.source == best["source"])
        if not best["candidate"]:
            same = proved
        holds = score is not None and score.status == "scored" and same
        document = {
            "run": folder.name,
            "candidate": best["candidate"],
            "holds": holds,
            "verdict": compiled.verdict,
            "status": score.status if score else None,
            "message": score.message if score else "",
            "same_source": same,
            "time_us": score.time_us if score else None,
            "recorded_time_us": best["time_us"],
            "timing": problem.info().device.timing,
        }
        if output.as_json:
            output.document(document)
        output.text("\n".join(f"{name:18}{value}" for name, value in document.items()))
        return 0 if holds else 1
