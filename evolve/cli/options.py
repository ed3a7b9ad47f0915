"""Options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

MOST_PROPOSALS = 10_000_000
_WORD = 2**63


def whole(least: int, most: int) -> Callable[[str], int]:
    """Parses a whole number between these, both included; raises typer.BadParameter saying so."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise typer.BadParameter(f"{str(text)[:40]!r} is not a whole number from {least} to {most}")
        return number

    return parse


def dollars(text: str) -> float:
    """Parses an amount in USD; raises typer.BadParameter."""
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0.0 < amount < 1e6:
        raise typer.BadParameter(f"{str(text)[:40]!r} is not an amount in USD, more than 0 and less than 1e6")
    return amount


Kernel = Annotated[Path, typer.Option("--kernel", metavar="FILE", help="The CUDA file with the kernel.")]
Program = Annotated[
    Path, typer.Option("--program", metavar="FILE", help="A transform program; - reads standard input.")
]
Entry = Annotated[
    str | None, typer.Option("--entry", metavar="NAME", help="Which kernel, if the file has several.")
]
Workload = Annotated[
    Path | None,
    typer.Option(
        "--workload", metavar="FILE", help="TOML with sizes, roles and launch; inferred if not given."
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cuda, cuda:0,1 for several GPUs, sim:PROFILE such as sim:h200-sxm (`evolve devices`), or auto: "
        "cuda where it works, else sim:h200-sxm.",
    ),
]
Numerics = Annotated[
    str | None,
    typer.Option(
        "--numerics",
        metavar="CONTRACT",
        help="exact, reassociate, fast or mixed; default: the workload's, else reassociate.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", parser=whole(-_WORD, _WORD - 1), help="Same seed, same search.")
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="A language model: openai/NAME."),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="The model of --agent llm: openai/NAME; given several times, several share the budget.",
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option(
        "--api-base", metavar="URL", help="The server that has it; the protocol's own if not given."
    ),
]
ApiBases = Annotated[
    list[str] | None,
    typer.Option(
        "--api-base",
        metavar="URL",
        help="The server that has it, such as http://127.0.0.1:8000/v1; the protocol's own if not given. Of "
        "several models: once for all, or once for each in order, - being the protocol's own.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        metavar="N",
        parser=whole(1, 1 << 40),
        help="How many tokens the models may take in all, prompts and answers.",
    ),
]
MaxUsd = Annotated[
    float | None,
    typer.Option("--max-usd", metavar="X", parser=dollars, help="What the models may cost in all, in USD."),
]
Context = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="TOKENS",
        parser=whole(1024, 100_000_000),
        help="How large the model's context is; asked of the server if not given, else 8192.",
    ),
]
ModelTimeout = Annotated[
    int,
    typer.Option(
        "--model-timeout", metavar="SECONDS", parser=whole(1, 3600), help="How long one answer may take."
    ),
]
AnswerTokens = Annotated[
    int,
    typer.Option(
        "--answer-tokens",
        metavar="N",
        parser=whole(64, 1_000_000),
        help="How long an answer may be, with what a model thinks before it.",
    ),
]
Answers = Annotated[
    str,
    typer.Option(
        "--answers",
        metavar="HOW",
        help="What a model is asked for: programs, steps (one statement at a time, of those that are "
        "legal), or auto: steps where its context is small.",
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="DIR",
        help="Templates in place of the built-in ones: any of system.j2, propose.j2, repair.j2.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output and nothing else.")
]
Compiler = Annotated[
    str | None,
    typer.Option(
        "--compile",
        metavar="COMPILER",
        help="Also compile it for the device's GPU, by nvrtc, nvcc or both, and say what came of it.",
    ),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run: its id under runs/, or a path.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        parser=whole(1, 64),
        help="Processes that evaluate; default: cores, at most 8.",
    ),
]
