"""`evolve check`: is a program legal?"""

from __future__ import annotations

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
    from evolve.report.story import diagnostic_lines

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics, program))
        compiled = compile_program(problem, program)
        diagnostics = [{name: as_json(one.get(name)) for name in _FIELDS} for one in compiled.diagnostics]
        if output.as_json:
            output.document({"verdict": compiled.verdict, "diagnostics": diagnostics})
        output.text(
            "\n".join([compiled.verdict, *(line for one in diagnostics for line in diagnostic_lines(one))])
        )
        return 0 if compiled.verdict == "PROVED" else 1
