"""Grammars for answers: every program of a kernel that is there is covered, what is none is not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import pytest

from evolve.dsl.grammar import DONE, Vocabulary, answer_grammar, results, step_grammar, vocabulary
from evolve.dsl.parser import parse
from evolve.dsl.program import ListValue, Name, Program, Statement, Value
from evolve.dsl.registry import statements
from evolve.frontend.lift import lift
from evolve.llm.answers import read_answer
from evolve.target.data import data_dir
from tests.dsl.gbnf import Grammar, read

KERNELS = data_dir("kernels")
PROGRAMS = sorted((KERNELS / "programs").rglob("*.dsl"))
WORDS = Vocabulary(("row", "c", "c_2"), ("x", "y", "m"), ("rows", "cols"))


@cache
def words_of(kernel: str) -> Vocabulary:
    return vocabulary(lift(KERNELS / f"{kernel}.cu").kernel)


def answer(*programs: str) -> str:
    return "".join(f"Hypothesis: rows in blocks, 4x\nExpected: 2x faster.\n```\n{p}```\n" for p in programs)


def renamed(program: Program, stem: str) -> str:
    """The program with the names `t1a`, `t1b`, `t2a` … for what its statements give."""
    new: dict[str, str] = {}

    def of(name: str) -> str:
        head, dot, tail = name.partition(".")
        return new.get(head, head) + dot + tail

    def value(v: Value) -> Value:
        match v:
            case Name():
                return Name(of(v.text))
            case ListValue():
                return ListValue(tuple(map(value, v.items)))
            case _:
                return v

    out, number = [], 0
    for s in program.statements:
        args, keywords = tuple(map(value, s.args)), tuple((k, value(v)) for k, v in s.keywords)
        number += bool(s.targets)
        new |= {t: f"{stem}{number}{place}" for t, place in zip(s.targets, "abcd", strict=False)}
        out.append(Statement(tuple(new[t] for t in s.targets), s.primitive, args, keywords))
    return str(Program(tuple(out)))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_of_a_kernel_are_answers_about_it(path: Path) -> None:
    kernel = path.stem.split("-")[0]
    words = words_of(kernel)
    program = parse(path.read_text())
    text = renamed(program, results(words))
    assert parse(text).statements, "renaming keeps it a program"
    grammar = read(answer_grammar(words, 1, len(program.statements)))
    said = answer(text)
    assert grammar.matches(said)
    assert [draft.program for draft in read_answer(said)] == [text]
    assert not grammar.matches(answer(text.replace("(", "[", 1)))
    assert not grammar.matches(answer(text + text.splitlines(keepends=True)[0])), "one statement too many"


GOOD = [
    "split(c, 64)\n",
    "t1a, t1b = split([c, c_2], ?[64, 128])\nbind(t1a.o.i.2, thread.x)\n",
    "specialize(rows % 4 == 0 and cols <= 8192)\n",
    "t10a = stage(x, at=row, scope=shared, align=4)\nset_layout(t10a, pad=[0, 1])\n",
    "tile([row, c], [32, 32])\nunroll(x_s.1.o)\n",
    "cache_hint(y, default, l2=evict_last)\ncarveout(0)\n",
    "prefetch(x, at=c, bytes=256)\n",
    "grid_stride_map(row, threads=128)\n",
]
BAD = [
    "",
    "\n",
    "split(z, 64)\n",
    "split(c, 1)\n",
    "split(c, 064)\n",
    "split(c, 1234567)\n",
    "split(c)\n",
    "split(c, 64",
    "split(c, 64) \n",
    "splat(c, 64)\n",
    "t1a, t1a = split(c, 64)\n",
    "t1a = bind(row, grid.x)\n",
    "bind(row, grid)\n",
    "bind(row.o.o.o.o.o.o.o, grid.x)\n",
    "specialize(n % 4 == 0)\n",
    "specialize(rows)\n",
    "prefetch(x, at=c, bytes=16)\n",
    "stage(x, scope=shared, at=row)\n",
    "import os\n",
]


@cache
def small() -> Grammar:
    return read(answer_grammar(WORDS, 2, 2))


@pytest.mark.parametrize("program", GOOD)
def test_what_is_covered_parses(program: str) -> None:
    assert small().matches(answer(program)) and small().matches(answer(program, program))
    assert parse(program).statements


@pytest.mark.parametrize("program", BAD)
def test_what_is_no_program_of_the_kernel_is_not_covered(program: str) -> None:
    assert not small().matches(answer(program))


@pytest.mark.parametrize("said", ["", "Sure!", GOOD[0], answer(GOOD[0]) + "Good luck!", answer(*GOOD[:3])])
def test_answers_have_their_form(said: str) -> None:
    assert not small().matches(said)


def test_whatever_the_grammar_generates_the_parser_takes() -> None:
    """Random derivations: an answer under the grammar holds programs, and each of them parses."""
    grammar, rng = read(answer_grammar(WORDS, 2, 6)), Random(7)
    for _ in range(150):
        said = "".join(drawn(grammar, grammar.rules["root"], rng))
        drafts = read_answer(said)
        assert drafts and len(drafts) <= said.count("Hypothesis: ")
        for draft in drafts:
            assert draft.hypothesis and draft.expected
            assert parse(draft.program).statements


def drawn(grammar: Grammar, node: tuple[str, object], rng: Random) -> str:
    """A text that a node matches."""
    kind, of = node
    match kind, of:
        case "text", str(text):
            return text
        case "class", list(ranges):
            low, high = rng.choice(ranges)
            return chr(rng.randint(ord(low), ord(high)))
        case "name", str(name):
            return drawn(grammar, grammar.rules[name], rng)
        case "or", list(alternatives):
            return drawn(grammar, rng.choice(alternatives), rng)
        case "then", list(parts):
            return "".join(drawn(grammar, part, rng) for part in parts)
        case _, (one, least, most):
            return "".join(drawn(grammar, one, rng) for _ in range(rng.randint(least, most)))
    raise AssertionError(node)


def test_every_primitive_and_pattern_has_a_rule() -> None:
    text = answer_grammar(WORDS, 1, 1)
    assert all(f'"{name}(" ' in text for name in statements())


def test_names_of_results_are_nobody_elses() -> None:
    words = Vocabulary(("t1a", "u12d"), ("t",), ())
    assert results(words) == "v"
    assert results(WORDS) == "t"
    assert read(answer_grammar(words, 1, 1)).matches(answer("v1a, v1b = split(t1a, 4)\n"))


def test_a_step_is_one_of_the_moves_or_the_end() -> None:
    moves = ["split(c, 4)", "split(c, 64)", "stage(x, at=row, scope=shared)"]
    grammar = read(step_grammar([*moves, DONE]))
    assert all(grammar.matches(move) for move in (*moves, DONE))
    others = ("", "split(c, 6)", "split(c, 644)", "done.", "donesplit(c, 4)", " done", "split(c, 4)\n")
    assert not any(grammar.matches(text) for text in others)
    assert not read(step_grammar(moves)).matches(DONE)


@pytest.mark.parametrize(
    "wrong",
    ['root ::= root "a"', "root ::= other", 'root ::= ("a"', 'root ::= "a"? root', "root = x", "root ::= +"],
)
def test_the_matcher_refuses_what_recurses_on_the_left_and_what_is_no_grammar(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(wrong)
