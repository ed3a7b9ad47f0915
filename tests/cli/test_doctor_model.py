"""`doctor --model` as a process: what it finds out of real servers on loopback, and what fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.llm.server import Say, serving
from tests.llm.test_probe import held

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-very-secret-0123456789"
CODE = """
from evolve.cli import doctor
doctor._PROBES = doctor._PROBES[:1]
from evolve.cli.main import main
import sys
sys.exit(main(["doctor", *sys.argv[1:]]))
"""


def doctor(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": KEY, **env}
    command = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_a_server_that_can_everything() -> None:
    pages = {
        "/props": Say(raw=b'{"default_generation_settings": {"n_ctx": 4096}}'),
        "/tokenize": Say(raw=json.dumps({"tokens": [0] * 3000}).encode()),
    }
    with serving(lambda n, request: Say("no"), hello=held("grammar", schema=True), pages=pages) as server:
        done = doctor("--model", "openai/x", "--api-base", server.base)
        assert set(server.keys) == {f"Bearer {KEY}"}
    assert done.returncode == 0, done.stderr
    lines = dict(line[8:].split(": ", 1) for line in done.stdout.splitlines())
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert lines["model key"] == "OPENAI_API_KEY is set"
    assert server.base in lines["model answers"] and lines["model answers"].endswith(" s")
    assert lines["model context"] == "4096 tokens (/props): prompts of the tier tiny, one statement at a time"
    assert "(/tokenize)" in lines["model tokens"]
    assert "field `grammar`" in lines["model grammar"] and "json_schema" in lines["model schema"]
    assert KEY not in done.stdout + done.stderr


def test_a_server_that_can_only_answer_is_enough() -> None:
    with serving(lambda n, request: Say("no")) as server:
        done = doctor("--model", "openai/x", "--api-base", server.base, "--json", "--context", "30000")
    assert done.returncode == 0, done.stderr
    told = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    said = "30000 tokens (--context): prompts of the tier medium, whole programs"
    assert told["model context"]["detail"] == said
    assert [
        (told[f"model {name}"]["ok"], told[f"model {name}"]["code"]) for name in ("grammar", "schema")
    ] == [
        (False, "no-grammar"),
        (False, "no-schema"),
    ]


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        (Say(f"Incorrect API key provided: {KEY}", status=401), "[key]"),
        (Say("no such model", status=404), "no such model"),
    ],
)
def test_what_does_not_work_fails_with_the_reason(hello: Say, said: str) -> None:
    with serving(lambda n, request: Say("no"), hello=hello) as server:
        done = doctor("--model", "openai/x", "--api-base", server.base)
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "model answers" in failed[0] and said in failed[0]
    skipped = [line for line in done.stdout.splitlines() if line.startswith("skipped")]
    assert len(failed) == 1 and ["not asked" in line for line in skipped] == [True] * 4
    assert len(server.keys) == 1, "what is wrong for good is asked once"
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (("--model", "openai/x"), {"OPENAI_API_KEY": ""}, "no-key"),
        (("--model", "nobody"), {}, "unknown-model"),
        (("--context", "5000"), {}, "usage"),
    ],
)
def test_what_cannot_be_asked_at_all(arguments: tuple[str, ...], env: dict[str, Any], code: str) -> None:
    done = doctor(*arguments, "--json", **env)
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["code"] == code


def test_a_server_that_answers_for_any_model_is_said_to_have_others() -> None:
    pages = {"/v1/models": Say(raw=b'{"data": [{"id": "real"}, {"id": "other"}]}')}
    with serving(lambda n, request: Say("no"), pages=pages) as server:
        said = {
            name: doctor("--model", f"openai/{name}", "--api-base", server.base) for name in ("real", "x")
        }
    assert "by another name: it lists real, other, and no x" in said["x"].stdout
    assert said["real"].returncode == 0 and "another name" not in said["real"].stdout
