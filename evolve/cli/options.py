"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    typer.Option("--device", metavar="DEVICE", help="auto, cuda, or sim:PROFILE such as sim:h200-sxm."),
]
Numerics = Annotated[
    str | None,
    typer.Option(
        "--numerics",
        metavar="CONTRACT",
        help="exact, reassociate, fast or mixed; default: the workload's, else reassociate.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same search.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output and nothing else.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run: its id under runs/, or a path.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, max=64, help="Processes that evaluate; default: cores, at most 8."
    ),
]
