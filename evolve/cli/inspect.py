"""`evolve inspect`: what the tool sees in a kernel."""

from __future__ import annotations

from evolve.cli import options


def command(
    kernel: options.Kernel,
    entry: options.Entry = None,
    workload: options.Workload = None,
    device: options.Device = "auto",
    numerics: options.Numerics = None,
    json: options.Json = False,
) -> int:
    """Show what the tool sees in a kernel.

    Loops, buffers, features, workload, speed of light."""
    from evolve.cli.inputs import open_problem, problem_request
    from evolve.cli.output import Output
    from evolve.devices.grounds import grounds_of
    from evolve.events.schema import as_json
    from evolve.report.inspected import inspected

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics))
        seen = as_json(problem.inspect())
        target = problem.info().device
        rests_on = grounds_of(target.profile) if target.timing == "estimated" else None
        if output.as_json:
            output.document(seen | {"rests_on": rests_on.to_json() if rests_on else None})
        told = rests_on.lines() if rests_on else []
        output.text("\n".join([*inspected(seen, problem.info().summary), *told]))
        return 0
