"""`evolve check`: is a program legal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolve.cli import options

_FIELDS = ("code", "statement", "line", "message", "witness", "repair")


def command(
    kernel: options.Kernel,
    program: options.Program,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    json: options.Json = False,
) -> int:
    """Prove or refute a transform program.

    PROVED means that it computes what the kernel computes.

    Exit status 0 if PROVED, 1 if REFUTED or UNKNOWN.
    """
    from evolve.cli.inputs import compile_program, open_problem, problem_request
    from evolve.cli.output import Output
    from evolve.events.schema import as_json

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics))
        compiled = compile_program(problem, program)
        diagnostics = [{name: as_json(one.get(name)) for name in _FIELDS} for one in compiled.diagnostics]
        if output.as_json:
            output.document({"verdict": compiled.verdict, "diagnostics": diagnostics})
        output.text("\n".join([compiled.verdict, *(describe(one) for one in diagnostics)]))
        return 0 if compiled.verdict == "PROVED" else 1


def describe(diagnostic: Mapping[str, Any]) -> str:
    """A diagnostic in lines for a person."""
    place = f"line {diagnostic['line']}: " if diagnostic.get("line") else ""
    lines = [f"{place}{diagnostic.get('code')}: {diagnostic.get('message')}"]
    for name in ("statement", "witness", "repair"):
        if diagnostic.get(name) is not None:
            lines.append(f"    {name}: {diagnostic[name]}")
    return "\n".join(lines)
