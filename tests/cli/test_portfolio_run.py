"""Runs of several agents, and of a person, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from evolve.events.log import read_log
from evolve.events.schema import Asked, Opened, Result
from tests.cli.helpers import kernel_file
from tests.cli.test_llm_run import FAKE, ROOT, block, evolve
from tests.llm.server import Say, serving

FEW = ("--budget", "16", "--out", "out", "--json")


def run(cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    return evolve(cwd, "run", "--kernel", str(kernel_file(cwd)), *more, *FEW, **env)


def models(*bases: str) -> list[str]:
    named = [("--model", f"openai/m{n}", "--api-base", base) for n, base in enumerate(bases)]
    return [word for words in named for word in words]


def test_two_slow_requests_overlap_and_candidates_are_scored_meanwhile(tmp_path: Path) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def slow(number: int, request: dict[str, Any]) -> Say:
        # In this handler's thread; the server's own wait comes after.
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            threading.Timer(0.8, leave).start()
        return Say(block(f"set(width, {number})"), wait_s=0.8)

    def leave() -> None:
        nonlocal at_once
        at_once -= 1

    with serving(slow) as one, serving(slow) as two:
        done = run(tmp_path, "--agent", "llm+random", *models(one.base, two.base))
        assert done.returncode == 0, done.stderr
        asked = {request["model"] for server in (one, two) for request in server.requests}
    assert most >= 2 and asked == {"m0", "m1"}
    events = read_log(tmp_path / "out" / "events.jsonl").events
    open_, overlap, meanwhile = set[int](), 0, 0
    for event in events:
        body = event.body
        if isinstance(body, Opened):
            open_.add(body.ask)
        elif isinstance(body, Asked):
            open_.discard(body.ask)
        overlap = max(overlap, len(open_))
        meanwhile += bool(open_) and isinstance(body, Result) and body.status == "scored"
    assert overlap >= 2 and meanwhile >= 2
    document = json.loads(done.stdout)
    arms = {arm["arm"]: arm for arm in document["arms"]}
    assert set(arms) == {"openai/m0", "openai/m1", "random", "mutation and crossover"}
    assert all(arms[name]["asks"] >= 1 for name in ("openai/m0", "openai/m1", "random"))
    assert sum(arm["programs"] for arm in arms.values()) == document["funnel"]["proposed"]
    assert abs(sum(arm["share"] for arm in arms.values()) - 1) < 1e-9
    assert arms["openai/m0"]["tokens"] > 0 and arms["openai/m0"]["cost"] > 1
    gained = sum(arm["gain"] for arm in arms.values())
    assert abs(gained - (document["best"]["fitness"] - document["baseline"]["fitness"])) < 1e-9
    for command in ("show", "report"):
        shown = evolve(tmp_path, command, "out").stdout
        assert "who proposed:" in shown and "openai/m1: " in shown and "an ask costs as much as " in shown
    assert json.loads(evolve(tmp_path, "replay", "out", "--json").stdout)["agrees"]


def test_killed_with_requests_in_flight_it_goes_on(tmp_path: Path) -> None:
    def slow(number: int, request: dict[str, Any]) -> Say:
        return Say(block(f"set(width, {number})"), wait_s=0.4)

    with serving(slow) as one, serving(slow) as two:
        words = ["run", "--kernel", str(kernel_file(tmp_path)), "--agent", "llm+random", *FEW]
        process = subprocess.Popen(
            [sys.executable, "-c", FAKE, *words, *models(one.base, two.base)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-none-needed"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        log = tmp_path / "out" / "events.jsonl"
        until = time.monotonic() + 60
        while time.monotonic() < until and not (log.exists() and log.read_text().count('"opened"') >= 2):
            time.sleep(0.02)
        process.kill()
        process.wait()
        before = log.read_bytes()
        resumed = evolve(tmp_path, "resume", "out", "--json")
        assert resumed.returncode == 0, resumed.stderr
        assert json.loads(resumed.stdout)["budget"]["scored"] == 16
    assert log.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    assert json.loads(evolve(tmp_path, "replay", "out", "--json").stdout)["agrees"]


def test_a_model_that_is_down_costs_the_others_nothing(tmp_path: Path) -> None:
    def fresh(number: int, request: dict[str, Any]) -> Say:
        return Say(block(f"set(width, {number})"))

    with serving(fresh) as up:
        done = run(tmp_path, "--agent", "llm", *models(up.base, "http://127.0.0.1:9/v1"))
    assert done.returncode == 0, done.stderr
    assert "goes on without" in done.stderr and "openai/m1" in done.stderr
    down = next(arm for arm in json.loads(done.stdout)["arms"] if arm["arm"] == "openai/m1")
    # Requests to it may still be tried again when the run ends.
    assert down["asks"] > 0 and down["programs"] == 0
    assert json.loads(evolve(tmp_path, "replay", "out", "--json").stdout)["agrees"]


def test_calls_that_are_wrong(tmp_path: Path) -> None:
    base = "http://127.0.0.1:9/v1"
    two = ("--model", "openai/a", "--model", "openai/b", "--api-base", base)
    calls = {
        ("--agent", "llm+nobody"): "unknown-agent",
        ("--agent", "llm", *two, "--api-base", base, "--api-base", base): "usage",
        ("--agent", "llm", *two[:2], *two[2:4], "--api-base", "-"): "no-key",
    }
    for call, code in calls.items():
        done = evolve(
            tmp_path, "run", "--kernel", str(kernel_file(tmp_path)), *call, "--json", OPENAI_API_KEY=""
        )
        assert json.loads(done.stdout)["error"]["code"] == code, (call, done.stdout)
    assert not (tmp_path / "runs").exists()


def typed(cwd: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FAKE, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_person_proposes_and_ends_the_run(tmp_path: Path) -> None:
    text = (
        "set(tile, 7)\n\n"
        "what now?\n\n"
        "set(tile, 64)\n\n"
        "Hypothesis: wide\nExpected: 2x faster\n```\nset(tile, 64)\n\nset(width, 4)\n```\n"
    )
    words = ("run", "--kernel", str(kernel_file(tmp_path)), "--agent", "human", *FEW)
    done = typed(tmp_path, text, *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["stopped"], document["funnel"]["scored"], document["funnel"]["proposed"]) == (
        "ended",
        2,
        2,
    )
    assert document["best"]["program"].split() == ["set(tile,", "64)", "set(width,", "4)"]
    said = done.stderr
    assert "## The kernel" in said and said.count("You make a CUDA kernel faster") == 1
    assert "E-RACE: a race; repair: tile 8" in said and "No program could be read" in said
    assert "candidate 1: scored" in said and document["models"] == []
    assert json.loads(evolve(tmp_path, "replay", "out", "--json").stdout)["agrees"]
    told = json.loads(evolve(tmp_path, "show", "out", "--prompts", "--json").stdout)["exchanges"]
    assert [(one["step"], one["model"]) for one in told] == [
        (0, "human"),
        (1, "human"),
        (2, "human"),
        (0, "human"),
    ]


def test_a_person_who_says_nothing(tmp_path: Path) -> None:
    words = ("run", "--kernel", str(kernel_file(tmp_path)), "--agent", "human", *FEW)
    done = typed(tmp_path, "", *words)
    assert (done.returncode, json.loads(done.stdout)["stopped"]) == (1, "ended")
