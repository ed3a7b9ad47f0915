"""The timed sizes on the GPU: several sets of inputs with what they must give."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.compare import bounds, left_alone, poisoned, within
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, SetArrays, SetExpected
from evolve.features.extract import extract
from evolve.ir.errors import EvolveError
from evolve.ir.types import LoopKind
from evolve.ir.visit import loop_sites, variables
from evolve.scoring.correctness import TOO_SMALL_LAUNCH
from evolve.scoring.reference_gpu import GpuReference
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.workload.model import Sizes
from evolve.workload.structure import structure

LIGHT_INSTANCES = 1e9
"""Statement instances up to which the reference is computed on the host, where the GPU's cannot be."""
FAMILY = "normal"
"""All candidates are timed on the same distribution: values change power, and so clocks."""
COPIES = 3
SHARE = 0.2
"""Of the GPU's memory, for the sets of all timed sizes; restoring them and families take as much again."""
SHIFT_BYTES = 256
MOST_DRAWING = 8
"""Sets drawn at a time: each takes its size several times over in memory."""
ORIGINAL_LIMIT_S = 60.0

Original = tuple[bytes, tuple[ConcreteLaunch, ...]]
Bounds = dict[str, tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class TimedShape:
    """Resident sets at one timed size, and the SetExpected of each; None when nothing tells what is right.

    source   where the bounds come from: reference (float64), original (its own result, twice the tolerance)
    """

    sizes: Sizes
    keys: tuple[str, ...]
    expected: tuple[str | None, ...]
    source: str


def secret_seed(secret: int, *parts: object) -> int:
    """A seed that nobody can know who does not know `secret`; for each list of parts another."""
    text = "/".join([str(secret), *map(str, parts)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class Preparation:
    """Makes the timed sizes of a task resident."""

    def __init__(self, task: Task, worker: CudaWorker, folder: Path, secret: int) -> None:
        self.task = task
        self.worker = worker
        self.folder = folder
        self.secret = secret
        self.reference = GpuReference(task, worker, folder)
        self._families: OrderedDict[tuple[str, str], tuple[str, str] | None] = OrderedDict()
        self._drawing = ThreadPoolExecutor(min(MOST_DRAWING, len(os.sched_getaffinity(0))))
        self._drawn: dict[str, Future[dict[str, str]]] = {}

    def anticipate(self, k: int, sizes: Sizes) -> None:
        """Begins to draw the inputs of timed size `k`, on every core: for 8192 x 8192 a second each."""
        for c in range(self._copies(sizes)):
            self._draw(f"timed:{k}:{c}", sizes, FAMILY, secret_seed(self.secret, "timed", k, c))
        for family in self.task.workload.families[: max(1, self._room(sizes))]:
            key = f"family:timed-{k}:{family}"
            self._draw(key, sizes, family, secret_seed(self.secret, key))

    def close(self) -> None:
        """Stops drawing."""
        self._drawing.shutdown(cancel_futures=True)

    def prepare(self, k: int, sizes: Sizes, cubin: bytes, original: tuple[ConcreteLaunch, ...]) -> TimedShape:
        """Timed size `k`. `cubin` and `original`: the kernel as given.

        Raises EvolveError `baseline-failed` when the original fails at these sizes or leaves elements alone
        that the kernel computes, and as CudaWorker.
        """
        copies = self._copies(sizes)
        keys: list[str] = []
        expected: list[str | None] = []
        source = "reference"
        for c in range(copies):
            keys.append(f"timed:{k}:{c}")
            seed = secret_seed(self.secret, "timed", k, c)
            name, source = self._resident(keys[-1], sizes, FAMILY, seed, c * SHIFT_BYTES, (cubin, original))
            expected.append(name)
        return TimedShape(sizes, tuple(keys), tuple(expected), source)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Families on which nobody is judged at some timed size, as `family` says why."""
        return tuple(dict.fromkeys(family for (_, family), found in self._families.items() if found is None))

    def family(self, at: str, sizes: Sizes, family: str, original: Original) -> tuple[str, str] | None:
        """A resident set of another family, at sizes that `at` names, and its SetExpected.

        Kept from call to call, the ones not used for longest given up first. None when nothing tells what is
        right there, when the original is not right, or when it does not fit on the GPU.
        """
        name = (at, family)
        if name in self._families:
            self._families.move_to_end(name)
            return self._families[name]
        while len(self._families) >= max(1, self._room(sizes)):
            _, old = self._families.popitem(last=False)
            if old is not None:
                self.worker.drop(old)
        key = f"family:{at}:{family}"
        try:
            found = self._family(key, sizes, family, secret_seed(self.secret, key), original)
        except EvolveError as e:
            if e.code != "gpu-memory":
                raise
            found = None
        self._families[name] = found
        if found is None:
            self.worker.drop((key, f"expected:{key}"))
        return found

    def _family(
        self, key: str, sizes: Sizes, family: str, seed: int, original: Original
    ) -> tuple[str, str] | None:
        expected, _ = self._resident(key, sizes, family, seed, 0, original)
        if expected is None:
            return None
        done = self._run(key, original, fetch=False, expected=expected)
        return None if any(c.wrong for c in done.compared.values()) else (key, expected)

    def _copies(self, sizes: Sizes) -> int:
        return max(1, min(COPIES, self._room(sizes)))

    def _room(self, sizes: Sizes) -> int:
        """How many sets of these sizes, each with the bounds of its outputs, fit in one timed size's part of
        SHARE of the GPU's memory."""
        workload = self.task.workload
        share = SHARE * self.worker.info.memory_bytes / len(workload.timed)
        outputs = (workload.array(n) for n in self.task.outputs)
        limits = sum(2 * prod(a.shape(sizes)) * a.dtype.size for a in outputs)
        return int(share / max(1, workload.bytes_at(sizes) + limits))

    def _resident(
        self, key: str, sizes: Sizes, family: str, seed: int, shift: int, original: Original
    ) -> tuple[str | None, str]:
        """Makes a set resident; the key of its SetExpected, None without one, and where that comes from."""
        drawn = self._draw(key, sizes, family, seed).result()
        del self._drawn[key]
        self.worker.set_arrays(SetArrays(key, drawn, shift))
        references = References(replace(self.task, seed=seed))
        inputs = {n: np.load(path, mmap_mode="r") for n, path in drawn.items()}
        name = f"expected:{key}"
        done = self._run(key, original, fetch=False)
        partial = any(count and n not in self.task.inouts for n, count in done.left.items())
        if not partial and self.reference.keep(key, name, sizes, family):
            return name, "reference"
        files, source = self._right(references, key, sizes, family, inputs, original)
        if files is None:
            return None, source
        self.worker.set_expected(SetExpected(name, files))
        return name, source

    def _draw(self, key: str, sizes: Sizes, family: str, seed: int) -> Future[dict[str, str]]:
        """The files of a set's arrays."""
        if key not in self._drawn:

            def draw() -> dict[str, str]:
                return self._files(key, References(replace(self.task, seed=seed)).inputs(sizes, family))

            self._drawn[key] = self._drawing.submit(draw)
        return self._drawn[key]

    def _run(self, key: str, original: Original, *, fetch: bool, expected: str | None = None) -> Executed:
        cubin, launches = original
        outputs, inouts = self.task.outputs, self.task.inouts
        done = self.worker.execute(
            Execute(cubin, launches, key, outputs, inouts, expected, fetch, ORIGINAL_LIMIT_S)
        )
        if done.error:
            raise EvolveError("baseline-failed", f"the kernel as given fails at its timed size: {done.error}")
        return done

    def _right(
        self,
        references: References,
        key: str,
        sizes: Sizes,
        family: str,
        inputs: Mapping[str, NDArray[Any]],
        original: Original,
    ) -> tuple[dict[str, tuple[str, str]] | None, str]:
        """Files with the bounds of every output, and where these come from, by way of the host."""
        files = self.reference.bounds(key, sizes, family)
        own = self._run(key, original, fetch=True).outputs
        if files is not None:
            found: Bounds | None = {n: (np.load(low), np.load(high)) for n, (low, high) in files.items()}
            source = "reference"
        else:
            found, source = self._bounds(references, sizes, family, own)
        if found is None:
            return None, source
        self._untouched(found, own, inputs)
        return {n: self._pair(f"{key}.{n}", *pair) for n, pair in found.items()}, source

    def _bounds(
        self, references: References, sizes: Sizes, family: str, own: Mapping[str, NDArray[Any]]
    ) -> tuple[Bounds | None, str]:
        """Without a reference on the GPU."""
        if (
            extract(self.task.source.kernel, sizes, structure(self.task.workload, sizes)).instances
            <= LIGHT_INSTANCES
        ):
            e = references.expected(sizes, family, keep=False)
            return {n: bounds(e.values[n], e.tolerances[n], a.dtype) for n, a in own.items()}, "reference"
        small = same_sums(self.task, sizes)
        if small is None:
            return None, "none"
        # The sums of that size are as long as those of the timed one, so its errors are as large; both the
        # original and the candidate may be off by one tolerance.
        e = references.expected(small, family, keep=False)
        return {
            n: bounds(a.astype(np.float64), np.full(a.shape, 2 * float(e.tolerances[n].max())), a.dtype)
            for n, a in own.items()
        }, "original"

    def _untouched(
        self, found: Bounds, own: Mapping[str, NDArray[Any]], inputs: Mapping[str, NDArray[Any]]
    ) -> None:
        """What the original leaves alone must still be poison after a candidate."""
        for name, (low, high) in found.items():
            if name in self.task.inouts:
                continue
            left = poisoned(own[name], self.worker.poison)
            if (left & ~within(inputs[name], low, high)).any():
                raise EvolveError("baseline-failed", TOO_SMALL_LAUNCH.format(name))
            left_alone(low, high, left)

    def _files(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, str]:
        written = {a.name for a in self.task.workload.arrays if a.role == "out"}
        return {
            n: self._zeros(f"{key}.{n}", a) if n in written else self._save(f"{key}.{n}", a)
            for n, a in arrays.items()
        }

    def _pair(self, stem: str, low: NDArray[Any], high: NDArray[Any]) -> tuple[str, str]:
        return self._save(f"{stem}.low", low), self._save(f"{stem}.high", high)

    def _zeros(self, stem: str, like: NDArray[Any]) -> str:
        """A file that takes no room: what is in an output before a launch is never looked at."""
        path = self._path(stem)
        np.lib.format.open_memmap(path, mode="w+", dtype=like.dtype, shape=like.shape).flush()
        return str(path)

    def _path(self, stem: str) -> Path:
        return self.folder / f"{stem.replace(':', '-')}.npy"

    def _save(self, stem: str, a: NDArray[Any]) -> str:
        path = self._path(stem)
        np.save(path, a)
        return str(path)


def same_sums(task: Task, sizes: Sizes) -> Sizes | None:
    """Sizes with every parallel extent small and every sequential one as given; None if they are tied."""
    parallel: set[str] = set()
    sequential: set[str] = set()
    for site in loop_sites(task.source.kernel.body).values():
        loop = site.stmt
        names = variables(loop.extent)  # type: ignore[union-attr]
        (parallel if loop.kind is LoopKind.PARALLEL else sequential).update(names)  # type: ignore[union-attr]
    free = parallel - sequential
    return {n: min(int(v), 64) if n in free else v for n, v in sizes.items()} if free else None
