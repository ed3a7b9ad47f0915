"""What a driver error means: by its result code, never by its text.

PyCUDA's exceptions carry a class and a sentence but not the driver's result code, and one class covers
refused launches as well as broken contexts. A context is broken exactly when the driver says so of a
synchronisation that nothing else stands behind, so that is what is asked, through cuda-bindings.
"""

from __future__ import annotations

from typing import Any

from evolve.devices.cuda.messages import Fault, FaultKind


class KernelTimeoutError(Exception):
    """A launch did not end within its limit; the context cannot be used any more."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the kernel ran for more than {limit_s:g} s")


class BadImageError(Exception):
    """The driver does not load the image, or it holds something that no candidate may have."""


class ArrayMemoryError(Exception):
    """There is no device memory for the arrays themselves: about the machine, not about a candidate."""


def context_code(driver: Any) -> tuple[int, str]:
    """The result code of a synchronisation of the current context, 0 when it is usable, and its name."""
    code = driver.cuCtxSynchronize()[0]
    return int(code), str(getattr(code, "name", code))


def classify(error: Exception, cuda: Any, driver: Any) -> Fault:
    """The fault that an exception of PyCUDA or of this package is.

    Synchronises the context, except after a KernelTimeoutError, when that would not return.
    """
    if isinstance(error, KernelTimeoutError):
        return Fault("timeout", str(error), sticky=True)
    code, name = context_code(driver)
    if code != 0:
        return Fault("fault", f"the kernel broke the GPU context: {name} ({code})", sticky=True)
    if isinstance(error, ArrayMemoryError):
        return Fault("arrays", str(error))
    if isinstance(error, cuda.MemoryError):
        return Fault("memory", f"the GPU has no memory for what the kernel asks for: {error}")
    kind: FaultKind = "load" if isinstance(error, BadImageError) else "launch"
    return Fault(kind, str(error))
