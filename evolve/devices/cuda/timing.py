"""Times of launch sequences: L2 cold and clean before each, inputs rotated, outputs checked after each.

Contents rotate over places: a launch finds at an address other values than the launch before it there, so
nothing that is remembered by address is right. Outputs are poisoned, and outputs and inputs are checked.

Before every launch two buffers of the worker's own are overwritten, the second more than large enough to push
everything else out of L2, and then the first is read, so that L2 holds clean lines of it: otherwise the
candidate would be charged for writing back what the flush left dirty, up to the whole of L2. Persisting
lines are given up first. Everything that a kernel could have hidden in these buffers is gone as well.
(Reading 30 MiB on an H200: 11.6 us after this flush, 14.7 us after one that only writes, 7.3 us warm.)

The launches are queued behind this work, so that the host's time to launch them is not in the measurement.

Where it is asked for, some launches follow without the flush: L2 holds what it can of what was there before
them, the arrays that were restored, poisoned and checked. Such times are reported and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from evolve.codegen.launch import scratch_of
from evolve.devices.cuda.faults import ArrayMemoryError, KernelTimeoutError
from evolve.devices.cuda.launching import Call, Images, Pointers, wait
from evolve.devices.cuda.memory import ALIGNMENT, Bounds, Gpu, Resident, Slot
from evolve.devices.cuda.messages import Batch, Measure, Measured, Mismatch
from evolve.devices.cuda.nvml import Nvml
from evolve.devices.cuda.rules import batch_launches, enough, rotation

WRITE_L2 = 4
READ_L2 = 2
LEAST_WRITE_BYTES = 256 << 20

WARM_LAUNCHES = 10
WARM_S = 0.05
LONG_WARM_S = 0.5
"""Of a long kernel fewer launches are enough, as long as they last so long."""
IDLE_S = 0.02
"""After a pause as long as this the clock counts as fallen."""

SHORT_US = 20.0
"""Sequences below this are also timed in batches: events resolve about half a microsecond."""
BATCH_BYTES = 2 << 30
LAUNCH_US = 15.0
"""What the host may take for one launch; a batch is queued behind so much flushing."""
CYCLES_PER_US = 2000
"""At least, of an SM: what is not flushed is queued behind a kernel that waits."""
UNFLUSHED_SHARE = 0.25
"""Of the time for samples; past it one launch without a flush is enough."""


def warm(launches: int, spent_s: float, busy_s: float) -> bool:
    """Whether caches are warm and the clock has had time to rise: 10 launches, the GPU busy for 50 ms.

    Of launches that took half a second together two are enough.
    """
    return (launches >= WARM_LAUNCHES and busy_s >= WARM_S) or (launches >= 2 and spent_s >= LONG_WARM_S)


class Busy:
    """How long the GPU has been at work without a pause of IDLE_S, by what it is told; seconds."""

    def __init__(self) -> None:
        self._since = self._last = float("-inf")

    def mark(self, now: float) -> None:
        """Work ends at this time, or begins."""
        if now - self._last > IDLE_S:
            self._since = now
        self._last = now

    def lasting(self, now: float) -> float:
        """0 after a pause."""
        return now - self._since if now - self._last <= IDLE_S else 0.0


@dataclass(frozen=True)
class Sample:
    """Microseconds: of the launches; of flush and launches by events; of the same by the host's clock."""

    us: float
    event_us: float
    wall_us: float


