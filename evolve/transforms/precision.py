"""set_precision: what is computed for a buffer, by approximate functions."""

from __future__ import annotations

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.approximate import approximable, approximated
from evolve.ir.kernel import Kernel
from evolve.transforms.call import Call, Result, transform


@transform("set_precision")
def set_precision(call: Call) -> Result:
    """See dsl_spec/set_precision.yaml."""
    buffer = call.buffer("buffer")
    kernel = approximated(call.kernel, {buffer.name})
    if kernel == call.kernel:
        raise RefusedError(
            "E-PRECISION",
            f"nothing that is computed for {buffer.name} has an approximate form",
            repair=_others(call.kernel),
        )
    return kernel, call.names


def _others(kernel: Kernel) -> str | None:
    found = approximable(kernel)
    return f"for {', '.join(found)} something is" if found else None
