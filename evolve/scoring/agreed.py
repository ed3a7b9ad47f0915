"""Whether the driver sees the kernels that everything here is decided by.

Limits, estimates and what is said about a candidate rest on what its image says and on our model of the GPU's
occupancy. Where the driver says something else one of them is wrong, and the candidate is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import View
from evolve.scoring.audit import Doubt
from evolve.scoring.small_sizes import of_fault
from evolve.target.profile import Profile
from evolve.toolchain.agreement import disagreements
from evolve.toolchain.cubin import read_cubin


def disagreed(
    worker: CudaWorker, cubin: bytes, launches: Sequence[ConcreteLaunch], profile: Profile, at: str
) -> Doubt | None:
    """What the driver sees otherwise in the kernels of these launches; `at` says the sizes."""
    viewed = worker.view(View(cubin, tuple(launches)))
    if viewed.fault is not None:
        return of_fault(viewed.fault, at)
    kernels = read_cubin(cubin).kernels
    said = [
        sentence
        for launch, view in zip(launches, viewed.views, strict=True)
        for sentence in disagreements(
            kernels[launch.kernel], view, profile, prod(launch.block), launch.shared_bytes
        )
    ]
    if not said:
        return None
    return Doubt("quarantined", f"{at}: the driver sees another kernel: {'; '.join(dict.fromkeys(said))}")
