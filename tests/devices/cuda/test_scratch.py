"""Nothing large stays behind, whoever is killed, and nobody's folder is removed while he lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evolve.devices.cuda.scratch import PREFIX, Scratch, sweep

HOLD = """
import sys
from evolve.devices.cuda.scratch import Scratch
one = Scratch()
(one.path / "large.npy").write_bytes(bytes(1 << 20))
print(one.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def hold(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder, until it is killed or its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(temporary: Path) -> None:
    killed, left = hold(temporary)
    living, used = hold(temporary)
    try:
        assert left.parent == used.parent == temporary
        sweep()
        assert (left / "large.npy").is_file() and (used / "large.npy").is_file()
        killed.kill()
        killed.wait()
        assert left.is_dir()
        one = Scratch()
        assert not left.exists() and (used / "large.npy").is_file() and one.path.is_dir()
        one.close()
        assert not one.path.exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


def test_a_process_that_ends_leaves_nothing(temporary: Path) -> None:
    process, folder = hold(temporary)
    process.communicate()
    assert process.returncode == 0 and not folder.exists()


def test_a_worker_can_read_the_files_again(temporary: Path) -> None:
    one = Scratch()
    np.save(one.path / "x.npy", np.arange(5))
    sweep()
    assert np.array_equal(np.load(one.path / "x.npy", mmap_mode="r"), np.arange(5))
    one.close()


def test_what_is_no_such_folder_is_left_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "held").touch()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").touch()
    (temporary / f"{PREFIX}unmarked").mkdir()
    followed = temporary / f"{PREFIX}followed"
    followed.mkdir()
    (followed / "held").symlink_to(elsewhere / "held")
    before = sorted(temporary.iterdir())
    sweep()
    assert sorted(temporary.iterdir()) == before and (elsewhere / "held").is_file()
