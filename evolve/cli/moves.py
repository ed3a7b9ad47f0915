"""`evolve moves`: which statements may come next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evolve.cli import options


def command(
    kernel: options.Kernel,
    program: Annotated[
        Path | None,
        typer.Option(
            "--program", metavar="FILE", help="What stands before; - reads standard input. Default: nothing."
        ),
    ] = None,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    json: options.Json = False,
) -> int:
    """List the statements that may come next.

    Their preconditions hold, and a block still fits them. Most of them are proved; `check` decides.

    Exit status 1 if the program itself is refused.
    """
    from evolve.cli.inputs import open_problem, problem_request, program_text
    from evolve.cli.output import Output, note
    from evolve.dsl.diagnostic import RefusedError
    from evolve.dsl.registry import primitives

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics, program))
        try:
            found = list(problem.legal_moves("" if program is None else program_text(program)))
        except RefusedError as e:
            refused = e.diagnostic
            if output.as_json:
                error = {"code": refused.code, "message": refused.message}
                output.document({"error": error | {"file": str(program), "line": refused.line}})
            note(f"evolve: {program}:{refused.line}: {refused.code}: {refused.message}")
            return 1
        if output.as_json:
            by_name = {name: [m for m in found if m.startswith(f"{name}(")] for name in primitives()}
            output.document({"moves": found, "by_primitive": {n: len(m) for n, m in by_name.items() if m}})
        output.text("\n".join(found))
        return 0
