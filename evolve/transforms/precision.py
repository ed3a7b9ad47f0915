"""set_precision: what is computed for a buffer by approximate functions, or kept in it with fewer bits."""

from __future__ import annotations

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.approximate import approximable, approximated
from evolve.ir.kernel import Kernel
from evolve.ir.narrow import can_narrow, narrowed
from evolve.transforms.call import Call, Result, transform


@transform("set_precision")
def set_precision(call: Call) -> Result:
    """See dsl_spec/set_precision.yaml."""
    buffer = call.buffer("buffer")
    if call.word("precision") == "bf16":
        return _narrow(call.kernel, buffer.name), call.names
    kernel = approximated(call.kernel, {buffer.name})
    if kernel == call.kernel:
        raise RefusedError(
            "E-PRECISION",
            f"nothing that is computed for {buffer.name} has an approximate form",
            repair=_others(call.kernel),
        )
    return kernel, call.names


def _narrow(kernel: Kernel, buffer: str) -> Kernel:
    if not can_narrow(kernel, buffer):
        raise RefusedError(
            "E-PRECISION",
            f"{buffer} is not a copy of single-precision arrays that the kernel only reads, or is copied "
            "asynchronously, without anything done to the elements",
            repair="stage an input first, and round the copy",
        )
    return narrowed(kernel, buffer)


def _others(kernel: Kernel) -> str | None:
    found = approximable(kernel)
    return f"for {', '.join(found)} something is" if found else None
