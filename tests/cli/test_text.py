"""What reading a champion's text back came to is on record, and said where a proof is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evolve.dsl.program import Program
from evolve.events.log import read_log
from evolve.events.schema import Champion, Proposed, ReadBack, Result
from evolve.search import pool, workers
from evolve.search.problem import Compiled, TextFound
from tests.cli import test_commands
from tests.cli.test_commands import Call
from tests.search.fake import FakeProblem

call = test_commands.call


def read_backs(folder: Path) -> list[ReadBack]:
    return [e.body for e in read_log(folder / "events.jsonl").events if isinstance(e.body, ReadBack)]


def run(call: Call, *arguments: object) -> dict[str, Any]:
    status, out, _ = call(
        "run", "--kernel", "fake.cu", "--agent", "random", "--budget", "8", "--workers", "1",
        "--out", "here", "--json", *arguments,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(out)
    assert status == (1 if document["refuted"] or document["funnel"]["miscompiled"] else 0)
    return document


def led_by_the_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are scored whatever their text says: so it is in logs from before it was asked first."""
    for module in (workers, pool):
        monkeypatch.setattr(module, "read_first", lambda problem, compiled, then: then(compiled))


def test_each_champion_is_read_back_once(call: Call) -> None:
    document = run(call)
    found = read_backs(Path("here"))
    assert document["best"]["text"] == {"status": "PROVED", "reason": "", "line": 0}
    story = json.loads(call("show", "here", "--json")[1])
    assert [b.candidate for b in found] == [c["candidate"] for c in story["champions"]]
    assert call("resume", "here", "--workers", "1", "--json")[0] == 0
    assert call("replay", "here", "--json")[0] == 0
    assert read_backs(Path("here")) == found
    assert "text: proved" in call("report", "here")[1]
    assert "text: proved" in call("verify", "here")[1]


