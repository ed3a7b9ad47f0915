"""The worker on a fake GPU: what it checks, what it times, and which fault is whose."""

from __future__ import annotations

import fcntl
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg, ScratchArg
from evolve.devices.compare import bounds
from evolve.devices.cuda import launching, timing
from evolve.devices.cuda.lock import lock_file
from evolve.devices.cuda.messages import (
    Ask,
    Execute,
    Executed,
    Measure,
    Measured,
    Refer,
    SetArrays,
    SetExpected,
    Stored,
)
from evolve.devices.cuda.worker import Worker
from evolve.toolchain.nvrtc import compile_cuda
from tests.devices.cuda.fake_cuda import FakeCuda, FakeDevice, Launch, N, hang, memory, stray, twice

X = np.arange(N, dtype=np.float32)
ASK = Ask(12345, 0xFFF81234)


def image(text: str) -> bytes:
    built = compile_cuda(text)
    assert built.cubin is not None, built.log
    return built.cubin


PLAIN = image('extern "C" __global__ void f(const float* x, float* y) { y[0] = x[0]; }')
COUNTING = image('extern "C" __global__ void f(float* y) { static int n; y[0] = atomicAdd(&n, 1); }')


def over_end(x: Launch) -> None:
    twice(x)
    x.view(x.args[1], N + 4)[N + 3] = 1.0


def spoil(x: Launch) -> None:
    twice(x)
    x.view(x.args[0], N)[5] = 7.0


def part(x: Launch) -> None:
    x.view(x.args[1], N - 1)[:] = 2 * x.view(x.args[0], N - 1)


def halve(x: Launch) -> None:
    """The first of two launches: x/2 into scratch memory; keeps in mind what was there."""
    kept = x.view(x.args[1], N)
    x.state.setdefault("found", []).append(float(kept[0]))
    kept[:] = 0.5 * x.view(x.args[0], N)


def fourfold(x: Launch) -> None:
    """The second."""
    x.view(x.args[0], N)[:] = 4 * x.view(x.args[1], N)


def beyond_scratch(x: Launch) -> None:
    halve(x)
    x.view(x.args[1], N + 1)[N] = 1.0


def count(x: Launch) -> None:
    """Right in its first three launches; does nothing later."""
    x.state["n"] = x.state.get("n", 0) + 1
    if x.state["n"] <= 3:
        twice(x)


def make(monkeypatch: pytest.MonkeyPatch, **limits: int) -> Worker:
    monkeypatch.setattr(timing, "LEAST_WRITE_BYTES", 1 << 16)
    monkeypatch.setattr(timing, "WARM_S", 0.0)
    kernels = [twice, over_end, spoil, part, stray, count, memory, hang, halve, fourfold, beyond_scratch]
    gpu = FakeCuda({k.__name__: k for k in kernels}, **limits)
    worker = Worker(gpu, gpu.driver, FakeDevice(gpu), ASK)
    assert worker.answer(SetArrays("a", {"x": X, "y": np.zeros_like(X)})) == Stored()
    y = 2 * X.astype(np.float64)
    worker.answer(SetExpected("want", {"y": (y.astype(np.float32), y.astype(np.float32))}))
    return worker


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    return make(monkeypatch)


def launch(name: str, **more: Any) -> tuple[ConcreteLaunch, ...]:
    return (ConcreteLaunch(name, (BufferArg("x"), BufferArg("y")), (1, 1, 1), (32, 1, 1), **more),)


def execute(worker: Worker, name: str, expected: str | None = None, **more: Any) -> Executed:
    got = worker.answer(Execute(PLAIN, launch(name), "a", ("y",), expected=expected, **more))
    assert isinstance(got, Executed)
    return got


def measure(worker: Worker, *names: str, **more: Any) -> Measured:
    got = worker.answer(
        Measure(
            (PLAIN,) * len(names), tuple(launch(n) for n in names), ("a",), ("y",), least=4, most=6, **more
        )
    )
    assert isinstance(got, Measured)
    return got


def two(first: str) -> tuple[ConcreteLaunch, ...]:
    """Launches that share scratch memory."""
    part = ScratchArg("part", "f32", N)
    return (
        ConcreteLaunch(first, (BufferArg("x"), part), (1, 1, 1), (32, 1, 1)),
        ConcreteLaunch("fourfold", (BufferArg("y"), part), (1, 1, 1), (32, 1, 1)),
    )


# ---- what is checked


