"""Another program runs without a shell, ends in time with its children, and is heard line by line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evolve.toolchain.commands import MOST_KEPT, Finished, run_command


def python(code: str, **how: Any) -> Finished:
    how = {"env": dict(os.environ), "limit_s": 60.0, **how}
    return run_command([sys.executable, "-c", code], **how)


def test_both_streams_and_the_status_come_back(tmp_path: Path) -> None:
    heard: list[str] = []
    code = "import os, sys; print(os.getcwd()); sys.stderr.write('two\\nthree'); sys.exit(3)"
    done = python(code, cwd=tmp_path, on_line=heard.append)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (3, sorted([str(tmp_path), "two", "three"]))
    assert "\n".join(heard) == done.stdout.rstrip("\n")


def test_it_sees_the_variables_it_is_given_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "yes")
    done = python("import os; print('A_SECRET' in os.environ, os.environ['X'])", env={"X": "$(id)"})
    assert done.stdout == "False $(id)\n"


def test_a_program_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = (
        "import subprocess, sys, time, pathlib\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(p.pid))\n"
        "time.sleep(100)\n"
    )
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        python(code, limit_s=3.0)
    assert time.monotonic() - started < 50
    assert _gone(int(child.read_text()))


def test_what_is_raised_meanwhile_ends_it() -> None:
    pids = []

    def heard(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        python("import os, time; print(os.getpid(), flush=True); time.sleep(100)", on_line=heard)
    assert _gone(pids[0])


def test_endless_output_is_bounded() -> None:
    done = python(f"import sys; sys.stdout.write('x' * {3 * MOST_KEPT})")
    assert done.returncode == 0
    assert MOST_KEPT <= len(done.stdout) < MOST_KEPT + (1 << 17)


def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        run_command(["/no-such-program"], env={}, limit_s=1.0)


def _gone(pid: int) -> bool:
    # A killed orphan may stay a zombie where nothing reaps it.
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False
