"""What compute-sanitizer writes, read. The logs are made up in the format of its documentation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda import sanitizer
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.sanitizer import Sanitized, read, sanitize
from tests.devices.cuda.test_alone import script

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at over_end+0x1b0 in kernel.cu:12
=========     by thread (5,0,0) in block (3,1,0)
=========     Address 0x7f0000000400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0000000000 of size 1,024 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at over_end+0x1b0 in kernel.cu:12
=========     by thread (6,0,0) in block (3,1,0)
=========     Address 0x7f0000000404 is out of bounds
=========
========= Invalid __shared__ read of size 16 bytes
=========     at copy(float const *, float *)+0x20 in kernel.cu:7
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x82 is misaligned
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "x" on CUDA API call to cuCtxSynchronize.
=========
========= ERROR SUMMARY: 257 errors
========= ERROR SUMMARY: 157 errors were not printed. Use --print-limit option to adjust the number
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at racy+0x90 in kernel.cu:13
=========     and Read access at racy+0xa0 in kernel.cu:14 [2048 hazards]
=========
========= Info: Race reported between Write access at racy+0xb0 in kernel.cu:20
=========     and Write access at racy+0xb0 in kernel.cu:20 [8 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
OLDER = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0x100 in /somewhere/kernel.cu:30:unset(float *)
=========     by thread (98,0,0) in block (194,0,0)
=========     Address 0x7fbbca800000
=========
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at diverges+0x60
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
OVERFLOW = "========= Warning: Error buffer overflow has been detected. Some records have been dropped\n"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_accesses_out_of_bounds() -> None:
    (first, second), errors = read("memcheck", MEMCHECK)
    assert errors == 257
    assert (first.kind, first.kernel, first.offset, first.line, first.count) == (
        "Invalid __global__ write of size 4 bytes",
        "over_end",
        0x1B0,
        12,
        2,
    )
    assert (first.thread, first.block) == ((5, 0, 0), (3, 1, 0))
    assert (second.kernel, second.line) == ("copy", 7)
    assert first.text() == (
        "memcheck: Invalid __global__ write of size 4 bytes in over_end, line 12, "
        "by thread (5, 0, 0) of block (3, 1, 0)"
    )


def test_races_name_both_accesses_and_information_is_no_finding() -> None:
    (race,), errors = read("racecheck", RACECHECK)
    assert errors == 1 and (race.kernel, race.line, race.thread) == ("racy", 13, None)
    assert race.text() == (
        "racecheck: Error: Race reported between Write access in line 13 and Read access in line 14 in racy"
    )


def test_the_older_spelling_of_places() -> None:
    (one,), errors = read("initcheck", OLDER)
    assert errors == 1 and (one.kernel, one.offset, one.line) == ("unset", 0x100, 30)


def test_details_need_not_be_indented() -> None:
    for log in (MEMCHECK, RACECHECK, OLDER, SYNCCHECK):
        flat = "\n".join(" ".join(line.split()) for line in log.splitlines())
        assert read("memcheck", flat) == read("memcheck", log)


def test_barriers_without_line_information() -> None:
    (one,), _ = read("synccheck", SYNCCHECK)
    assert (one.kernel, one.line, one.thread) == ("diverges", None, (32, 0, 0))
    assert one.kind == "Barrier error detected. Divergent thread(s) in block"


def test_a_full_buffer_is_no_finding_and_hides_none() -> None:
    """With it the tool ends a list of real findings, of which it prints and keeps only so many."""
    one = SYNCCHECK.split("=========\n")[0].split("\n", 1)[1]
    for said in (OVERFLOW, f"{OVERFLOW}=========     at somewhere\n"):
        log = (
            f"========= COMPUTE-SANITIZER\n{one * 100}{said}=========\n========= ERROR SUMMARY: 1056 errors\n"
        )
        (found,), errors = read("synccheck", log)
        assert (found.count, found.kernel, errors) == (100, "diverges", 1056)
    (alone,), _ = read("synccheck", f"{OVERFLOW}========= ERROR SUMMARY: 5 errors\n")
    assert "5 errors" in alone.kind
    assert read("synccheck", f"{OVERFLOW}========= ERROR SUMMARY: 0 errors\n") == ((), 0)
    assert read("synccheck", OVERFLOW) == ((), None)


def test_nothing_found() -> None:
    assert read("memcheck", CLEAN) == ((), 0)
    assert read("racecheck", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n") == (
        (),
        0,
    )


def test_errors_that_are_not_described_are_errors() -> None:
    (one,), errors = read("memcheck", "========= ERROR SUMMARY: 3 errors\n")
    assert errors == 3 and "3 errors" in one.kind


def test_a_log_that_was_cut_off_is_not_clean() -> None:
    """What has been said about the code counts, complaints about the tool do not."""
    found, errors = read("memcheck", MEMCHECK.split("========= Program")[0])
    assert errors is None and len(found) == 2
    assert read("memcheck", "========= Error: No attachable process found.\n") == ((), None)


RUN = Run((ConcreteLaunch("k", (BufferArg("x"),), (1, 1, 1), (32, 1, 1)),), {"x": np.zeros(32, np.float32)})
DONE = "open(os.path.join(command[-1], 'ended.json'), 'w').write('{\"error\": null}')\n"


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, logs: dict[str, str], after: str = DONE) -> None:
    text = f"logs = {logs!r}\nopen(log, 'w').write(logs.get(sys.argv[2], {CLEAN!r}))\n{after}"
    tool = script(folder, "compute-sanitizer", text)
    monkeypatch.setattr(sanitizer, "find", lambda name: tool)


def test_every_tool_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, {})
    assert sanitize(b"\x7fELF", [RUN]) == Sanitized(True) and sanitize(b"\x7fELF", [RUN]).state == "clean"
    fake(tmp_path, monkeypatch, {"racecheck": RACECHECK, "synccheck": SYNCCHECK})
    got = sanitize(b"\x7fELF", [RUN])
    assert got.state == "found" and [f.tool for f in got.findings] == ["racecheck", "synccheck"]
    assert not got.unjudged


def test_a_launch_that_fails_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = "open(os.path.join(command[-1], 'ended.json'), 'w').write('{\"error\": \"refused\"}')\n"
    fake(tmp_path, monkeypatch, {}, failed)
    got = sanitize(b"\x7fELF", [RUN], tools=("memcheck",))
    assert got.state == "not judged" and got.unjudged == {"memcheck": "refused"}


def test_a_tool_that_breaks_down_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "========= Internal Sanitizer Error: the driver is too new\n"
    fake(tmp_path, monkeypatch, {"initcheck": broken})
    got = sanitize(b"\x7fELF", [RUN])
    assert got.state == "not judged" and list(got.unjudged) == ["initcheck"]
    assert "too new" in got.unjudged["initcheck"]


def test_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer, "find", lambda name: None)
    assert sanitize(b"", []).state == "not installed"
