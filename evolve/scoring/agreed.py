"""Whether the driver sees the kernels that everything here is decided by.

Limits, estimates and what is said about a candidate rest on what its image says and on our model of the GPU's
occupancy. Where the driver says something else one of them is wrong, and the score says so. It is no verdict:
what was measured was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import View
from evolve.target.profile import Profile
from evolve.toolchain.agreement import disagreements
from evolve.toolchain.cubin import read_cubin


def seen_otherwise(
    worker: CudaWorker, cubin: bytes, launches: Sequence[ConcreteLaunch], profile: Profile
) -> tuple[str, ...]:
    """What the driver sees otherwise in the kernels of these launches, in sentences."""
    viewed = worker.view(View(cubin, tuple(launches)))
    if viewed.fault is not None:
        return (f"the driver does not say how it sees the kernels: {viewed.fault.message}",)
    kernels = read_cubin(cubin).kernels
    said = [
        sentence
        for launch, view in zip(launches, viewed.views, strict=True)
        for sentence in disagreements(
            kernels[launch.kernel], view, profile, prod(launch.block), launch.shared_bytes
        )
    ]
    return tuple(dict.fromkeys(said))
