"""`evolve render`: the CUDA code of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.toolchain.comparison import Built


def command(
    kernel: options.Kernel,
    program: options.Program,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    compile_by: options.Compiler = None,
    json: options.Json = False,
) -> int:
    """Print the CUDA code of a transform program.

    A program that is not PROVED has none: exit status 1, and `evolve check` says why. With --compile,
    comments at its end say what a compiler made of each kernel; exit status 1 if it does not compile.
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
        built = _compiled(source, problem.info().device.profile, compile_by) if compile_by else ()
        if output.as_json:
            document = {"verdict": compiled.verdict, "source": source, "module": compiled.module_hash}
            output.document(document | {"compiled": [one.as_dict() for one in built]})
        output.text("\n".join([source.rstrip("\n"), *(f"// {line}" for one in built for line in one.lines)]))
        return 0 if all(one.result.ok for one in built) else 1


def _compiled(source: str, profile: str, compile_by: str) -> tuple[Built, ...]:
    """What the compilers named make of `source` for the GPU of `profile`."""
    from evolve.ir.errors import EvolveError
    from evolve.target.profile import load_profile
    from evolve.toolchain.comparison import COMPILERS, build

    if compile_by not in (*COMPILERS, "both"):
        names = ", ".join(COMPILERS)
        raise EvolveError("usage", f"there is no compiler {compile_by!r}", hint=f"{names} or both")
    arch = load_profile(profile).arch
    return tuple(build(source, arch, one) for one in COMPILERS if compile_by in (one, "both"))