def test_outputs_come_back_and_are_compared(worker: Worker) -> None:
    done = execute(worker, "twice", "want")
    assert np.array_equal(done.outputs["y"], 2 * X)
    assert (
        done.compared["y"].wrong == 0 and not done.changed and not done.broken_guards and done.error is None
    )
    assert execute(worker, "twice", fetch=False).outputs == {}


def test_scratch_memory_is_shared_by_the_launches_and_poisoned_before_them(worker: Worker) -> None:
    for _ in range(2):
        done = worker.answer(Execute(PLAIN, two("halve"), "a", ("y",), expected="want"))
        assert isinstance(done, Executed)
        assert done.compared["y"].wrong == 0 and not done.broken_guards and not done.changed
    measured = worker.answer(Measure((PLAIN,), (two("halve"),), ("a",), ("y",), least=4, most=6))
    assert isinstance(measured, Measured) and measured.fault is None
    assert not measured.mismatches and not measured.broken_guards
    (module,) = worker.images._kept.values()
    found = module.state["found"]
    assert len(found) >= 6 and all(np.isnan(v) for v in found), "what a launch before left is never there"


def test_a_byte_beyond_scratch_memory_is_seen_and_repaired(worker: Worker) -> None:
    done = worker.answer(Execute(PLAIN, two("beyond_scratch"), "a", ("y",)))
    assert isinstance(done, Executed) and done.broken_guards == ("part",)
    again = worker.answer(Execute(PLAIN, two("halve"), "a", ("y",)))
    assert isinstance(again, Executed) and again.broken_guards == ()
    measured = worker.answer(Measure((PLAIN,), (two("beyond_scratch"),), ("a",), ("y",), least=2, most=2))
    assert isinstance(measured, Measured) and measured.broken_guards == ("part",)


def test_scratch_memory_too_large_for_the_gpu_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make(monkeypatch, memory=1 << 24)
    args = (BufferArg("x"), ScratchArg("part", "f32", 1 << 24))
    launches = (ConcreteLaunch("halve", args, (1, 1, 1), (32, 1, 1)),)
    done = worker.answer(Execute(PLAIN, launches, "a", ("y",)))
    assert isinstance(done, Executed) and done.fault is not None and not done.fault.sticky


def test_a_byte_beyond_the_end_is_seen_and_repaired(worker: Worker) -> None:
    assert execute(worker, "over_end").broken_guards == ("y",)
    assert execute(worker, "twice").broken_guards == ()


def test_a_changed_input_is_seen_and_repaired(worker: Worker) -> None:
    assert execute(worker, "spoil").changed == ("x",)
    done = execute(worker, "twice")
    assert done.changed == () and np.array_equal(done.outputs["y"], 2 * X)


def test_what_a_kernel_leaves_alone_is_poison_and_not_the_last_result(worker: Worker) -> None:
    execute(worker, "twice")
    done = execute(worker, "part", "want")
    assert done.compared["y"].wrong == 1 and done.compared["y"].first == N - 1
    assert np.isnan(done.outputs["y"][-1])


@pytest.mark.parametrize("kind", [np.bool_, np.float64, np.uint64])
@pytest.mark.parametrize("count", [0, 1, 5, 1023])
def test_arrays_of_any_size(worker: Worker, kind: type, count: int) -> None:
    """Odd sizes, and none: nothing is touched behind a block, and everything is found."""
    a = np.ones(count, kind)
    assert worker.answer(SetArrays("odd", {"a": a, "b": a})) == Stored()
    on = worker.sets["odd"]
    on.poison("b")
    assert worker.gpu.left(on.pointer("b"), a) == count
    assert worker.gpu.compare(on.pointer("b"), (a, a)).wrong == count
    on.reset("b")
    found = worker.gpu.compare(on.pointer("b"), (a, a))
    assert found.wrong == 0 and on.damage(()) == ((), ())
    slot = timing.Slot(worker.gpu, on)
    slot.fill(on, ("b",), ())
    assert worker.gpu.left(slot.pointer("b"), a) == count
    slot.free()


def test_digests_tell_results_apart(worker: Worker) -> None:
    first, again, other = (execute(worker, n).digests["y"] for n in ("twice", "twice", "part"))
    assert first == again != other


def test_nothing_of_the_reference_stays_on_the_device(worker: Worker) -> None:
    """Freed memory keeps its contents on a GPU: it is overwritten while it is still ours."""
    gpu = worker.cuda
    kept: list[Any] = []
    original = gpu.mem_alloc

    def keeping(size: int) -> Any:
        block = original(size)
        kept.append(gpu.blocks[int(block)])
        return block

    gpu.mem_alloc = keeping
    execute(worker, "twice", "want")
    secret = (2 * X[-8:]).tobytes()
    assert kept and not any(secret in a.tobytes() for a in kept)


