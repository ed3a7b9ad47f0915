"""The float64 reference at sizes that are too large for the host: run on the GPU, its bounds kept here."""

from __future__ import annotations

from math import prod
from pathlib import Path

from evolve.codegen.errors import CodegenError
from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.codegen.reference_cuda import CudaReference, render_reference_cuda
from evolve.codegen.reference_model import Role
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Refer
from evolve.ir.errors import EvolveError
from evolve.scoring.task import Task
from evolve.scoring.tolerance import tolerance_factor
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.model import Sizes
from evolve.workload.structure import structure

_BLOCK = 256
_BLOCKS_PER_SM = 32
LIMIT_S = 60.0


class GpuReference:
    """The rendered reference of one task, compiled once."""

    def __init__(self, task: Task, worker: CudaWorker, folder: Path) -> None:
        self.task = task
        self.worker = worker
        self.folder = folder
        self._cubin: bytes | None = None
        self._reference: CudaReference | None = None
        try:
            self._reference = render_reference_cuda(task.loosest)
        except CodegenError:
            return
        self._cubin = compile_cuda(self._reference.text, worker.info.arch).cubin

    def keep(self, key: str, name: str, sizes: Sizes, family: str) -> bool:
        """Keeps the bounds of a resident set's outputs in the worker, as those of a SetExpected of that name.

        False when the kernel has no such reference, or when it does not fit on the GPU or takes too long.
        """
        return self._refer(key, sizes, family, dict.fromkeys(self.task.outputs, ("", "")), name)

    def bounds(self, key: str, sizes: Sizes, family: str) -> dict[str, tuple[Path, Path]] | None:
        """Files with the lowest and highest right value of each output; None where `keep` is False."""
        stem = key.replace(":", "-")
        found = {
            n: (self.folder / f"{stem}.{n}.low.npy", self.folder / f"{stem}.{n}.high.npy")
            for n in self.task.outputs
        }
        paths = {n: (str(low), str(high)) for n, (low, high) in found.items()}
        return found if self._refer(key, sizes, family, paths, None) else None

    def _refer(
        self, key: str, sizes: Sizes, family: str, paths: dict[str, tuple[str, str]], keep: str | None
    ) -> bool:
        r = self._reference
        if r is None or self._cubin is None:
            return False
        shapes = {a.name: a.shape(sizes) for a in self.task.workload.arrays}
        by_role = {(a.buffer, a.role): a.name for a in r.arrays}
        request = Refer(
            self._cubin,
            self._launches(r, sizes),
            key,
            {a.name: a.buffer for a in r.arrays if a.role is Role.INPUT},
            {a.name: prod(shapes[a.buffer]) for a in r.arrays if a.role is not Role.INPUT},
            {n: (by_role[n, Role.VALUE], by_role[n, Role.ERROR], *paths[n]) for n in self.task.outputs},
            tolerance_factor(self.task.source.kernel, sizes, family, structure(self.task.workload, sizes)),
            LIMIT_S,
            keep,
        )
        try:
            self.worker.refer(request)
        except EvolveError as e:
            if e.code not in ("gpu-memory", "gpu-failed"):
                raise
            return False
        return True

    def _launches(self, r: CudaReference, sizes: Sizes) -> tuple[ConcreteLaunch, ...]:
        kernel = self.task.source.kernel
        # As `ReferenceEmitter.function` declares them: floats as they are, integers as long long.
        scalars = tuple(
            _scalar(n, kernel.scalar(n).dtype.is_float, kernel.scalar(n).dtype.value, sizes[n])
            for n in r.scalars
        )
        args: tuple[BufferArg | ScalarArg, ...] = (*(BufferArg(a.name) for a in r.arrays), *scalars)
        grid = (_BLOCKS_PER_SM * self.worker.info.multiprocessors, 1, 1)
        return tuple(ConcreteLaunch(k, args, grid, (_BLOCK, 1, 1)) for k in r.kernels)


def _scalar(name: str, is_float: bool, dtype: str, value: int | float) -> ScalarArg:
    return ScalarArg(name, dtype if is_float else "i64", value)
