"""`evolve check`: is a program legal?"""

from __future__ import annotations

from evolve.cli import options

_FIELDS = ("code", "statement", "line", "message", "witness", "repair", "spans")


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

    PROVED means that it computes what the kernel computes, under the assumptions printed with it. Its CUDA
    text is read back and compared with what was proved.

    Exit status 0 if PROVED, 1 if REFUTED or UNKNOWN, or if the text is REFUTED.
    """
    from dataclasses import asdict

    from evolve.cli.inputs import compile_program, open_problem, problem_request, program_text
    from evolve.cli.output import Output
    from evolve.events.schema import as_json
    from evolve.report.display import premises
    from evolve.report.refusals import Texts, refusal_lines

    with Output(json) as output:
        request = problem_request(kernel, entry, workload, device, numerics, program)
        problem = open_problem(request)
        text = program_text(program)
        compiled = compile_program(problem, program, text)
        diagnostics = [{name: as_json(one.get(name)) for name in _FIELDS} for one in compiled.diagnostics]
        proved = compiled.verdict == "PROVED"
        read = problem.read_back(compiled) if proved else None
        if output.as_json:
            text_found = None if read is None else asdict(read)
            document = {"verdict": compiled.verdict, "diagnostics": diagnostics, "text": text_found}
            rests_on = {"assumed": list(problem.assumptions), "premises": list(compiled.premises)}
            output.document(document | {"numerics": problem.numerics} | rests_on)
        texts = Texts(str(program), text, request.kernel_file, request.kernel_text)
        told = (line for one in compiled.diagnostics for line in refusal_lines(as_json(one), texts))
        output.text("\n".join([*told, compiled.verdict]))
        if proved:
            read_lines = [] if read is None else [f"text: {read.said}"]
            stated = premises(problem.numerics, problem.assumptions, text)
            output.text("\n".join([*read_lines, *stated, *compiled.premises]))
        return 0 if proved and (read is None or read.status != "REFUTED") else 1
