"""A module as text and machine code: all of a candidate that a GPU needs."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.codegen.rendered import Rendered
from evolve.devices.estimate import Estimate
from evolve.ir.errors import EvolveError
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda


@dataclass(frozen=True)
class Built:
    """Picklable, so that it can be made in another process than the one that runs it.

    estimates  the model's, for each timed size those of its launches; empty where nobody asked
    """

    rendered: Rendered
    cubin: bytes
    estimates: tuple[tuple[Estimate, ...], ...] = ()

    @property
    def estimated_s(self) -> float | None:
        """Summed over the timed sizes."""
        return sum(e.time_s for one in self.estimates for e in one) if self.estimates else None


class BuildError(EvolveError):
    """NVRTC's first error. Of the original it ends the run, of a candidate it is its status."""

    def __init__(self, message: str) -> None:
        super().__init__("compile-failed", f"the CUDA text does not compile: {message}")


def build(rendered: Rendered, arch: str) -> Built:
    """With line information. Raises BuildError, and as `compile_cuda`."""
    built = compile_cuda(rendered.by_statement, arch, [LINE_INFO])
    if built.cubin is None:
        raise BuildError(built.errors[0].message if built.errors else built.log)
    return Built(rendered, built.cubin)
