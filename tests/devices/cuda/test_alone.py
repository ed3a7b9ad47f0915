"""A launch in a process of its own, with a driver made of numpy arrays and tools that are scripts."""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg, ScratchArg
from evolve.devices.cuda import alone as module
from evolve.devices.cuda.alone import Run, alone, find
from evolve.devices.cuda.launch_once import DriverError, launch

LAUNCH = ConcreteLaunch(
    "k",
    (BufferArg("x"), ScalarArg("s", "f32", 2.5), ScalarArg("n", "i64", 1 << 40), BufferArg("y")),
    (2, 3, 1),
    (32, 1, 1),
    64 << 10,
)
X = np.arange(10, dtype=np.float32)


class FakeDriver:
    """Remembers what it is asked for; allocations are numpy arrays. `fails`: a call and its result code."""

    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT=9,
    )

    def __init__(self, fails: dict[str, int] | None = None) -> None:
        self.fails = fails or {}
        self.calls: list[str] = []
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.sizes: list[int] = []
        self.launched: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            code = self.fails.get(name, 0)
            does = getattr(type(self), f"on_{name}", None)
            return (code, *(does(self, *args) if does and not code else ()))

        return call

    def on_cuDeviceGet(self, ordinal: int) -> tuple[int]:  # noqa: N802
        return (ordinal + 100,)

    def on_cuDevicePrimaryCtxRetain(self, device: int) -> tuple[str]:  # noqa: N802
        return (f"context of {device}",)

    def on_cuModuleLoadData(self, address: int) -> tuple[str]:  # noqa: N802
        return ("module",)

    def on_cuModuleGetFunction(self, of: str, name: bytes) -> tuple[bytes]:  # noqa: N802
        return (name,)

    def on_cuMemAlloc(self, size: int) -> tuple[int]:  # noqa: N802
        a = np.zeros(size, np.uint8)
        self.memory[a.ctypes.data] = a
        self.sizes.append(size)
        return (a.ctypes.data,)

    def on_cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[()]:  # noqa: N802
        self.memory[to][:size] = _bytes(source, size)
        return ()

    def on_cuLaunchKernel(self, function: bytes, *args: Any) -> tuple[()]:  # noqa: N802
        addresses = _bytes(args[8], 32).view(np.uint64)
        x, y = (int(_bytes(int(addresses[i]), 8).view(np.uint64)[0]) for i in (0, 3))
        scalar = float(_bytes(int(addresses[1]), 4).view(np.float32)[0])
        count = int(_bytes(int(addresses[2]), 8).view(np.int64)[0])
        contents = self.memory[x].view(np.float32).copy()
        self.launched.append((function, args[:8], contents, scalar, count, len(self.memory[y])))
        return ()

    def on_cuFuncSetAttribute(self, function: bytes, attribute: int, value: int) -> tuple[()]:  # noqa: N802
        self.attributes.append((attribute, value))
        return ()

    def on_cuMemFree(self, pointer: int) -> tuple[()]:  # noqa: N802
        del self.memory[pointer]
        return ()


