"""`evolve score`: proves, executes and times one program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.search.problem import Device


def command(
    kernel: options.Kernel,
    program: options.Program,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    json: options.Json = False,
) -> int:
    """Prove, execute, check and time one program.

    Exit status 1 if it is illegal, incorrect, or cannot be scored.
    """
    from evolve.cli.inputs import compile_program, open_problem, problem_request
    from evolve.cli.output import Output
    from evolve.events.schema import as_json
    from evolve.report.story import diagnostic_lines, figure_lines
    from evolve.search.workers import read_first

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics, program))
        compiled = compile_program(problem, program)
        score = read_first(problem, compiled, problem.score) if compiled.verdict == "PROVED" else None
        info = problem.info()
        document = {
            "kernel": info.entry,
            "device": {
                "kind": info.device.kind,
                "profile": info.device.profile,
                "timing": info.device.timing,
            },
            "verdict": compiled.verdict,
            "diagnostics": as_json(compiled.diagnostics),
            "status": score.status if score else "illegal",
            "message": score.message if score else "",
            "time_us": score.time_us if score else None,
            "fitness": score.fitness if score else 0.0,
            "sol": {
                "time_us": info.sol.time_us,
                "hard_time_us": info.sol.hard_time_us,
                "bound": info.sol.bound,
            },
            "gap": as_json(score.gap) if score else {},
            "detail": as_json(score.detail) if score else {},
            "source": score.source if score else None,
        }
        if output.as_json:
            output.document(document)
        status = str(document["status"]).replace("_", " ")
        lines = [
            f"{compiled.verdict}, {status}" + (f": {document['message']}" if document["message"] else "")
        ]
        lines += [line for one in compiled.diagnostics for line in diagnostic_lines(one)]
        if score and score.time_us is not None:
            shapes = as_json(info.workload.get("timed", []))
            summed = f", the sum of {len(shapes)} launches" if len(shapes) > 1 else ""
            lines.append(
                f"{score.time_us:.1f} us {_where(info.device)}{summed}, fitness {score.fitness:.3f} "
                f"of the speed of light ({info.sol.time_us:.1f} us, {info.sol.bound})"
            )
            lines += figure_lines(document["gap"], document["detail"], info.device.timing, shapes)
        output.text("\n".join(lines))
        return 0 if score and score.status == "scored" else 1


def _where(device: Device) -> str:
    from evolve.devices.grounds import unchecked

    return f"({device.timing}, {device.kind}:{device.profile}){unchecked(device.timing, device.profile)}"
