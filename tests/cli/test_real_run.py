"""The commands on a real kernel, from the text to the estimated time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evolve.events.log import read_log
from evolve.events.schema import Body, Paused, Resumed

ROOT = Path(__file__).parents[2]
SEARCH = (
    "--kernel",
    str(ROOT / "kernels" / "gelu.cu"),
    "--device",
    "sim:h200-sxm",
    "--budget",
    "6",
    "--seed",
    "5",
)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "evolve", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    process = start(folder, *arguments, "--json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def story(folder: Path) -> list[Body]:
    bodies = [event.body for event in read_log(folder / "events.jsonl").events]
    return [body for body in bodies if not isinstance(body, Paused | Resumed)][1:]


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole = answer(tmp_path, "run", *SEARCH, "--out", "whole")
    assert whole["budget"] == {"limit": 6, "scored": 6}
    assert whole["device"] == {"kind": "sim", "profile": "h200-sxm", "timing": "estimated"}
    assert whole["best"]["fitness"] > whole["baseline"]["fitness"]
    assert "__global__" in whole["best"]["source"]
    process = start(tmp_path, "run", *SEARCH, "--out", "killed")
    log = tmp_path / "killed" / "events.jsonl"
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if log.exists() and log.read_bytes().count(b'"kind":"result"') >= 2:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(story(tmp_path / "killed")) < len(story(tmp_path / "whole"))
    resumed = answer(tmp_path, "resume", "killed")
    assert story(tmp_path / "killed") == story(tmp_path / "whole")
    assert resumed["best"] == whole["best"]
    assert answer(tmp_path, "replay", "killed")["agrees"] is True
    assert answer(tmp_path, "verify", "killed")["holds"] is True