class Timer:
    """The buffers of the flush, and timing between events. Raises ArrayMemoryError when they do not fit."""

    def __init__(self, gpu: Gpu, l2_bytes: int) -> None:
        self.gpu = gpu
        self.write_bytes = max(LEAST_WRITE_BYTES, WRITE_L2 * l2_bytes)
        self.read_bytes = max(1 << 20, READ_L2 * l2_bytes)
        self.written = gpu.allocate(self.write_bytes)
        self.read = gpu.allocate(self.read_bytes)
        self.sink = gpu.allocate(4)
        self.busy = Busy()
        self.persisting_reset = self._reset_persisting()

    def flush(self) -> None:
        """Queues it; see the module's text."""
        cuda = self.gpu.cuda
        cuda.memset_d32(int(self.read), 0x5A5A5A5A, self.read_bytes // 4)
        cuda.memset_d32(int(self.written), 0, self.write_bytes // 4)
        self.gpu.call("ev_read", "PQPI", int(self.read), self.read_bytes // 16, int(self.sink), self.gpu.word)

    def sample(self, calls: Sequence[Call], limit_s: float, flushes: int = 1) -> Sample:
        """Runs `calls` once after a flush, or with what L2 holds. Raises KernelTimeoutError."""
        event, synchronize = self.gpu.cuda.Event, self.gpu.cuda.Context.synchronize
        first, start, end = event(), event(), event()
        synchronize()
        self._reset_persisting()
        begin = time.perf_counter()
        first.record()
        for _ in range(flushes):
            self.flush()
        if not flushes:
            self.gpu.call("ev_wait", "Q", int(len(calls) * LAUNCH_US * CYCLES_PER_US), blocks=1)
        start.record()
        for call in calls:
            call()
        end.record()
        wait(end, limit_s)
        # Work that does not stand before the event, such as a launch elsewhere, would end after it.
        synchronize()
        wall = (time.perf_counter() - begin) * 1e6
        return Sample(float(start.time_till(end)) * 1e3, float(first.time_till(end)) * 1e3, wall)

    def floor(self) -> float:
        """An empty kernel timed as a sample, microseconds."""
        return median(self.sample([self._empty], 10.0).us for _ in range(5))

    def floor_batch(self, launches: int, flushes: int) -> float:
        """An empty kernel, microseconds a launch, in a batch of so many."""
        return self.sample([self._empty] * launches, 10.0, flushes).us / launches

    def _empty(self) -> None:
        self.gpu.call("ev_empty", "I", 0, blocks=1)

    def _reset_persisting(self) -> bool:
        reset = getattr(self.gpu.driver, "cuCtxResetPersistingL2Cache", None)
        try:
            return reset is not None and int(reset()[0]) == 0
        except Exception:
            # A driver without it: cuda-bindings raises when it cannot find the function.
            return False


class Measurement:
    """One Measure being carried out."""

    def __init__(
        self,
        request: Measure,
        timer: Timer,
        images: Images,
        sets: Mapping[str, Resident],
        expected: Mapping[str, Mapping[str, Bounds]],
        nvml: Nvml,
    ) -> None:
        self.r = request
        self.timer = timer
        self.gpu = timer.gpu
        self.images = images
        self.sets = [sets[k] for k in request.keys]
        self.expected = [expected[k] if k else None for k in request.expected] or [None] * len(self.sets)
        self.nvml = nvml
        self.mismatches: list[Mismatch] = []
        self.checked = 0
        self.varied = 0
        self.changed: dict[str, None] = {}
        self._holds = list(range(len(self.sets)))
        self.event_us: list[float] = []
        self.wall_us: list[float] = []
        self._ready: dict[tuple[int, int], list[Call]] = {}
        count = len(request.cubins)
        self.known: list[list[Mapping[str, int] | None]] = [list(k) for k in request.known] or [
            [None] * len(self.sets) for _ in range(count)
        ]

    def run(self) -> Measured:
        """All of it. Raises KernelTimeoutError, BadImageError, ArrayMemoryError and PyCUDA's errors."""
        try:
            return self._run()
        except KernelTimeoutError:
            raise
        except Exception:
            # A refused launch leaves the context as it is, and the sets must hold what others expect in them.
            self._restore()
            raise

    def _run(self) -> Measured:
        r = self.r
        samples: list[list[float]] = [[] for _ in r.cubins]
        begin, launched, busy = time.monotonic(), 0, self.timer.busy
        busy.mark(begin)
        while (r.warm or not launched) and not warm(
            launched, (now := time.monotonic()) - begin, busy.lasting(now)
        ):
            self._turn(launched, samples=None)
            launched += 1
            busy.mark(time.monotonic())
        before = self.nvml.read()
        begin, turn = time.monotonic(), 0
        while not enough(samples, r.least, r.most, time.monotonic() - begin, r.budget_s):
            self._turn(turn, samples)
            turn += 1
        after = self.nvml.read()
        unflushed = self._unflushed(max(0, turn - 1))
        batches = self._batches(samples) if r.batch else (None,) * len(samples)
        self._restore()
        damage = [on.damage(r.outputs) for on in self.sets]
        damage += [((), self.images.damage(x)) for x in r.launches]
        busy.mark(time.monotonic())
        self.changed.update((n, None) for changed, _ in damage for n in changed)
        return Measured(
            samples_us=tuple(map(tuple, samples)),
            event_us=tuple(self.event_us),
            wall_us=tuple(self.wall_us),
            warm_us=unflushed,
            floor_us=self.timer.floor(),
            batches=batches,
            checked=self.checked,
            varied=self.varied,
            mismatches=tuple(self.mismatches),
            changed=tuple(self.changed),
            broken_guards=tuple(dict.fromkeys(n for _, broken in damage for n in broken)),
            clocks=(before, after),
            persisting_reset=self.timer.persisting_reset,
        )

    def _turn(self, turn: int, samples: list[list[float]] | None) -> None:
        """Every sequence once on the same inputs, in even turns forth and in odd ones back: drift cancels."""
        count = len(self.r.cubins)
        place, content = rotation(turn, len(self.sets))
        on = self.sets[place]
        for k in range(count) if turn % 2 == 0 else range(count - 1, -1, -1):
            self._prepare(place, content)
            s = self.timer.sample(self._calls(k, place), self.r.limit_s)
            number = -1
            if samples is not None:
                samples[k].append(s.us)
                self.event_us.append(s.event_us)
                self.wall_us.append(s.wall_us)
                number = len(samples[k]) - 1
            self._check(k, number, content, on.pointer)

    def _unflushed(self, turn: int) -> tuple[tuple[float, ...], ...]:
        """Times of every sequence where the last turn was, with nothing flushed in between."""
        found: list[list[float]] = [[] for _ in self.r.cubins]
        place, content = rotation(turn, len(self.sets))
        begin = time.monotonic()
        for number in range(self.r.unflushed):
            if number and time.monotonic() - begin > UNFLUSHED_SHARE * self.r.budget_s:
                break
            for k, times in enumerate(found):
                self._prepare(place, content)
                times.append(self.timer.sample(self._calls(k, place), self.r.limit_s, flushes=0).us)
                self._check(k, -1, content, self.sets[place].pointer)
        return tuple(map(tuple, found))

    def _calls(self, k: int, place: int) -> list[Call]:
        """Ready to go, scratch memory poisoned."""
        cubin, launches = self.r.cubins[k], self.r.launches[k]
        self.images.poison(launches)
        if self.images.keeps_variables(cubin):
            return self.images.calls(cubin, launches, self.sets[place].pointer)
        if (k, place) not in self._ready:
            self._ready[k, place] = self.images.calls(cubin, launches, self.sets[place].pointer)
        return self._ready[k, place]

    def _prepare(self, place: int, content: int) -> None:
        on = self.sets[place]
        for name in on.host:
            if name in self.r.inouts:
                on.place(self.sets[content], name)
            elif name in self.r.outputs:
                on.poison(name)
            elif self._holds[place] != content:
                on.place(self.sets[content], name)
        self._holds[place] = content

    def _restore(self) -> None:
        """Every set holds its own contents again."""
        for i in range(len(self.sets)):
            self._prepare(i, i)

    def _check(self, k: int, sample: int, content: int, pointer: Pointers) -> None:
        """What is at these addresses after a launch on those contents.

        Outputs against the digests of the checked run, else against the bounds; inputs against what was sent.
        """
        if not self.r.outputs:
            return
        self.checked += 1
        of = self.sets[content]
        names = list(of.host)
        found = dict(
            zip(names, self.gpu.digests((pointer(n), of.host[n].nbytes) for n in names), strict=True)
        )
        known, expected = self.known[k][content], self.expected[content]
        varied = False
        for name, digest in found.items():
            if name not in self.r.outputs:
                if digest != of.known[name]:
                    self.changed[name] = None
                    self._holds = [-1] * len(self.sets)
                continue
            if known is not None and known.get(name) == digest:
                continue
            if expected is None:
                if known is not None:
                    self._note(k, sample, content, name, None)
                continue
            varied = varied or known is not None
            compared = self.gpu.compare(pointer(name), expected[name])
            if compared.wrong:
                self._note(k, sample, content, name, compared.wrong)
        self.varied += varied

    def _note(self, k: int, sample: int, content: int, name: str, wrong: int | None) -> None:
        self.mismatches.append(Mismatch(k, sample, self.r.keys[content], name, wrong))

    # ---- batches

    def _batches(self, samples: Sequence[Sequence[float]]) -> tuple[Batch | None, ...]:
        """Batch times of the short sequences, in the order of `_turn`; all of them in batches as long."""
        short = [k for k, s in enumerate(samples) if median(s) < SHORT_US]
        if not short:
            return (None,) * len(samples)
        scratch = {a for k in short for a in scratch_of(self.r.launches[k]).values()}
        sizes = [a.nbytes for a in self.sets[0].host.values()] + [s.nbytes for s in scratch]
        room = sum(size + ALIGNMENT for size in sizes)
        launches = min(batch_launches(min(median(samples[k]) for k in short)), BATCH_BYTES // room)
        if launches < 2:
            return (None,) * len(samples)
        try:
            slots = [Slot(self.gpu, self.sets[0], scratch) for _ in range(launches)]
        except ArrayMemoryError:
            return (None,) * len(samples)
        try:
            return self._timed_batches(samples, short, slots)
        finally:
            for slot in slots:
                slot.free()

    def _timed_batches(
        self, samples: Sequence[Sequence[float]], short: Sequence[int], slots: Sequence[Slot]
    ) -> tuple[Batch | None, ...]:
        us: dict[int, list[float]] = {k: [] for k in short}
        floor: list[float] = []
        flush_us = max(50.0, median(self.event_us) - median(samples[short[0]]))
        each = max(len(self.r.launches[k]) for k in short)
        flushes = max(1, ceil(len(slots) * each * LAUNCH_US / flush_us))
        for turn in range(self.r.batch):
            contents = [(i + turn) % len(self.sets) for i in range(len(slots))]
            for k in short if turn % 2 == 0 else reversed(short):
                for slot, content in zip(slots, contents, strict=True):
                    slot.fill(self.sets[content], self.r.outputs, self.r.inouts)
                calls = [
                    call
                    for slot in slots
                    for call in self.images.calls(
                        self.r.cubins[k], self.r.launches[k], slot.pointer, slot.pointer
                    )
                ]
                s = self.timer.sample(calls, self.r.limit_s * len(slots), flushes)
                us[k].append(s.us / len(slots))
                for slot, content in zip(slots, contents, strict=True):
                    self._check(k, -1, content, slot.pointer)
            floor.append(self.timer.floor_batch(len(slots) * each, flushes) * each)
        return tuple(
            Batch(len(slots), tuple(us[k]), tuple(floor)) if k in us else None for k in range(len(samples))
        )
