"""The head of best.cu is a comment and nothing else."""

from pathlib import Path

import pytest

from evolve.agents.base import Parent
from evolve.events.schema import DeviceInfo, ReadBack, RunStarted, Settings, SolInfo
from evolve.runs.best import heading, write_best
from evolve.runs.folder import RunFolder
from evolve.toolchain.nvrtc import compile_cuda

STARTED = RunStarted(
    tool_version="1.2",
    run="r",
    kernel_file="/somewhere/k.cu",
    entry="k",
    source="",
    workload="",
    workload_summary={"sizes": {"n": 64, "m": 8}},
    numerics="fast",
    device_request="auto",
    device=DeviceInfo(kind="sim", profile="h200-sxm", timing="estimated"),
    sol=SolInfo(time_us=1.0, hard_time_us=1.0, bound="dram"),
    assumptions=("arrays do not overlap",),
    settings=Settings(budget=1),
)
BEST = Parent(3, "split(i, 64)\nbind(i.o, grid.x)\n", 0.5, 2.0)


def test_it_says_what_where_and_how() -> None:
    assert heading(STARTED, BEST, Parent(0, "", 0.1, 10.0)).splitlines() == [
        "// k of k.cu, rewritten by evolve 1.2",
        "// with a program proved to compute what the original computes (numerics: fast).",
        "// The text of its kernels was executed under checks, and not read back: it is not proved.",
        "// 2.0 us, estimated on h200-sxm at n = 64, m = 8;",
        "// 5.00 times as fast as the original there, 0.500 of the speed of light.",
        "// Call launch_k, the last function here, with the original's arguments and a stream.",
        "// The comment over each kernel says for which sizes and addresses it is; for others the original,",
        "// which is here too, is launched. Include this file in one .cu file, compiled with -arch=sm_90 and",
        "// no other flag.",
        "// Assumed: arrays do not overlap.",
        "// Made by this program:",
        "//     split(i, 64)",
        "//     bind(i.o, grid.x)",
        "",
    ]


def test_it_says_whether_the_text_is_proved_and_names_lines_of_the_file() -> None:
    given = Parent(0, "", 0.1, 10.0)
    proved = heading(STARTED, BEST, given, None, ReadBack(candidate=3, status="PROVED"))
    assert "// The text of its kernels, read back, is proved to do what was proved" in proved
    unread = ReadBack(candidate=3, status="UNKNOWN", reason="i may not fit", line=2)
    told = heading(STARTED, BEST, given, None, unread)
    file = (told + "first\nsecond\nthird\n").splitlines()
    assert "// The text of its kernels was executed under checks, and is not proved. Not read back:" in file
    (said,) = (line for line in file if "i may not fit" in line)
    number = int(said.removeprefix("//     line ").partition(":")[0])
    assert file[number - 1] == "second"
    assert "proved to do" not in told


def test_a_time_of_several_launches_is_called_a_sum() -> None:
    timed = [{"n": 64, "flag": 1, "alpha": 0.5}, {"n": 64, "flag": 0, "alpha": 0.5}]
    told = heading(
        STARTED.model_copy(update={"workload_summary": {"timed": timed}}), BEST, Parent(0, "", 0.1, 10.0)
    )
    said = "estimated on h200-sxm, sum of 2 launches: n = 64, flag = 1; n = 64, flag = 0;\n"
    assert said in told


def test_what_exact_means_is_said() -> None:
    told = heading(STARTED.model_copy(update={"numerics": "exact"}), BEST, Parent(0, "", 0.1, 10.0))
    assert "(numerics: exact)" in told and "compiled with --fmad=false" in told


@pytest.mark.parametrize("time_us", [2.0, 2.009, 1.9])
def test_what_gains_nothing_is_not_shipped(tmp_path: Path, time_us: float) -> None:
    folder = RunFolder(tmp_path, "r")
    given = Parent(0, "", 0.1, time_us)
    write_best(folder, STARTED, BEST, given, "theirs\n", "given\n")
    text = (folder.path / "best.cu").read_text()
    assert text.splitlines() == [
        "// k of k.cu, as given: evolve 1.2 found no gain.",
        f"// {time_us:.1f} us, estimated on h200-sxm at n = 64, m = 8; 0.100 of the speed of light.",
        "// The best program found takes 2.0 us, which is no faster.",
        "// Assumed: arrays do not overlap.",
        "",
        "given",
    ]
    assert (folder.path / "best.dsl").read_text() == ""
    write_best(folder, STARTED, given, given, "given\n", "given\n")
    assert "takes" not in (folder.path / "best.cu").read_text()
    write_best(folder, STARTED, BEST, Parent(0, "", 0.1, 2.02), "theirs\n", "given\n")
    assert (folder.path / "best.cu").read_text().endswith("theirs\n")
    assert (folder.path / "best.dsl").read_text() == BEST.program


@pytest.mark.parametrize("name", ["a\nint bad;.cu", "a.cu\\", "a.cu??/", "a\u2028int bad;", "*/ int bad; /*"])
def test_a_file_name_stays_in_its_comment(name: str) -> None:
    told = heading(STARTED.model_copy(update={"kernel_file": name, "tool_version": name}), BEST, BEST)
    assert all(line.startswith("// ") for line in told.splitlines() if line)
    done = compile_cuda(told + 'extern "C" __global__ void k(float* x) { x[0] = 1; }\n', "sm_90")
    assert done.ok, done.log
