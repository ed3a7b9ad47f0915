"""What Nsight Compute writes, read. The outputs are made up in its documented format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda import profiler
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.profiler import METRICS, Unavailable, combine, profile, read
from evolve.sol.counters import Counters
from tests.devices.cuda.test_alone import script

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
FIRST = {
    "gpu__time_duration.sum": "1,000",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "20.00",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "90",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "50.5",
    "dram__bytes.sum": "12,000",
    "dram__bytes_read.sum": "8,000",
    "dram__bytes_write.sum": "4,000",
    "lts__t_bytes.sum": "16,000",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "400",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "250",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "50",
    "launch__waves_per_multiprocessor": "3.5",
    "launch__occupancy_limit_registers": "4",
    "launch__occupancy_limit_shared_mem": "8",
    "launch__occupancy_limit_blocks": "32",
    "launch__occupancy_limit_warps": "4",
}
SECOND = FIRST | {
    "gpu__time_duration.sum": "3,000",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "60.00",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "n/a",
    "launch__waves_per_multiprocessor": "0.5",
}


def output(*launches: dict[str, str]) -> str:
    rows = [
        f'"{i}","77","python3.12","host","k","1","7","(256, 1, 1)","(8, 1, 1)","0","9.0",'
        f'"Command line profiler metrics","{name}","unit","{value}"'
        for i, launch in enumerate(launches)
        for name, value in launch.items()
    ]
    before = '==PROF== Connected to process 77 (python3.12)\n==PROF== Profiling "k": 0%....100% - 6 passes\n'
    return before + "\n".join([HEAD, *rows]) + "\n==PROF== Disconnected from process 77\n"


def test_all_that_is_asked_for_is_in_the_example() -> None:
    assert set(METRICS) == set(FIRST)


def test_launches_are_read_in_order_and_what_is_no_number_is_left_out() -> None:
    first, second = read(output(FIRST, SECOND))
    assert first["dram__bytes.sum"] == 12000.0 and first["gpu__time_duration.sum"] == 1000.0
    assert second["gpu__time_duration.sum"] == 3000.0
    assert "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed" not in second
    assert read("==PROF== nothing\n") == ()


def test_one_launch() -> None:
    got = combine(read(output(FIRST)))
    assert got == Counters(
        compute=0.2,
        memory=0.9,
        duration_s=pytest.approx(1e-6),
        occupancy=pytest.approx(0.505),
        dram_read=8000.0,
        dram_written=4000.0,
        l2_bytes=16000.0,
        conflict_free=pytest.approx(0.25),
        waves=3.5,
        limited_by=("registers", "threads"),
    )


def test_several_launches_are_one() -> None:
    second = SECOND | {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "10"}
    got = combine(read(output(FIRST, second)))
    assert got is not None
    assert got.compute == pytest.approx(0.5) and got.memory == pytest.approx(0.3)  # by time: 1 to 3
    assert got.dram_read == 16000.0 and got.duration_s == pytest.approx(4e-6)
    assert got.waves == 0.5  # of the longest


def test_a_gpu_that_counts_less() -> None:
    few = {n: v for n, v in FIRST.items() if "pct_of_peak_sustained_elapsed" in n or n == "dram__bytes.sum"}
    got = combine(read(output(few)))
    assert got == Counters(compute=0.2, memory=0.9, dram_read=12000.0, dram_written=0.0)
    assert combine([]) is None and combine([{"dram__bytes.sum": 1.0}]) is None


RUN = Run((ConcreteLaunch("k", (BufferArg("x"),), (1, 1, 1), (32, 1, 1)),), {"x": np.zeros(32, np.float32)})
DONE = "open(os.path.join(command[-1], 'ended.json'), 'w').write('{\"error\": null}')\n"


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    tool = script(folder, "ncu", text)
    monkeypatch.setattr(profiler, "find", lambda name: tool)


def test_counters_come_from_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = (
        "assert '--clock-control' in sys.argv and sys.argv[sys.argv.index('--clock-control') + 1] == 'none'\n"
    )
    fake(tmp_path, monkeypatch, f"{check}open(log, 'w').write({output(FIRST)!r})\n{DONE}")
    got = profile(b"\x7fELF", RUN)
    assert isinstance(got, Counters) and got.memory == 0.9


def test_users_who_may_not_read_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access the counters\n"
    fake(tmp_path, monkeypatch, f"open(log, 'w').write({said!r})\n{DONE}sys.exit(1)\n")
    got = profile(b"\x7fELF", RUN)
    assert isinstance(got, Unavailable) and got.kind == "not permitted" and got.lasting


def test_a_metric_that_a_gpu_lacks_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "==ERROR== Failed to find metric regex:^dram__bytes_read(\\\\.(sum|avg))?$\\n"
    text = (
        "metrics = sys.argv[sys.argv.index('--metrics') + 1].split(',')\n"
        f"lacks = 'dram__bytes_read.sum' in metrics\nassert lacks or 'dram__bytes.sum' in metrics\n"
        f"rest = {output({n: v for n, v in FIRST.items() if n != 'dram__bytes_read.sum'})!r}\n"
        f"open(log, 'w').write('{refused}' if lacks else rest)\n{DONE}sys.exit(lacks)\n"
    )
    fake(tmp_path, monkeypatch, text)
    got = profile(b"\x7fELF", RUN)
    assert isinstance(got, Counters) and (got.dram_read, got.dram_written) == (12000.0, 0.0)


def test_launches_that_fail_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = "open(os.path.join(command[-1], 'ended.json'), 'w').write('{\"error\": \"no memory\"}')\n"
    fake(tmp_path, monkeypatch, failed)
    got = profile(b"\x7fELF", RUN)
    assert isinstance(got, Unavailable) and "no memory" in got.message and not got.lasting


def test_no_kernel_was_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, f"open(log, 'w').write('==WARNING== No kernels were profiled.\\n')\n{DONE}")
    got = profile(b"\x7fELF", RUN)
    assert isinstance(got, Unavailable) and "No kernels were profiled" in got.message


def test_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "find", lambda name: None)
    got = profile(b"", RUN)
    assert isinstance(got, Unavailable) and got.kind == "not installed" and got.lasting