def _bytes(address: int, size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(ctypes.string_at(address, size), np.uint8)


def test_the_process_launches_what_it_was_given(tmp_path: Path) -> None:
    driver = FakeDriver()
    np.save(tmp_path / "given.npy", X[::-1])
    runs = [Run((LAUNCH,), {"x": X, "y": 12}), Run((LAUNCH,), {"x": tmp_path / "given.npy", "y": 40})]
    with alone(b"\x7fELF", runs, 3) as job:
        launch(job.folder, driver)
    first, second = driver.launched
    assert first[0] == b"k" and first[1] == (2, 3, 1, 32, 1, 1, 64 << 10, 0)
    assert first[2].tolist() == X.tolist() and first[3:] == (2.5, 1 << 40, 12)
    assert second[2].tolist() == X[::-1].tolist() and second[5] == 40
    # Each array is an allocation of its exact size, freed after its run; nothing was written to y.
    assert driver.sizes == [40, 12, 40, 40] and not driver.memory
    assert driver.calls.count("cuMemcpyHtoD") == 2 and "cuMemcpyDtoH" not in driver.calls
    assert driver.calls.count("cuFuncSetAttribute") == 2
    assert not job.folder.exists()


def test_scratch_memory_is_an_allocation_that_the_launches_share(tmp_path: Path) -> None:
    driver = FakeDriver()
    part = ScratchArg("part", "f64", 3)
    one = replace(LAUNCH, args=(*LAUNCH.args[:3], part))
    with alone(b"\x7fELF", [Run((one, one), {"x": X})]) as job:
        launch(job.folder, driver)
    first, second = driver.launched
    assert driver.sizes == [40, 24] and not driver.memory
    assert first[-1] == second[-1] == 24, "bytes of the array at the address"


def test_a_carveout_is_asked_for_where_a_launch_has_one(tmp_path: Path) -> None:
    driver = FakeDriver()
    asking = replace(LAUNCH, carveout=30, shared_bytes=0)
    with alone(b"\x7fELF", [Run((LAUNCH, asking), {"x": X, "y": 12})]) as job:
        launch(job.folder, driver)
    assert driver.attributes == [(8, 64 << 10), (9, 30)]


def test_a_refused_launch_is_an_error(tmp_path: Path) -> None:
    with (
        alone(b"\x7fELF", [Run((LAUNCH,), {"x": X, "y": 40})]) as job,
        pytest.raises(DriverError, match=r"cuLaunchKernel: .*\(1\)"),
    ):
        launch(job.folder, FakeDriver({"cuLaunchKernel": 1}))


def script(folder: Path, name: str, text: str) -> Path:
    """A tool that is a Python program; `log` is what stands after --log-file, `command` after that."""
    head = f"#!{sys.executable}\nimport os, subprocess, sys, time\n"
    head += "at = sys.argv.index('--log-file')\nlog, command = sys.argv[at + 1], sys.argv[at + 2 :]\n"
    path = folder / name
    path.write_text(head + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def under(tool: Path, limit_s: float = 60.0) -> module.Ended:
    with alone(b"\x7fELF", [Run((LAUNCH,), {"x": X, "y": 40})]) as job:
        return job.under(tool, ("--tool", "memcheck"), limit_s)


def test_a_tool_runs_the_process_in_an_emptied_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVIDIA_API_KEY", "secret")
    text = "open(log, 'w').write(repr(sys.argv[1:3]) + ' '.join(os.environ))\n"
    tool = script(tmp_path, "tool", text + "sys.exit(subprocess.call(command))\n")
    ended = under(tool)
    assert ended.log.startswith("['--tool', 'memcheck']")
    assert "NVIDIA_API_KEY" not in ended.log and "PYTHONPATH" in ended.log
    # There is no driver here; where there is one it refuses the image.
    assert ended.status == 0 and ended.error


def test_a_process_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    ended = under(script(tmp_path, "tool", "print('no device')\nsys.exit(7)\n"))
    assert ended.status == 7 and ended.log == "" and "no device" in ended.streams
    assert ended.error is not None and "exit status 7" in ended.error


def test_success_is_what_the_process_says(tmp_path: Path) -> None:
    text = "open(os.path.join(command[-1], 'ended.json'), 'w').write('{\"error\": null}')\n"
    assert under(script(tmp_path, "tool", text)).error is None


def test_a_tool_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = f"child = subprocess.Popen(['sleep', '100'])\nopen({str(pid)!r}, 'w').write(str(child.pid))\n"
    begun = time.monotonic()
    ended = under(script(tmp_path, "tool", text + "time.sleep(100)\n"), 3.0)
    assert ended.status is None and ended.error == "it took more than 3 s"
    assert time.monotonic() - begun < 30
    child = int(pid.read_text())
    deadline = time.monotonic() + 10
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_tools_are_found_on_path_and_in_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find("an-unlikely-tool") is None
    (tmp_path / "toolkit" / "bin").mkdir(parents=True)
    found = script(tmp_path / "toolkit" / "bin", "an-unlikely-tool", "")
    assert find("an-unlikely-tool") == found
    on_path = script(tmp_path, "an-unlikely-tool", "")
    assert find("an-unlikely-tool") == on_path


def test_the_module_is_one_that_a_process_can_run(tmp_path: Path) -> None:
    """Without a driver it says so in its file."""
    (tmp_path / "job.json").write_text(json.dumps({"ordinal": 0, "runs": []}))
    command = [sys.executable, "-P", "-m", "evolve.devices.cuda.launch_once", str(tmp_path)]
    root = str(Path(module.__file__).parents[3])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, check=False, timeout=60)
    said = json.loads((tmp_path / "ended.json").read_text())
    assert done.returncode == 0 and said["error"]
