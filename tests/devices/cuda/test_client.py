"""The parent's side, with workers on a fake GPU: whose fault is it, and does the next candidate notice?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda import client
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.environment import tool_environment, worker_command, worker_environment
from evolve.devices.cuda.messages import Execute, Executed, Measure, SetArrays
from evolve.ir.errors import EvolveError
from evolve.toolchain.nvrtc import compile_cuda
from tests.devices.cuda.fake_cuda import N

X = np.arange(N, dtype=np.float32)
BUILT = compile_cuda('extern "C" __global__ void f(const float* x, float* y) { y[0] = x[0]; }')
FAKE = str(Path(__file__).parent / "fake_worker.py")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(client, "_require_pycuda", lambda: None)
    monkeypatch.setattr(
        client, "worker_command", lambda fd, ordinal: [sys.executable, "-P", FAKE, str(fd), str(ordinal)]
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # Where this test finds its own modules, which an installed package does not.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))


@pytest.fixture
def worker(fake: None) -> Iterator[CudaWorker]:
    w = CudaWorker(slack_s=30.0)
    w.set_arrays(SetArrays("a", {"x": X, "y": np.zeros_like(X)}))
    yield w
    w.close()


def execute(worker: CudaWorker, name: str, limit_s: float = 5.0) -> Executed:
    assert BUILT.cubin is not None
    one = (ConcreteLaunch(name, (BufferArg("x"), BufferArg("y")), (1, 1, 1), (32, 1, 1)),)
    return worker.execute(Execute(BUILT.cubin, one, "a", ("y",), limit_s=limit_s))


def works(worker: CudaWorker) -> bool:
    done = execute(worker, "twice")
    return done.error is None and np.array_equal(done.outputs["y"], 2 * X)


@pytest.mark.parametrize(("name", "kind"), [("stray", "fault"), ("hang", "timeout"), ("die", "lost")])
def test_a_fault_costs_its_candidate_and_the_worker(worker: CudaWorker, name: str, kind: str) -> None:
    done = execute(worker, name, limit_s=0.2)
    assert done.fault is not None and done.fault.kind == kind
    assert worker.replaced >= 1 and works(worker)


@pytest.mark.parametrize(("name", "kind"), [("memory", "memory"), ("nowhere", "launch")])
def test_a_refusal_costs_its_candidate_only(worker: CudaWorker, name: str, kind: str) -> None:
    done = execute(worker, name)
    assert done.fault is not None and done.fault.kind == kind
    assert worker.replaced == 0 and works(worker)


def test_a_worker_that_is_killed_from_outside_costs_nobody_anything(worker: CudaWorker) -> None:
    done = execute(worker, "die_once")
    assert done.error is None and np.array_equal(done.outputs["y"], 2 * X)
    assert worker.replaced == 1
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    assert works(worker) and worker.replaced == 2


def test_a_worker_that_is_killed_between_uploads(worker: CudaWorker) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    worker.set_arrays(SetArrays("a", {"x": X + 1, "y": np.zeros_like(X)}))
    done = execute(worker, "twice")
    assert np.array_equal(done.outputs["y"], 2 * (X + 1))


def test_arrays_that_do_not_fit_are_the_machines_error(worker: CudaWorker) -> None:
    with pytest.raises(EvolveError) as e:
        worker.set_arrays(SetArrays("b", {"x": np.zeros(1 << 24, np.float32)}))
    assert e.value.code == "gpu-memory"
    # It is not tried again with every new worker.
    assert works(worker)
    execute(worker, "stray")
    assert works(worker)


def test_memory_that_a_kernel_left_reserved_is_had_back(worker: CudaWorker) -> None:
    """Local memory of a launch stays with the context: what comes after it must not suffer."""
    assert execute(worker, "reserve").error is None
    worker.set_arrays(SetArrays("b", {"x": np.zeros(1 << 21, np.float32)}))
    assert worker.replaced == 1 and works(worker)


def test_forgetting_asks_nothing_of_a_worker_that_ended(worker: CudaWorker) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    worker.drop(("a",))
    worker.set_arrays(SetArrays("a", {"x": X, "y": np.zeros_like(X)}))
    assert works(worker)


def test_a_hundred_mixed_faults(worker: CudaWorker) -> None:
    """All attributed to their candidate, none lost, and the honest ones between them right."""
    kinds = {"twice": None, "memory": "memory", "nowhere": "launch", "stray": "fault"}
    drawn = np.random.default_rng(1).choice(4, 100, p=(0.4, 0.25, 0.25, 0.1))
    names = [list(kinds)[i] for i in drawn]
    for name in names:
        done = execute(worker, name)
        assert (done.fault.kind if done.fault else None) == kinds[name]
        assert done.fault is not None or np.array_equal(done.outputs["y"], 2 * X)
    assert worker.replaced == names.count("stray") >= 5


def test_times_come_back(worker: CudaWorker) -> None:
    assert BUILT.cubin is not None
    one = (ConcreteLaunch("twice", (BufferArg("x"), BufferArg("y")), (1, 1, 1), (32, 1, 1)),)
    done = worker.measure(Measure((BUILT.cubin,), (one,), ("a",), ("y",)))
    assert len(done.samples_us[0]) >= 10 and done.persisting_reset


def test_no_key_reaches_the_worker(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "NVIDIA_API_KEY",
        "CUDA_SECRET",
        "AWS_SECRET_ACCESS_KEY",
    ]
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    w = CudaWorker(slack_s=30.0)
    try:
        assert w.pid is not None
        seen = Path(f"/proc/{w.pid}/environ").read_bytes()
        w.set_arrays(SetArrays("a", {"x": X, "y": np.zeros_like(X)}))
        text = execute(w, "environment").outputs["y"].tobytes().rstrip(b"\0").decode()
    finally:
        w.close()
    assert b"secret" not in seen and not set(secrets) & set(text.split("\n"))
    assert {"PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES"} <= set(text.split("\n"))


def test_the_worker_does_not_search_the_current_folder() -> None:
    assert "-P" in worker_command(3, 0)
    folders = worker_environment({"PATH": "/bin"})["PYTHONPATH"].split(os.pathsep)
    assert "" not in folders and (Path(folders[0]) / "evolve" / "devices").is_dir()


def test_the_driver_translates_nothing_by_itself() -> None:
    given = {"CUDA_DISABLE_PTX_JIT": "0", "CUDA_FORCE_PTX_JIT": "1"}
    made = worker_environment(given)
    assert made["CUDA_DISABLE_PTX_JIT"] == "1" and "CUDA_FORCE_PTX_JIT" not in made
    assert "CUDA_DISABLE_PTX_JIT" not in tool_environment(given)  # Nsight Compute's own kernels may be PTX


def test_without_pycuda_the_command_that_builds_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "find_spec", lambda name: None)
    with pytest.raises(EvolveError) as e:
        CudaWorker()
    assert e.value.code == "no-cuda" and "evolve doctor --install-pycuda" in str(e.value)


def test_a_gpu_that_is_not_there_is_said_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker on a machine whose PyCUDA cannot be imported, or whose driver finds nothing."""
    monkeypatch.setattr(client, "_require_pycuda", lambda: None)
    monkeypatch.setattr(client, "worker_command", lambda fd, ordinal: worker_command(fd, 99))
    with pytest.raises(EvolveError) as e:
        CudaWorker(slack_s=30.0)
    assert e.value.code == "no-cuda" and "Error" in e.value.message
