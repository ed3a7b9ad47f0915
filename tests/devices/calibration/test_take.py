"""What is launched, against a worker that answers as a GPU would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg
from evolve.devices.calibration.benches import CHASES, HOPS, LOOPS, STREAMS, kernel_text
from evolve.devices.calibration.figures import work_out
from evolve.devices.calibration.take import ring, rounds, take
from evolve.devices.cuda.messages import Execute, Executed, Measure, Measured
from tests.devices.calibration.gpus import DRAM_GBS, H200, LATENCY, PER_CLOCK, FakeWorker


class Watched(FakeWorker):
    """Keeps the requests."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.requests: list[Measure | Execute] = []

    def measure(self, request: Measure) -> Measured:
        self.requests.append(request)
        return super().measure(request)

    def execute(self, request: Execute) -> Executed:
        self.requests.append(request)
        return super().execute(request)


@pytest.fixture(scope="module")
def watched() -> tuple[Watched, dict[str, float], dict[str, float | None]]:
    """A whole calibration: the worker, the figures' values and rates per clock by name."""
    worker = Watched()
    samples = take(worker, H200)
    assert not samples.faults
    figures = work_out(samples, H200, {})
    assert not any(f.doubt for f in figures)
    return worker, {f.name: f.mid for f in figures}, {f.name: f.per_clock for f in figures}


Whole = tuple[Watched, dict[str, float], dict[str, float | None]]


def test_a_gpu_with_known_rates_is_measured_to_have_them(watched: Whole) -> None:
    _, values, clocked = watched
    hz = H200.clock_mhz * 1e6 * H200.sms
    for loop in LOOPS:
        assert values[loop.figure] == pytest.approx(PER_CLOCK[loop.kernel] * hz / loop.unit, rel=0.01)
        lanes = PER_CLOCK[loop.kernel] / loop.results * loop.lanes
        assert clocked[loop.figure] == pytest.approx(lanes, rel=1e-3)
    assert values["write_gbs"] == pytest.approx(DRAM_GBS[0], rel=0.01)
    assert values["read_gbs"] == pytest.approx(DRAM_GBS[1], rel=0.01)
    assert values["copy_16b_gbs"] == pytest.approx(DRAM_GBS[2], rel=0.01)
    assert values["triad_gbs"] == pytest.approx(DRAM_GBS[3], rel=0.01)
    assert values["l1_clocks"] == pytest.approx(LATENCY["chase_l1"], rel=1e-3)
    assert values["dram_ns"] == pytest.approx(LATENCY["dram"] / H200.clock_mhz * 1e3, rel=1e-3)


def test_every_launch_passes_what_its_kernel_takes(watched: Whole) -> None:
    """The names of the arguments, in order, are those of the parameters in the CUDA text."""
    texts = {source: kernel_text(source) for source in ("memory", "arithmetic", "tensor", "latency")}
    parameters = {
        "BENCH": ["sink", "cycles", "a", "b", "n"],
        "STREAM": ["memory", "sink", "from", "to"],
        "CHASE": ["slots", "cells", "result", "warm", "timed"],
    }
    checked = set()
    for request in watched[0].requests:
        sequences = request.launches if isinstance(request, Measure) else (request.launches,)
        for launch in (one for sequence in sequences for one in sequence):
            assert isinstance(request, Execute | Measure)
            names = [a.name for a in launch.args]
            text = next(t for t in texts.values() if f"{launch.kernel}(" in t or f"({launch.kernel}," in t)
            if f"{launch.kernel}(" in text:
                inside = text.split(f"{launch.kernel}(", 1)[1].split(")", 1)[0]
                wanted = [p.split()[-1].lstrip("*") for p in inside.split(",") if p.strip()]
            elif any(s.kernel == launch.kernel for s in STREAMS):
                wanted = parameters["STREAM"]
            else:
                wanted = parameters["CHASE" if launch.kernel.startswith("chase") else "BENCH"]
            assert names == wanted, launch.kernel
            checked.add(launch.kernel)
    chased = {c.kernel for c in CHASES}
    assert checked == {s.kernel for s in STREAMS} | {p.kernel for p in LOOPS} | chased | {
        "empty",
        "link",
        "sweep",
    }


