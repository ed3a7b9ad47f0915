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
    from evolve.events.schema import as_json
    from evolve.report.outline import outline

    with Output(json) as output:
        problem = open_problem(problem_request(kernel, entry, workload, device, numerics))
        seen = as_json(problem.inspect())
        if output.as_json:
            output.document(seen)
        # The summary above the outline is the kernel's IR already.
        kernels = [{n: v for n, v in k.items() if n != "ir"} for k in seen["kernels"]]
        output.text("\n".join([problem.info().summary, *outline(seen | {"kernels": kernels})]))
        return 0
