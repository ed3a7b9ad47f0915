"""Whatever stands around programs, they are found; what is none is not."""

from __future__ import annotations

import json
import time

import pytest

from evolve.llm.answers import MOST_DRAFTS, Draft, read_answer, read_step

HYPOTHESIS = "blocks of 64"
PROGRAM = "a, b = split(i, 64)\nbind(a, grid.x)\nbind(b, thread.x)\n"
SPACED = f"Hypothesis: {HYPOTHESIS}\n" + PROGRAM.replace("bind(a", "\n  # blocks\nbind(a")
NUMBERED = "1. a, b = split(i, 64)\n2. bind(a, grid.x);\n3. `bind(b, thread.x)`"
THOUGHT = "<think>split(z, 3)\n```\nsplit(y, 2)\n```</think>"
FENCED = f"```\n{PROGRAM}```"


@pytest.mark.parametrize(
    ("said", "hypothesis"),
    [
        (PROGRAM, ""),
        (f"Hypothesis: blocks of 64\n{FENCED}", HYPOTHESIS),
        (f"**Hypothesis:** blocks of 64\n\n```dsl\n{PROGRAM}```\nGood luck!", HYPOTHESIS),
        (f"Blocks of 64.\n~~~python\n{PROGRAM}~~~", "Blocks of 64."),
        (f"```\n# Hypothesis: blocks of 64\n{PROGRAM}```", HYPOTHESIS),
        (f"Hypothesis: blocks of 64\n{PROGRAM}and that is all.", HYPOTHESIS),
        (f"Hypothesis: blocks of 64\r\n```\r\n{PROGRAM}```".replace("\n", "\r\n"), HYPOTHESIS),
        (f"Hypothesis: blocks of 64\n```\n{PROGRAM}", HYPOTHESIS),  # cut off before the fence ends
        (f"Hypothesis: blocks of 64\n```\n{PROGRAM}vectorize(b", HYPOTHESIS),  # and within a statement
        (f"{THOUGHT}Hypothesis: blocks of 64\n{FENCED}", HYPOTHESIS),
        (f"split(z, 3) perhaps?</think>Hypothesis: blocks of 64\n{FENCED}", HYPOTHESIS),
        (f"Hypothesis: {HYPOTHESIS}\n{NUMBERED}", HYPOTHESIS),
        (SPACED, HYPOTHESIS),
        (json.dumps({"program": PROGRAM, "hypothesis": HYPOTHESIS}), HYPOTHESIS),
        (json.dumps([{"Program": PROGRAM.splitlines(), "Idea": HYPOTHESIS}]), HYPOTHESIS),
        (json.dumps({"programs": [PROGRAM]}), ""),
        (json.dumps({"programs": [PROGRAM.splitlines()]}), ""),
        (f"Hypothesis: {HYPOTHESIS}\n```\n{'; '.join(PROGRAM.splitlines())};\n```", HYPOTHESIS),
        (PROGRAM.replace("\n", "  // so\n"), ""),
        (
            f"Here:\n```json\n{json.dumps({'programs': [{'code': FENCED, 'why': HYPOTHESIS}]})}\n```",
            HYPOTHESIS,
        ),
        (f"So {{this}} is it: {json.dumps({'dsl': PROGRAM, 'note': HYPOTHESIS})} [sic]", HYPOTHESIS),
    ],
)
def test_one_program_in_many_forms(said: str, hypothesis: str) -> None:
    (draft,) = read_answer(said)
    assert (draft.program, draft.hypothesis) == (PROGRAM, hypothesis)


def test_a_quotient_is_no_comment() -> None:
    program = "specialize((cols) // 4 == 2)\nspecialize(cols // 4 == 2)\n"
    (draft,) = read_answer(f"```\n// so\n{program}```")
    assert draft.program == program


@pytest.mark.parametrize(
    ("expected", "read"),
    [("2x faster", "2x faster"), (1.8, "1.8x"), (2, "2x"), (True, ""), ([1], ""), (None, "")],
)
def test_effects_in_json(expected: object, read: str) -> None:
    (draft,) = read_answer(json.dumps({"program": PROGRAM, "expected": expected}))
    assert draft.expected == read


STEP = "stage(x, at=row, scope=shared)"


@pytest.mark.parametrize(
    "said",
    [
        STEP,
        f"{THOUGHT}{STEP}\n",
        "I would say:\n```\nstage( x, at=row,scope=shared )\n```\nsince it is read twice. done",
        json.dumps({"move": STEP}),
        f'Sure! {{"move": "{STEP};"}}\ndone',
        f"1. `{STEP}`\n2. `split(c, 4)`",
    ],
)
def test_the_statement_that_an_answer_picks(said: str) -> None:
    assert read_step(said) == STEP


@pytest.mark.parametrize(
    ("said", "picked"),
    [
        ("done", "done"),
        ("**Done.**", "done"),
        ('{"move": "done"}', "done"),
        ("It is done now, I think", ""),
        ("", ""),
        ("split(c", ""),
        ("splat(c, 4)", "splat(c, 4)"),
        ('{"move": 7}', ""),
    ],
)
def test_what_picks_no_statement(said: str, picked: str) -> None:
    assert read_step(said) == picked


def test_several_programs_keep_their_order_and_their_lines() -> None:
    said = (
        "Two ideas.\nHypothesis: one\nExpected: 2x faster\n```\nsplit(i, 2)\n```\n"
        "Hypothesis: two\nExpected effect: less traffic\n```\nsplit(i, ?[4, 8])\n```\n"
        "An output is no program:\n```\nhello\n```\nHypothesis: the first again\n```\nsplit(i, 2)\n```\n"
    )
    first, second = read_answer(said)
    assert first == Draft("split(i, 2)\n", "the first again", "")
    assert second == Draft("split(i, ?[4, 8])\n", "two", "less traffic")
    assert second.note == "two Expected: less traffic"


@pytest.mark.parametrize(
    "said",
    ["", "  \n", "I cannot help with that.", "```\n```", "{}", '{"program": 3}', "[1, 2", "__import__('os')"],
)
def test_what_holds_no_program(said: str) -> None:
    assert all("split" not in draft.program for draft in read_answer(said))
    assert read_answer(said) == () or said.startswith("__import__"), "a call is for the parser to refuse"


def test_an_answer_is_cut_to_size() -> None:
    many = "".join(f"```\nsplit(i, {n})\n```\n" for n in range(100))
    assert len(read_answer(many)) == MOST_DRAFTS
    (long,) = read_answer(f"Hypothesis: {'x' * 5000}\x1b[31m\n```\nsplit(i, 2)\n```")
    assert len(long.hypothesis) == 300
    (huge,) = read_answer("```\n" + "split(i, 2)\n" * 50_000 + "```")
    assert len(huge.program) <= 64 * 1024 + 100


@pytest.mark.parametrize(
    "said",
    [
        "[" * 200_000,
        '{"a":' * 40_000,
        "```\n" * 50_000,
        "(" * 200_000,
        "a(" + ")  " * 60_000 + "#",
        "`" * 200_000,
        "a, " * 60_000 + "= f()",
        "<think>" * 25_000,
        " " * 200_000 + "x",
        "Hypothesis:" * 18_000,
        ("a()" + " " * 900 + "//(\n") * 200,
        ("a();" * 240 + "\n") * 200,
        ("a" * 999 + "\n") * 200,
        ("a(" + ")" * 990 + "!\n") * 200,
    ],
)
def test_no_answer_takes_long_to_read(said: str) -> None:
    begun = time.process_time()
    read_answer(said)
    assert time.process_time() - begun < 2.0