def test_a_loops_only_block_fills_an_sm(watched: Whole) -> None:
    for request in watched[0].requests:
        for launch in request.launches:
            if not isinstance(launch, tuple) and any(p.kernel == launch.kernel for p in LOOPS):
                static = 16384 if launch.kernel == "shared_read" else 0
                taken = launch.shared_bytes + static
                assert 2 * taken > H200.shared_bytes_per_sm and taken <= H200.shared_bytes_per_block_optin
                assert launch.grid == (H200.sms, 1, 1) and launch.block == (1024, 1, 1)


def test_l2_is_read_from_a_quarter_of_it(watched: Whole) -> None:
    memory = watched[0].sets["loops"]["memory"]
    assert H200.l2_bytes / 5 < memory.nbytes <= H200.l2_bytes / 4
    # One set lies in a launch's tiles; more would go over the end.
    tiles = {
        a.value
        for request in watched[0].requests
        if isinstance(request, Execute)
        for a in request.launches[-1].args
        if not isinstance(a, BufferArg) and a.name == "tiles"
    }
    assert tiles == {memory.nbytes // (16 * 1024)}


def test_a_cold_chase_follows_a_sweep_of_four_times_l2(watched: Whole) -> None:
    (cold,) = (r for r in watched[0].requests if isinstance(r, Execute) and r.key == "chase:dram_ns")
    assert [one.kernel for one in cold.launches] == ["link", "sweep", "chase_l2"]
    assert watched[0].sets["chase:dram_ns"]["other"].nbytes >= 4 * H200.l2_bytes
    (count,) = (a.value for a in cold.launches[1].args if a.name == "count" and not isinstance(a, BufferArg))
    assert count * 16 == watched[0].sets["chase:dram_ns"]["other"].nbytes


def test_a_ring_visits_every_place_once_and_no_neighbours_in_a_row() -> None:
    places = ring(4096, 32)
    assert sorted(places.tolist()) == list(range(0, 4096 * 32, 32))
    steps = np.abs(np.diff(places.astype(np.int64)))
    assert (steps == 32).mean() < 0.01


def test_rounds_warm_the_whole_ring_or_none_of_the_timed_part() -> None:
    for chase in CHASES:
        warm, timed = rounds(chase)
        if chase.warm:
            assert warm * HOPS == chase.cells and timed * HOPS >= 4096
        else:
            assert (warm + timed) * HOPS == chase.cells and timed > 4 * warm


@pytest.mark.parametrize("kernel", ["fma_f64", "chase_l1", "copy_4b"])
def test_what_fails_is_named_and_the_rest_is_measured(kernel: str) -> None:
    samples = take(FakeWorker(broken=frozenset({kernel})), H200)
    blamed = {"chase_l1": {"l1_clocks"}, "fma_f64": {"fma_f64"}}.get(
        kernel, {s.kernel for s in STREAMS} | {"empty"}
    )
    assert set(samples.faults) == blamed
    assert all("no such luck" in why for why in samples.faults.values())
    measured = {*samples.pairs, *samples.chases}
    expected = {s.kernel for s in STREAMS} | {p.kernel for p in LOOPS} | {c.latency for c in CHASES}
    assert measured == expected - blamed


def test_a_small_gpu_gets_small_buffers() -> None:
    small = replace(H200, memory_bytes=4 << 30, l2_bytes=4 << 20, sms=16)
    worker = Watched(gpu=small)
    samples = take(worker, small)
    assert not samples.faults
    assert worker.sets["stream"]["memory"].nbytes == 512 << 20
    for stream in STREAMS:
        pair = samples.pairs[stream.kernel]
        assert pair.many == pytest.approx(4 * pair.few, rel=0.01)


def test_before_8_0_there_is_no_matrix_benchmark() -> None:
    turing = replace(
        H200, compute_capability=(7, 5), shared_bytes_per_sm=65536, shared_bytes_per_block_optin=65536
    )
    samples = take(FakeWorker(gpu=turing), turing)
    assert "mma_f16" not in samples.pairs and not samples.faults


def test_a_clock_that_did_not_run_is_no_reason_to_loop_for_ever() -> None:
    worker = Watched(per_clock=PER_CLOCK | {"fma_f32": 1e9, "l2_read": -27.0})
    samples = take(worker, H200)
    assert set(samples.faults) == {"fma_f32", "l2_read"} and "clocks" in samples.faults["fma_f32"]
    counts = [
        a.value
        for request in worker.requests
        for sequence in (request.launches if isinstance(request, Measure) else (request.launches,))
        for launch in sequence
        for a in launch.args
        if not isinstance(a, BufferArg) and a.name == "n"
    ]
    assert max(counts) < 1_000_000