def test_a_reference_leaves_its_bounds_in_files_and_nothing_on_the_device(
    worker: Worker, tmp_path: Path
) -> None:
    """y = 2 x in double with an error, in two kernels as a rendered reference has them."""
    gpu = worker.cuda

    def value(x: Launch) -> None:
        given, out, error = x.args
        x.view(out, N, np.float64)[:] = 2.0 * x.view(given, N)
        x.view(error, N, np.float64)[:] = 1e-3

    def twice_the_error(x: Launch) -> None:
        x.view(x.args[2], N, np.float64)[:] *= 2.0

    gpu.kernels |= {"value": value, "twice_the_error": twice_the_error}
    args = (BufferArg("x"), BufferArg("y"), BufferArg("y_err"))
    kernels = tuple(ConcreteLaunch(n, args, (4, 1, 1), (32, 1, 1)) for n in ("value", "twice_the_error"))
    low, high = str(tmp_path / "low.npy"), str(tmp_path / "high.npy")
    freed: list[Any] = []
    allocate = gpu.mem_alloc
    gpu.mem_alloc = lambda size: (block := allocate(size), freed.append(gpu.blocks[int(block)]))[0]
    used = gpu.used
    request = Refer(
        PLAIN, kernels, "a", {"x": "x"}, {"y": N, "y_err": N}, {"y": ("y", "y_err", low, high)}, 16.0
    )
    assert worker.answer(request) == Stored()
    a, b = bounds(2.0 * X.astype(np.float64), np.full(N, 16 * 2e-3), np.dtype(np.float32))
    assert np.array_equal(np.load(low), a) and np.array_equal(np.load(high), b)
    assert gpu.used == used and len(freed) == 3
    assert all(set(np.unique(block)) <= {0xC5} for block in freed)


# ---- faults


def test_a_broken_context_is_told_by_the_drivers_code(worker: Worker) -> None:
    fault = execute(worker, "stray").fault
    assert fault is not None and fault.kind == "fault" and fault.sticky and "700" in fault.message


def test_a_refused_launch_leaves_the_context_usable(worker: Worker) -> None:
    request = (ConcreteLaunch("twice", (BufferArg("x"), BufferArg("y")), (1, 1, 1), (2048, 1, 1)),)
    got = worker.answer(Execute(PLAIN, request, "a", ("y",)))
    assert isinstance(got, Executed) and got.fault is not None
    assert got.fault.kind == "launch" and not got.fault.sticky
    too_much = worker.answer(Execute(PLAIN, launch("twice", shared_bytes=1 << 20), "a", ("y",)))
    assert isinstance(too_much, Executed) and too_much.fault is not None and not too_much.fault.sticky
    assert execute(worker, "twice").error is None


