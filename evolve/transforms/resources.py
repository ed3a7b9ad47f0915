"""carveout, max_registers: how an SM's memory and registers are shared out."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.target.limits import REGISTERS_LEAST, REGISTERS_MOST
from evolve.transforms.call import Call, Result, transform


@transform("carveout")
def carveout(call: Call) -> Result:
    """See dsl_spec/carveout.yaml."""
    percent = call.integer("percent")
    assert percent is not None
    if percent > 100:
        raise RefusedError("E-CARVEOUT", f"at most 100 % of the memory can be shared, not {percent}")
    kernel = replace(call.kernel, carveout=percent)
    if kernel == call.kernel:
        raise RefusedError("E-NO-CHANGE", f"{percent} % are asked for already")
    return kernel, call.names


@transform("max_registers")
def max_registers(call: Call) -> Result:
    """See dsl_spec/max_registers.yaml."""
    most = call.integer("registers")
    assert most is not None
    if not REGISTERS_LEAST <= most <= REGISTERS_MOST:
        raise RefusedError(
            "E-REGISTERS", f"a thread has {REGISTERS_LEAST} to {REGISTERS_MOST} registers, not {most}"
        )
    if call.kernel.min_blocks:
        raise RefusedError(
            "E-REGISTERS", "launch_bounds says how many registers a thread may have", repair="leave one out"
        )
    kernel = replace(call.kernel, registers=most)
    if kernel == call.kernel:
        raise RefusedError("E-NO-CHANGE", f"{most} registers are the most already")
    return kernel, call.names
