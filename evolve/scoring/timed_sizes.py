"""Correctness on a GPU at the timed sizes: every resident set, other families, what the driver sees."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed
from evolve.scoring.agreed import seen_otherwise
from evolve.scoring.audit import Doubt
from evolve.scoring.built import Built
from evolve.scoring.correctness import at_sizes
from evolve.scoring.small_sizes import wrong
from evolve.scoring.task import Task
from evolve.scoring.timed import FAMILY, Preparation, TimedShape

TIMED_LIMIT = (100.0, 1.0, 60.0)
"""How many times as long as the original a candidate may take at a timed size; least and most seconds."""
KEPT_DIGESTS = 256

Digests = dict[str, dict[str, int]]
"""By resident set, by output."""


class TimedSizes:
    """Checks images of one task at its timed sizes, `shapes`, which `preparation` made resident.

    What was checked is remembered by image.
    """

    def __init__(
        self,
        task: Task,
        worker: CudaWorker,
        preparation: Preparation,
        original: Built,
        shapes: Sequence[TimedShape],
    ) -> None:
        self.task = task
        self.worker = worker
        self.original_s: dict[int, float] = {}
        self.shapes = shapes
        self._preparation = preparation
        self._original = original
        self._digests: OrderedDict[tuple[bytes, int], Digests] = OrderedDict()
        self._ran_us: dict[tuple[bytes, int], float] = {}
        self._otherwise: dict[tuple[bytes, int], tuple[str, ...]] = {}
        self._seen: OrderedDict[bytes, set[tuple[int, str]]] = OrderedDict()
        self._turn = 0

    def known(
        self, k: int, built: Built, launches: tuple[ConcreteLaunch, ...]
    ) -> tuple[Doubt | None, Digests]:
        """Checks one run on each resident set of timed size `k`; the digests of what it left there."""
        found = self._digests.get((built.cubin, k))
        if found is not None:
            return None, found
        shape = self.shapes[k]
        at = at_sizes(shape.sizes)
        found = {}
        for key, expected in zip(shape.keys, shape.expected, strict=True):
            done = self._run(k, built.cubin, launches, key, expected)
            failed = wrong(done, at)
            if failed is not None:
                return failed, {}
            found[key] = done.digests
            self._ran_us[built.cubin, k] = done.us
        self._otherwise[built.cubin, k] = seen_otherwise(
            self.worker, built.cubin, launches, self.task.profile
        )
        self._digests[built.cubin, k] = found
        while len(self._digests) > KEPT_DIGESTS:
            old = self._digests.popitem(last=False)[0]
            self._ran_us.pop(old, None)
            self._otherwise.pop(old, None)
        return None, found

    def seen_otherwise(self, built: Built, k: int) -> tuple[str, ...]:
        """What the driver said of its kernels that its image or our occupancy does not, see `agreed`."""
        return self._otherwise.get((built.cubin, k), ())

    def ran_us(self, built: Built, k: int) -> float:
        """What its last checked run at timed size `k` took, microseconds: an order of magnitude."""
        return self._ran_us[built.cubin, k]

    def forget(self, built: Built) -> None:
        """All that was checked of an image is checked again."""
        for k in range(len(self.shapes)):
            self._digests.pop((built.cubin, k), None)
        self._seen.pop(built.cubin, None)

    def rotating(self) -> tuple[str, ...]:
        """Families to check at a timed size besides the timed one: another one for each candidate."""
        others = [f for f in self.task.workload.families if f != FAMILY]
        if not others:
            return ()
        self._turn += 1
        return (others[self._turn % len(others)],)

    def families(
        self, k: int, built: Built, launches: tuple[ConcreteLaunch, ...], families: tuple[str, ...]
    ) -> Doubt | None:
        """Checks a run on each of these families at timed size `k`, once."""
        seen = self._seen.setdefault(built.cubin, set())
        while len(self._seen) > KEPT_DIGESTS:
            self._seen.popitem(last=False)
        sizes = self.shapes[k].sizes
        original = self._original.cubin, concretise_variant(self._original.rendered, -1, sizes)
        for family in families:
            found = (
                None
                if (k, family) in seen
                else self._preparation.family(f"timed-{k}", sizes, family, original)
            )
            if found is None:
                continue
            done = self._run(k, built.cubin, launches, *found)
            failed = wrong(done, f"{at_sizes(sizes)}, {family} inputs")
            if failed is not None:
                return failed
            seen.add((k, family))
        return None

    def every_family(self, built: Built) -> Doubt | None:
        """Checks a run on every family at every timed size."""
        for k, shape in enumerate(self.shapes):
            _, launches = concretise(built.rendered, shape.sizes)
            failed = self.families(k, built, launches, self.task.workload.families)
            if failed is not None:
                return failed
        return None

    def limit_s(self, k: int) -> float:
        """What launches at timed size `k` may take, by what the original takes if `original_s` has it."""
        times, least, most = TIMED_LIMIT
        original = self.original_s.get(k)
        return most if original is None else min(most, max(least, times * original))

    def _run(
        self, k: int, cubin: bytes, launches: tuple[ConcreteLaunch, ...], key: str, expected: str | None
    ) -> Executed:
        outputs, inouts = self.task.outputs, self.task.inouts
        return self.worker.execute(
            Execute(cubin, launches, key, outputs, inouts, expected, fetch=False, limit_s=self.limit_s(k))
        )