def test_what_a_proof_rests_on_is_said_where_it_is(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FakeProblem.compile

    def resting(problem: FakeProblem, program: Program) -> Compiled:
        return replace(plain(problem, program), premises=("the input is as it should be",))

    monkeypatch.setattr(FakeProblem, "compile", resting)
    run(call)
    for command in ("report", "verify"):
        assert "resting on: the input is as it should be" in call(command, "here")[1]
    assert json.loads(call("verify", "here", "--json")[1])["premises"] == ["the input is as it should be"]


@pytest.mark.parametrize(
    ("found", "said", "status"),
    [
        (TextFound("UNKNOWN", "another loop", 7), "not read back: line 7: another loop", 0),
        (TextFound("REFUTED", "a barrier is missing", 9), "REFUTED: line 9: a barrier is missing", 1),
    ],
)
def test_what_is_not_proved_is_said(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: TextFound, said: str, status: int
) -> None:
    led_by_the_refuted(monkeypatch)
    monkeypatch.setattr(FakeProblem, "read_back", lambda self, compiled: found)
    document = run(call)
    of = document["best"] if found.status == "UNKNOWN" else document["refuted"]
    assert of["text"]["status"] == found.status
    (tmp_path / "p.dsl").write_text("set(tile, 13)\n")
    for command in (("verify", "here"), ("check", "--kernel", "fake.cu", "--program", "p.dsl")):
        ended, out, _ = call(*command)
        assert ended == status
        assert f"text: {said}" in out
    told = call("report", "here")[1]
    if found.status == "REFUTED":
        assert f"text: {said}" in told
        return
    file = Path("here/best.cu").read_text()
    assert file.endswith(of["source"])
    line = file.removesuffix(of["source"]).count("\n") + found.line
    assert of["text"]["line"] == line > found.line
    assert f"text: not read back: line {line} of best.cu: another loop" in told
    assert f"is not read back (line {line} of best.cu: another loop)" in " ".join(told.split())
    assert f"//     line {line}: another loop\n" in file


def test_a_champion_whose_text_is_refuted_is_not_shipped(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """What led before it is, whatever leads on and whichever process ends the run."""
    led_by_the_refuted(monkeypatch)
    honest = run(call, "--seed", "1")
    story = json.loads(call("show", "here", "--json")[1])
    *_, before, last = [c["candidate"] for c in story["champions"]]
    wrong = honest["best"]["program"]
    assert honest["best"]["candidate"] == last
    assert honest["refuted"] is None

    def read_back(self: FakeProblem, compiled: Any) -> TextFound:
        refuted = compiled.payload.settings == self.parse(wrong).settings
        return TextFound("REFUTED", "a barrier is missing", 9) if refuted else TextFound("PROVED")

    monkeypatch.setattr(FakeProblem, "read_back", read_back)
    Path("here").rename("honest")
    document = run(call, "--seed", "1")
    assert document["refuted"]["candidate"] == last
    assert document["refuted"]["program"] == wrong
    assert document["best"]["candidate"] == before
    assert document["best"]["text"]["status"] == "PROVED"
    text = Path("here/best.cu").read_text()
    assert text.endswith(document["best"]["source"])
    assert f"Candidate {last} takes" in text and "is not used" in text
    assert Path("here/best.dsl").read_text() == document["best"]["program"] != wrong
    assert f"NOT SHIPPED: candidate {last}" in call("report", "here")[1]
    assert call("verify", "here")[0] == 0
    Path("here/best.cu").unlink()
    assert call("resume", "here", "--workers", "1", "--json")[0] == 1


def test_where_every_text_is_refuted_the_kernel_as_given_is_shipped(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    led_by_the_refuted(monkeypatch)
    monkeypatch.setattr(FakeProblem, "read_back", lambda self, compiled: TextFound("REFUTED", "wrong", 1))
    document = run(call)
    assert (document["best"]["candidate"], document["best"]["program"]) == (0, "")
    assert document["refuted"]["candidate"] > 0
    assert Path("here/best.cu").read_text().endswith(Path("fake.cu").read_text())
    assert Path("here/best.dsl").read_text() == ""


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_refuted_is_an_error_of_the_tool(
    call: Call, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It never leads and is no parent; the run goes on and ends with status 1."""
    honest = run(call, "--seed", "1", "--workers", number)
    wrong = honest["best"]["program"]

    def read_back(self: FakeProblem, compiled: Any) -> TextFound:
        refuted = compiled.payload.settings == self.parse(wrong).settings
        return TextFound("REFUTED", "a barrier is missing", 9) if refuted else TextFound("PROVED")

    monkeypatch.setattr(FakeProblem, "read_back", read_back)
    Path("here").rename("honest")
    status, out, err = call(
        "run", "--kernel", "fake.cu", "--agent", "random", "--budget", "8", "--workers", str(number),
        "--out", "here", "--seed", "1",
    )  # fmt: skip
    assert status == 1
    told = "miscompiled: an error of evolve: its text does something else than what was proved: line 9"
    assert told in err and "ERROR OF EVOLVE: 1 program was" in out
    bodies = [e.body for e in read_log(Path("here/events.jsonl")).events]
    (bad,) = (b.proposal for b in bodies if isinstance(b, Result) and b.status == "miscompiled")
    assert bad == honest["best"]["candidate"]
    assert bad not in [b.proposal for b in bodies if isinstance(b, Champion)]
    assert all(bad not in b.parents for b in bodies if isinstance(b, Proposed))
    assert "a barrier is missing" in " ".join(call("show", "here")[1].split())
    assert "ERROR OF EVOLVE: 1 program was" in call("report", "here")[1]
    assert call("replay", "here", "--json")[0] == 0
    assert call("resume", "here", "--workers", "1", "--json")[0] == 1


def test_a_program_whose_text_is_refuted_is_not_executed_by_score(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "p.dsl").write_text("set(tile, 16)\n")
    arguments = ("score", "--kernel", "fake.cu", "--program", tmp_path / "p.dsl", "--json")
    assert json.loads(call(*arguments)[1])["status"] == "scored"
    found = TextFound("REFUTED", "a barrier is missing", 9)
    monkeypatch.setattr(FakeProblem, "read_back", lambda self, compiled: found)
    status, out, _ = call(*arguments)
    document = json.loads(out)
    assert status == 1 and document["status"] == "miscompiled" and document["time_us"] is None
    assert "line 9: a barrier is missing" in document["message"]
