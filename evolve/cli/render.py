"""`evolve render`: the CUDA code of a program."""

from __future__ import annotations

from evolve.cli import options


def command(
    kernel: options.Kernel,
    program: options.Program,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    json: options.Json = False,
) -> int:
    """Print the CUDA code of a transform program.

    A program that is not PROVED has none: exit status 1, and `evolve check` says why.
    """
    from evolve.cli.inputs import compile_program, open_problem, problem_request
    from evolve.cli.output import Output
    from evolve.ir.errors import NegativeAnswerError

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics, program))
        compiled = compile_program(problem, program)
        if compiled.verdict != "PROVED":
            first = compiled.diagnostics[0] if compiled.diagnostics else {}
            why = f": {first.get('code')}: {first.get('message')}" if first else ""
            line = first.get("line")
            raise NegativeAnswerError(
                "not-proved",
                f"the program is {compiled.verdict}{why}",
                file=str(program),
                line=line if isinstance(line, int) else None,
            )
        source = problem.render(compiled)
        if output.as_json:
            output.document({"verdict": compiled.verdict, "source": source, "module": compiled.module_hash})
        output.text(source)
        return 0
