"""`evolve verify`: checks a run's winner again, from its record, on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evolve.cli import options


def command(run: options.Run, json: options.Json = False) -> int:
    """Check a run's best program again.

    It is proved, its text is read back, and it is executed and scored on this machine. What was examined
    after a measured search is examined again, on inputs drawn from the recorded secret.

    Exit status 1 if it is not PROVED and scored now, if its text is REFUTED, if the code it renders to
    differs from the recorded one, or if it fails the examination.
    """
    from dataclasses import asdict

    from evolve.cli.inputs import note_changes, open_problem
    from evolve.cli.output import Output
    from evolve.runs.examination import repeat
    from evolve.runs.folder import find_run
    from evolve.runs.session import request_of
    from evolve.runs.summary import as_document, read_view

    with Output(json) as output:
        folder = find_run(run)
        note_changes(folder)
        view = read_view(folder)
        assert view.started is not None
        best = as_document(view, folder.name, folder.blobs)["best"]
        problem = open_problem(request_of(folder, view.started))
        compiled = problem.compile(problem.parse(best["program"]))
        proved = compiled.verdict == "PROVED"
        score = problem.score(compiled) if proved else None
        read = problem.read_back(compiled) if proved else None
        same = score is not None and (score.source is None or score.source == best["source"])
        if not best["candidate"]:
            same = proved
        holds = score is not None and score.status == "scored" and same
        holds = holds and (read is None or read.status != "REFUTED")
        again = repeat(problem, compiled, view.examined) if holds and view.examined else None
        holds = holds and (again is None or again.state != "failed")
        document = {
            "run": folder.name,
            "candidate": best["candidate"],
            "holds": holds,
            "verdict": compiled.verdict,
            "premises": list(compiled.premises),
            "text": None if read is None else asdict(read) | {"said": read.said},
            "status": score.status if score else None,
            "message": score.message if score else "",
            "same_source": same,
            "time_us": score.time_us if score else None,
            "recorded_time_us": best["time_us"],
            "timing": problem.info().device.timing,
            "examined": again.model_dump(mode="json", exclude={"kind"}) if again else None,
        }
        if output.as_json:
            output.document(document)
        output.text("\n".join(_lines(document)))
        return 0 if holds else 1


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The answer for a person, then what it rests on."""
    from evolve.report.examined import examined_lines
    from evolve.report.units import microseconds

    who = f"candidate {document['candidate']}" if document["candidate"] else "the kernel as given"
    yield f"{who} of {document['run']} {'holds' if document['holds'] else 'does NOT hold'}"
    yield f"  proof: {document['verdict']}"
    yield from (f"    resting on: {premise}" for premise in document["premises"])
    if document["text"] is not None:
        yield f"  text: {document['text']['said']}"
    if document["status"] is None:
        yield "  not executed, since it is not proved here"
        return
    message = f": {document['message']}" if document["message"] else ""
    yield f"  execution and checks: {document['status'].replace('_', ' ')}{message}"
    yield f"  its code is {'the recorded one' if document['same_source'] else 'not the recorded one'}"
    now, before = (microseconds(document[name]) for name in ("time_us", "recorded_time_us"))
    yield f"  time ({document['timing']}): {now} now, {before} on record"
    yield from (f"  {line}" for line in examined_lines(document["examined"]))
