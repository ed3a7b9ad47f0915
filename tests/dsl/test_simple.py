"""What is read without the grammar's parser is what that reads."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from evolve.dsl import parser
from evolve.dsl.parser import parse
from evolve.dsl.program import Program
from evolve.dsl.simple import read_line
from evolve.ir.errors import EvolveError

PROGRAMS = sorted((Path(__file__).parents[2] / "kernels" / "programs").rglob("*.dsl"))
PIECES = (
    *("a", "b.o", "c.1.i", "and", "x.and", "_1", "64", "007", "8x", "1.5", "[", "]", "[a]", "[1, 2]", "[ ]"),
    *(
        "(",
        ")",
        ",",
        " ",
        "\t",
        "=",
        "==",
        "+",
        "?[1, 2]",
        "#",
        "# c (",
        "\n",
        "\r\n",
        "\f",
        "at=",
        "é",
        "split",
    ),
)


def by_grammar(text: str, monkeypatch: pytest.MonkeyPatch) -> Program | tuple[object, ...]:
    with monkeypatch.context() as m:
        m.setattr(parser, "_line_by_line", lambda text: None)
        return outcome(text)


def outcome(text: str) -> Program | tuple[object, ...]:
    try:
        return parse(text)
    except EvolveError as e:
        return (e.code, str(e), e.line)


def lines_of(program: Program | tuple[object, ...]) -> list[int]:
    return [s.line for s in program.statements] if isinstance(program, Program) else []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_programs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    want = by_grammar(text, monkeypatch)
    assert isinstance(want, Program)
    assert outcome(text) == want and lines_of(outcome(text)) == lines_of(want)


def test_most_statements_are_simple() -> None:
    lines = [x for p in PROGRAMS for x in p.read_text().splitlines() if x.split("#")[0].strip()]
    simple = [x for x in lines if read_line(x, 1) is not None]
    assert len(simple) > 0.9 * len(lines)
    assert all("specialize(" in x or "assume(" in x for x in lines if x not in simple)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_lines(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of programs with pieces put in, taken out and exchanged: the same program or the same error."""
    rng = Random(seed)
    lines = [x for p in PROGRAMS for x in p.read_text().splitlines() if x]
    accepted = 0
    for _ in range(150):
        text = "\n".join(rng.sample(lines, rng.randint(1, 2)))
        for _ in range(rng.randint(0, 2)):
            at, cut = rng.randrange(len(text) + 1), rng.choice((0, 0, 1, 3))
            text = text[:at] + rng.choice(PIECES) * rng.choice((0, 1, 1)) + text[at + cut :]
        want = by_grammar(text, monkeypatch)
        accepted += isinstance(want, Program)
        assert outcome(text) == want, text
        assert lines_of(outcome(text)) == lines_of(want), text
    assert 15 < accepted < 150


@pytest.mark.parametrize("text", ["unroll(and)", "and = unroll(a)", "unroll([a, and])", "unroll(a and b)"])
def test_the_keyword_is_left_to_the_grammar(text: str) -> None:
    assert read_line(text, 1) is None


def test_long_lines_take_no_longer() -> None:
    start = time.process_time()
    for text in ("f(" + " " * 60_000, "a" * 60_000, "a, " * 20_000, "f(" + "[a, " * 10 + "a, " * 15_000):
        assert read_line(text, 1) is None
    assert time.process_time() - start < 1.0
