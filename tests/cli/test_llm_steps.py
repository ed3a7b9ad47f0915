"""`evolve run --agent llm` with a small context: programs made statement by statement, through HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evolve.events.log import read_log
from evolve.events.schema import Asked, Exchanged
from evolve.ir.errors import EvolveError
from evolve.runs.folder import RunFolder
from evolve.runs.session import replay
from tests.llm.server import Say, Scripted, serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"/props": Say(raw=b'{"default_generation_settings": {"n_ctx": 4096}}')}


def obeying(number: int, request: dict[str, Any]) -> Say:
    """What the grammar allows, drawn by the request's seed."""
    allowed = [json.loads(text) for text in re.findall(r'"[^"]*"', request.get("grammar", '"?"'))]
    return Say(Random(request.get("seed", 0)).choice(allowed))


def evolve(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evolve", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def run(cwd: Path, server: Scripted) -> None:
    asked = f"--agent llm --model openai/scripted --api-base {server.base} --search best-of-n --budget 1"
    more = f"--kernel {ROOT / 'kernels' / 'vecadd.cu'} --device sim:h200-sxm --workers 1 --seed 3 --out out"
    done = evolve(cwd, "run", *asked.split(), *more.split())
    assert done.returncode == 0, done.stderr


def bodies(folder: RunFolder, kind: type[Any]) -> list[Any]:
    return [event.body for event in read_log(folder.log).events if isinstance(event.body, kind)]


def test_a_run_is_made_again_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "out", "out")
    with serving(obeying, hello=lambda request: obeying(0, request), pages=PAGES) as server:
        run(tmp_path, server)
        said, programs = bodies(folder, Exchanged), [a.ideas[0].program for a in bodies(folder, Asked)]
        assert {(one.held, one.fault) for one in said} == {("grammar", "")}
        sent = [one["seed"] for one in server.requests if "Program so far" in one["messages"][-1]["content"]]
        assert sorted(one.seed for one in said) == sorted(sent)
        assert programs and replay(folder).scored == 1

        lines = folder.log.read_bytes().splitlines(keepends=True)
        third = [n for n, line in enumerate(lines) if b'"exchanged"' in line][2]
        folder.log.write_bytes(b"".join(lines[: third + 1]))
        before = len(bodies(folder, Exchanged))
        assert evolve(tmp_path, "resume", "out").returncode == 0
    again = [a.ideas[0].program for a in bodies(folder, Asked)]
    assert before == 3 and again[0] in programs and replay(folder).scored == 1
    seeds = [one.seed for one in bodies(folder, Exchanged)]
    assert len({*seeds}) == len(seeds), "nothing is asked twice"

    monkeypatch.setattr("evolve.runs.conversation.read_step", lambda text: "cache_hint(c, streaming)")
    with pytest.raises(EvolveError) as caught:
        replay(folder)
    assert caught.value.code == "diverged", "statements that no answer picks"