@pytest.mark.parametrize("shared_bytes", [48 << 10, (48 << 10) + 1, 200 << 10])
def test_more_dynamic_shared_memory_is_opted_in_to(
    worker: Worker, shared_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Execute(PLAIN, launch("twice", shared_bytes=shared_bytes), "a", ("y",))
    got = worker.answer(request)
    assert isinstance(got, Executed) and got.error is None and np.array_equal(got.outputs["y"], 2 * X)
    # Without it the driver refuses the launch.
    monkeypatch.setattr(launching, "SHARED_WITHOUT_OPT_IN", 1 << 30)
    got = worker.answer(request)
    assert isinstance(got, Executed) and (got.error is None) == (shared_bytes <= 48 << 10)


def test_each_launch_has_the_carveout_that_it_asks_for(worker: Worker) -> None:
    """Though what is asked for stays with a function, and one image may be launched either way."""
    gpu = worker.timer.gpu.cuda
    for asked in (None, 50, None, 0, 50):
        got = worker.answer(Execute(PLAIN, launch("twice", carveout=asked), "a", ("y",)))
        assert isinstance(got, Executed) and got.error is None
        assert [c for name, c in gpu.carveouts if name == "twice"][-1] == asked


def test_a_kernel_that_does_not_end(worker: Worker) -> None:
    fault = execute(worker, "hang", limit_s=0.05).fault
    assert fault is not None and fault.kind == "timeout" and fault.sticky


def test_an_image_that_is_none(worker: Worker) -> None:
    got = worker.answer(Execute(b"text", launch("twice"), "a", ("y",)))
    assert isinstance(got, Executed) and got.fault is not None
    assert got.fault.kind == "load" and not got.fault.sticky


def test_memory_that_a_kernel_asks_for_is_its_fault(worker: Worker) -> None:
    fault = execute(worker, "memory").fault
    assert fault is not None and fault.kind == "memory"


def test_memory_for_arrays_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make(monkeypatch, memory=8 << 20)
    got = worker.answer(SetArrays("large", {"x": np.zeros(4 << 20, np.float32)}))
    assert isinstance(got, Stored) and got.fault is not None
    assert got.fault.kind == "arrays" and "MiB" in got.fault.message
    assert execute(worker, "twice").error is None


# ---- times


def test_the_flush_writes_more_than_l2_then_reads_it_clean(worker: Worker) -> None:
    gpu = worker.cuda
    timer = worker.timer
    assert timer.write_bytes >= 4 * gpu.l2 and timer.read_bytes >= 2 * gpu.l2
    gpu.log.clear()
    resets = gpu.driver.resets
    timer.sample([lambda: gpu.log.append("candidate")], 1.0)
    between = gpu.log[gpu.log.index("ev_read") :]
    assert gpu.log[:4] == ["event", "memset", "memset", "ev_read"]
    assert between[:4] == ["ev_read", "event", "candidate", "event"]
    assert gpu.driver.resets == resets + 1 and timer.persisting_reset


def test_sequences_take_turns_forth_and_back(worker: Worker) -> None:
    gpu = worker.cuda
    gpu.costs_us |= {"twice": 100.0, "part": 50.0}
    gpu.log.clear()
    done = measure(worker, "twice", "part")
    order = [name for name in gpu.log if name in ("twice", "part")]
    assert order[:8] == ["twice", "part", "part", "twice"] * 2
    assert {round(t) for t in done.samples_us[0]} == {100} and {round(t) for t in done.samples_us[1]} == {50}
    assert done.batches == (None, None)


def test_sampling_stops_when_steady(worker: Worker) -> None:
    worker.cuda.costs_us["twice"] = 100.0
    assert len(measure(worker, "twice").samples_us[0]) == 4


def test_warm_times_are_taken_with_what_is_in_l2_and_no_others(worker: Worker) -> None:
    """As long as a flush is what makes it slow: 100 us after one, 40 without."""
    gpu = worker.cuda

    def cached(x: Launch) -> None:
        twice(x)
        gpu.now_us += 60.0 if gpu.log[-3] == "ev_read" else 0.0

    gpu.kernels["cached"] = cached
    gpu.costs_us["cached"] = 40.0
    gpu.log.clear()
    done = measure(worker, "cached", unflushed=3)
    assert {round(t) for t in done.samples_us[0]} == {100}
    assert [round(t) for t in done.warm_us[0]] == [40, 40, 40]
    assert gpu.log.count("ev_wait") == 3 and done.mismatches == ()
    assert measure(worker, "cached").warm_us == ((),)


def test_long_kernels_have_one_warm_time(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "UNFLUSHED_SHARE", 0.0)
    assert len(measure(worker, "twice", unflushed=3).warm_us[0]) == 1


def test_what_a_warm_launch_leaves_is_checked(worker: Worker) -> None:
    def lazy(x: Launch) -> None:
        if x.gpu.log[-3] != "ev_wait":
            twice(x)

    worker.cuda.kernels["lazy"] = lazy
    worker.cuda.costs_us["lazy"] = 100.0
    digests = execute(worker, "twice").digests
    assert measure(worker, "lazy", known=((digests,),), expected=("want",)).mismatches == ()
    warm = measure(worker, "lazy", known=((digests,),), expected=("want",), unflushed=3)
    assert [m.wrong for m in warm.mismatches] == [N, N, N]


def test_short_kernels_are_also_timed_in_batches(worker: Worker) -> None:
    worker.cuda.costs_us |= {"twice": 10.0, "ev_empty": 2.0}
    batch = measure(worker, "twice").batches[0]
    assert batch is not None and batch.launches == 20
    assert {round(t, 6) for t in batch.us} == {10.0} and {round(t, 6) for t in batch.floor_us} == {2.0}


def test_every_timed_launch_is_checked(worker: Worker) -> None:
    worker.cuda.costs_us["count"] = worker.cuda.costs_us["twice"] = 100.0
    digests = execute(worker, "twice").digests
    good = measure(worker, "twice", known=((digests,),), expected=("want",))
    assert good.checked >= 14 and good.mismatches == () and good.varied == 0
    bad = measure(worker, "count", known=((digests,),), expected=("want",))
    assert bad.mismatches and {m.wrong for m in bad.mismatches} == {N}


def test_every_launch_of_a_batch_is_checked(worker: Worker) -> None:
    worker.cuda.costs_us["count"] = 10.0
    digests = execute(worker, "twice").digests
    done = measure(worker, "count", known=((digests,),), expected=("want",))
    assert sum(m.sample == -1 for m in done.mismatches) >= 100


def test_other_digests_are_right_when_the_bounds_hold(worker: Worker) -> None:
    """Sums in another order every time: not the same bits, but within tolerance."""
    worker.cuda.costs_us["twice"] = 100.0
    done = measure(worker, "twice", known=(({"y": 1},),), expected=("want",))
    assert done.mismatches == () and done.varied == done.checked > 0
    alone = measure(worker, "twice", known=(({"y": 1},),))
    assert alone.mismatches and alone.mismatches[0].wrong is None


def test_nobody_else_measures_meanwhile(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found: set[bool] = set()

    def free() -> bool:
        with open(lock_file(worker.device.pci_bus_id()), "w") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    worker.cuda.kernels["twice"] = lambda x: (found.add(free()), twice(x))[1]
    worker.cuda.costs_us["twice"] = 100.0
    assert measure(worker, "twice").error is None
    assert found == {False} and free()


def test_inputs_rotate(worker: Worker) -> None:
    seen: list[int] = []
    worker.cuda.kernels["twice"] = lambda x: (seen.append(x.args[0]), twice(x))[1]
    worker.answer(SetArrays("b", {"x": X + 1, "y": np.zeros_like(X)}, shift=256))
    worker.cuda.costs_us["twice"] = 100.0
    got = worker.answer(Measure((PLAIN,), (launch("twice"),), ("a", "b"), ("y",), least=4))
    assert isinstance(got, Measured)
    assert len(set(seen)) == 2 and all(a != b for a, b in pairwise(seen))
    assert {p % 4096 for p in seen} == {0, 256}


def test_variables_of_an_image_do_not_live_from_launch_to_launch(worker: Worker) -> None:
    worker.cuda.costs_us["count"] = 100.0
    request = Measure((COUNTING,), (launch("count"),), ("a",), ("y",), expected=("want",), known=((None,),))
    got = worker.answer(request)
    assert isinstance(got, Measured) and got.checked > 10
    # Loaded afresh each time, it is always in its first launch, where it is right.
    assert got.mismatches == ()


def test_inputs_that_change_while_timed_are_seen(worker: Worker) -> None:
    worker.cuda.costs_us["spoil"] = 100.0
    assert measure(worker, "spoil").changed == ("x",)


def test_a_refused_measurement_leaves_the_sets_as_they_were(worker: Worker) -> None:
    worker.answer(SetArrays("b", {"x": X + 1, "y": np.zeros_like(X)}))
    launches = 0

    def breaks(x: Launch) -> None:
        nonlocal launches
        launches += 1
        if launches == 4:
            raise FakeCuda.LogicError("cuLaunchKernel failed: invalid argument")

    worker.cuda.kernels["breaks"] = breaks
    got = worker.answer(Measure((PLAIN,), (launch("breaks"),), ("a", "b"), ("y",)))
    assert isinstance(got, Measured) and got.fault is not None and not got.fault.sticky
    for key, expected in (("a", X), ("b", X + 1)):
        assert np.array_equal(worker.sets[key].fetch("x"), expected)


def test_in_place_inputs_are_restored_before_every_launch(worker: Worker) -> None:
    def increment(x: Launch) -> None:
        x.view(x.args[0], N)[:] += 1

    worker.cuda.kernels["increment"] = increment
    worker.cuda.costs_us["increment"] = 10.0
    one = (ConcreteLaunch("increment", (BufferArg("x"), ScalarArg("n", "i32", 1)), (1, 1, 1), (32, 1, 1)),)
    done = worker.answer(Execute(PLAIN, one, "a", ("x",), ("x",)))
    assert isinstance(done, Executed) and np.array_equal(done.outputs["x"], X + 1)
    timed = worker.answer(Measure((PLAIN,), (one,), ("a",), ("x",), ("x",), known=((done.digests,),)))
    assert isinstance(timed, Measured) and timed.mismatches == () and timed.checked > 50


def test_bounds_that_cannot_be_mapped_are_about_the_machine(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolve.devices.cuda.worker.LEAST_HIDDEN_BYTES", 0)
    y = 2 * X
    assert worker.answer(SetExpected("hidden", {"y": (y, y)})) == Stored()
    assert execute(worker, "twice", expected="hidden").fault is None
    monkeypatch.setattr(worker.driver, "cuMemMap", lambda *args: (2,))
    fault = execute(worker, "twice", expected="hidden").fault
    assert fault is not None and fault.kind == "arrays" and not fault.sticky
