"""`evolve run`: the search."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.cli.output import Output
    from evolve.runs.folder import RunFolder


def command(
    kernel: options.Kernel,
    budget: Annotated[
        int,
        typer.Option(
            "--budget",
            metavar="N",
            parser=options.whole(1, options.MOST_PROPOSALS),
            help="How many candidates may be scored.",
        ),
    ] = 200,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Who proposes programs: expert, llm, human or random; several share the budget: llm+expert.",
        ),
    ] = "expert",
    model: options.Models = None,
    api_base: options.ApiBases = None,
    model_timeout: options.ModelTimeout = 120,
    answer_tokens: options.AnswerTokens = 4096,
    context: options.Context = None,
    answers: options.Answers = "auto",
    max_tokens: options.MaxTokens = None,
    max_usd: options.MaxUsd = None,
    prompts: options.Prompts = None,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            metavar="HOW",
            help="evolve, or best-of-n: the agent alone, a control, and the default of --agent human.",
        ),
    ] = None,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The run's folder; default runs/<id>.")
    ] = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> int:
    """Search for a faster, proved kernel.

    Proposes transform programs, proves each legal, executes, checks and scores it, and keeps the
    whole search on record. Ctrl-C stops it; `evolve resume` goes on.
    """
    from evolve.cli.inputs import open_problem, problem_request
    from evolve.cli.output import Output
    from evolve.cli.searching import searching
    from evolve.events.schema import Settings
    from evolve.ir.errors import EvolveError
    from evolve.runs.session import start

    if out is not None and not out.parts:
        raise EvolveError("usage", "--out needs the name of a folder")
    if out is not None and not str(out).isprintable():  # `resume` is told this name, and the log has it
        raise EvolveError("usage", "--out has characters that cannot be printed", file=str(out))
    search = search or ("best-of-n" if agent == "human" else "evolve")
    if search not in ("evolve", "best-of-n"):
        raise EvolveError("usage", f"--search is evolve or best-of-n, not {search!r}")
    if answers not in ("auto", "steps", "programs"):
        raise EvolveError("usage", f"--answers is auto, steps or programs, not {answers!r}")
    models, bases = _models(agent, model or [], api_base or [])
    _limits(models, max_tokens, max_usd)
    texts = _prompts(agent, prompts)
    settings = Settings(
        budget=budget,
        seed=seed,
        agent=agent,
        search=search,  # type: ignore[arg-type]
        model=models[0] if len(models) == 1 else None,
        api_base=(bases[0] or None) if len(models) == 1 else None,
        models=tuple(models) if len(models) > 1 else (),
        api_bases=tuple(bases) if len(models) > 1 else (),
        model_timeout_s=model_timeout,
        answer_tokens=answer_tokens,
        context=context,
        answers=answers,  # type: ignore[arg-type]
        max_tokens=max_tokens,
        max_usd=max_usd,
    )
    with Output(json) as output:
        request = problem_request(kernel, entry, workload, device, numerics)
        with searching(open_problem, workers, agent) as session:
            folder = start(request, settings, out, session, texts)
        return finish(folder, output)


def _models(agent: str, models: list[str], bases: list[str]) -> tuple[list[str], list[str]]:
    """Models and their servers, an empty text for the protocol's own. Raises EvolveError before anything is
    recorded."""
    from evolve.agents.registry import split_names
    from evolve.ir.errors import EvolveError
    from evolve.llm.model import read_model

    if "llm" not in split_names(agent):
        given = [name for name, value in (("--model", models), ("--api-base", bases)) if value]
        if given:
            raise EvolveError("usage", f"{given[0]} belongs to --agent llm, and --agent is {agent}")
        return [], []
    if len(bases) not in (0, 1, max(1, len(models))):
        message = f"{len(models)} models and {len(bases)} addresses: give one for all, or one for each"
        raise EvolveError("usage", message, hint="--api-base - is a protocol's own server")
    servers = ["" if one == "-" else one for one in bases or ["-"]]
    servers = servers * max(1, len(models)) if len(servers) == 1 else servers
    for name, server in zip(models or [""], servers, strict=True):
        read_model(name, server or None)
    return models, servers


def _limits(models: list[str], max_tokens: int | None, max_usd: float | None) -> None:
    """Raises EvolveError where there is no model that they could limit."""
    from evolve.ir.errors import EvolveError

    given = [name for name, value in (("--max-tokens", max_tokens), ("--max-usd", max_usd)) if value]
    if given and not models:
        raise EvolveError("usage", f"{given[0]} limits what models take, and no --model is asked")


def _prompts(agent: str, folder: Path | None) -> dict[str, str]:
    """The templates in place of built-in ones. Raises EvolveError before anything is recorded."""
    from evolve.agents.registry import split_names
    from evolve.ir.errors import EvolveError
    from evolve.llm.prompts import read_prompts

    if folder is None:
        return {}
    if not {"llm", "human"} & set(split_names(agent)):
        raise EvolveError("usage", f"--prompts belongs to --agent llm, and --agent is {agent}")
    return read_prompts(folder)


def finish(folder: RunFolder, output: Output) -> int:
    """Prints what a run came to; returns the exit status."""
    from evolve.cli.main import INTERRUPTED
    from evolve.cli.output import note
    from evolve.report.table import final_table
    from evolve.runs.summary import as_document, read_view

    view = read_view(folder)
    document = as_document(view, folder.name, folder.blobs)
    if output.as_json:
        output.document(document)
    rests = f"  what it rests on: evolve report {shlex.quote(folder.name)}"
    output.text(f"{final_table(document, folder.path)}\n{rests}")
    if view.ended == "interrupted":
        note(f"interrupted; go on with: evolve resume {folder.name}")
        return INTERRUPTED
    failed = view.examined is not None and view.examined.state == "failed"
    wrong = view.state.funnel["miscompiled"] or document["refuted"]
    reached = view.state.scored or view.ended == "speed_of_light"
    return 0 if reached and not failed and not wrong else 1
