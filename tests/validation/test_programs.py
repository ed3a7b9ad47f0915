"""Every program of the repository: its text is read back and proved."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evolve.codegen.rendered import ORIGINAL
from evolve.codegen.wrap import WIDTH
from evolve.ir.poly import IslLimitError
from evolve.validation import context
from evolve.validation.launching import validate_launcher
from evolve.validation.validate import validate
from evolve.validation.verdict import TextStatus
from tests.validation.suite import launcher, made, of, programs


def test_every_program_is_proved() -> None:
    verdicts = {name: made(name).read_back() for name in programs()}
    assert {n: str(v) for n, v in verdicts.items() if not v.proved} == {}
    assert len(verdicts) >= 153


def test_what_launches_every_program_is_proved() -> None:
    verdicts = {}
    for name in programs():
        it = made(name)
        verdicts[name] = validate_launcher(it.module, it.rendered, f"{it.rendered.text}\n{launcher(it)}")
    assert {n: str(v) for n, v in verdicts.items() if not v.proved} == {}


def test_a_module_without_variants_is_not_proved() -> None:
    it = made(next(iter(programs())))
    verdict = validate(replace(it.module, variants=()), replace(it.rendered, variants=()))
    assert verdict.status is TextStatus.UNKNOWN


def test_by_statement_differs_in_white_space_alone() -> None:
    for name in programs():
        rendered = made(name).rendered
        both = [rendered.text, rendered.by_statement]
        text, gathered = ([re.sub(r"//.*", "", x) for x in t.splitlines()] for t in both)
        assert " ".join(text).split() == " ".join(gathered).split(), name
        assert len(text) == len(gathered), name
        directives = [
            [x for x in t if x.lstrip().startswith("#") or x.endswith("\\")] for t in (text, gathered)
        ]
        assert directives[0] == directives[1], name


def test_no_line_is_long_but_the_users_own() -> None:
    for name in programs():
        lines = made(name).rendered.text.split(ORIGINAL)[0].splitlines()
        assert all(len(x) <= WIDTH for x in lines if not x.startswith("#") and not x.endswith("\\")), name


def test_requests_ahead_are_of_the_elements_that_were_proved() -> None:
    asked = (
        "specialize(cols == 100)\nasked = prefetch(in, at=r, ahead=2, bytes=64)\nbind(asked.1, thread.x)\n"
    )
    program = of("row_sum", f"{asked}bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)")
    text = program.rendered.text
    assert program.read_back().proved
    (line,) = (x for x in text.splitlines() if "prefetch_l2(&" in x)
    assert program.read_back(text.replace(line, "")).proved  # nothing is lost but time
    assert not program.read_back(text.replace(line, line.replace("* 100", "* 101"))).proved
    assert not program.read_back(text.replace("prefetch.global.L2", "prefetch.global.L1")).proved


@pytest.mark.parametrize("peeled", ["first=4097", "last=5000", "first=4000, last=200"])
def test_a_loop_that_never_runs_does_nothing(peeled: str) -> None:
    program = of("row_sum", f"specialize(cols == 4096)\nbind(r, grid.x)\npeel(c, {peeled})")
    verdict = program.read_back()
    assert verdict.proved, str(verdict)


def test_a_question_that_is_too_hard_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_hard(text: str, operations: int) -> bool:
        raise IslLimitError

    program = made("template stencil 2")
    assert program.read_back().proved
    monkeypatch.setattr(context, "_is_empty", too_hard)
    verdict = program.read_back()
    assert verdict.status is TextStatus.UNKNOWN and "too hard" in verdict.reason
