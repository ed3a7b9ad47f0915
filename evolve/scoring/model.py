"""The time model on a module at a timed size, for estimates and for what a measured time consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.estimate import Estimate
from evolve.devices.sampled import estimate_at
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.ir.errors import EvolveError
from evolve.scoring.task import Task
from evolve.toolchain.cubin import KernelResources, read_cubin
from evolve.toolchain.sass import Sass, disassemble
from evolve.workload.inputs import numpy_dtype
from evolve.workload.model import Sizes
from evolve.workload.structure import structure

_OTHER = -2
"""A variant number that no module has."""


def estimates(
    task: Task,
    rendered: Rendered,
    program: HostProgram,
    kernels: Mapping[str, KernelResources],
    sass: Mapping[str, Sass],
    shape: int,
) -> tuple[Estimate, ...]:
    """One for each launch at timed size number `shape`. Raises as `estimate_at`."""
    bound = task.bounds[shape]

    timed = task.workload.timed[shape]
    implied = task.source.kernel.implied

    def buffers(sizes: Sizes) -> dict[str, TraceBuffer]:
        held = structure(task.workload, sizes)
        return {
            a.name: TraceBuffer(numpy_dtype(a.dtype).name, prod(a.shape(sizes)), data=held.get(a.name))
            for a in task.workload.arrays
        }

    def launches(sizes: Sizes) -> tuple[int, Sequence[ConcreteLaunch]]:
        # Another length of what index arrays reach into is another input, not a longer one of this kind.
        same = all(sizes[n] == timed[n] for n in implied)
        variant, found = concretise(rendered, sizes)
        return (variant if same else _OTHER), found

    return estimate_at(
        task.profile,
        program,
        timed,
        launches,
        buffers,
        kernels,
        sass,
        footprint=(bound.bytes_read, bound.bytes_written),
        work=bound.least_fp32,
    )


def modelled(task: Task, rendered: Rendered, image: bytes) -> tuple[tuple[Estimate, ...], ...]:
    """Estimates at every timed size, of a module whose results nobody has checked; empty where this host
    cannot trace it.

    `image` is a cubin with line information.
    """
    try:
        program = compile_host(rendered.by_statement, list(rendered.signatures))
        kernels, sass = read_cubin(image).kernels, disassemble([image])[0]
        found = [
            estimates(task, rendered, program, kernels, sass, shape)
            for shape in range(len(task.workload.timed))
        ]
    except (EvolveError, ValueError, IndexError):
        return ()
    return tuple(found) if all(found) else ()
