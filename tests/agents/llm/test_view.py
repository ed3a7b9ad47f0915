"""What a model is shown: a golden prompt, and that it stays short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.base import Attempt, Context, Parent
from evolve.agents.llm.question import Questions
from evolve.agents.llm.tiers import TIERS, shortened, tier_of
from evolve.agents.llm.view import boldness, step_view, view
from evolve.ir.errors import EvolveError
from evolve.llm.prompts import Prompts, read_prompts
from evolve.llm.window import Window, tokens
from evolve.population.rng import stream

GOLDEN = Path(__file__).parent / "golden"
GAP = {
    "limiter": "memory",
    "causes": [
        {
            "name": "uncoalesced",
            "share": 0.4,
            "primitives": ["bind", "stage"],
            "advice": "bind thread.x elsewhere",
            "evidence": "12% used",
        },
        {"name": "launch", "share": 0.05, "primitives": [], "advice": "the launch itself", "evidence": ""},
        {"name": "arithmetic", "share": 0.001, "primitives": [], "advice": "never shown", "evidence": ""},
    ],
}
FIRST = Parent(3, "split(i, 64)\nbind(i.o, grid.x)\n", 0.4, 250.0, GAP)
SECOND = Parent(5, "split(i, 128)\n", 0.35, 285.7, {})
RACE = {
    "code": "E-RACE",
    "message": "two threads write y[0]",
    "line": 2,
    "witness": "i = 0 and i = 1",
    "repair": "bind i.o",
}


def context(**changes: Any) -> Context:
    base = Parent(0, "", 0.1, 1000.0, GAP)
    fields: dict[str, Any] = {
        "ask": 4,
        "kernel": None,
        "target": None,
        "summary": "kernel add(x, y, n)\n  for i in 0..n:   # parallel\n    y[i] = x[i]\n",
        "features": {
            "kernel": "add",
            "buffers": [{"buffer": "x", "passes": 1, "exact": True}],
            "accesses": [{"stmt": "S1", "buffer": "x", "write": False, "strides": {"i": 1}}],
            "bytes_read": 4096,
            "products": 0.0,
        },
        "workload": {"sizes": {"n": 1024}},
        "sol": {"time_us": 100.0, "bound": "dram"},
        "numerics": "reassociate",
        "baseline": base,
        "best": FIRST,
        "parents": (SECOND, FIRST),
        "recent": (
            Attempt(3, FIRST.program, "scored", 0.4, note="blocks. Expected: 2x", time_us=250.0),
            Attempt(4, "bind(i, thread.x)\n", "illegal", 0.0, (RACE,)),
            Attempt(6, "unroll(i, 4)\n", "compile_failed", 0.0, message="too many registers"),
        ),
        "hypotheses": (
            Attempt(1, "split(i, 8)\n", "incorrect", 0.0, note="eight", expected="3x", against_us=1000.0),
            Attempt(3, FIRST.program, "scored", 0.4, (), "", "blocks", 250.0, "2x, one trip", 1000.0),
            Attempt(5, SECOND.program, "scored", 0.35, (), "", "more", 285.7, "1.5x faster", 250.0),
        ),
        "budget_left": 17,
        "legal_moves": lambda text: (),
        "rng": stream(0, "agent", 4),
    }
    return Context(**(fields | changes))


def asked(of: Context) -> str:
    return Questions(Prompts()).first(of)[-1]["content"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("later", {}),
        (
            "first",
            {
                "ask": 0,
                "parents": (),
                "recent": (),
                "hypotheses": (),
                "best": Parent(0, "", 0.1, 1000.0, GAP),
            },
        ),
    ],
)
def test_golden_prompts(name: str, changes: dict[str, Any]) -> None:
    """Set EVOLVE_GOLDEN=1 to write them anew, then read the difference."""
    path = GOLDEN / f"{name}.txt"
    text = asked(context(**changes))
    if os.environ.get("EVOLVE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_how_bold_to_be() -> None:
    assert [boldness(f) for f in (0.1, 0.6, 0.9, 1.01)] == ["restructure", "extend", "refine", "refine"]


RECENT = (Attempt(4, "bind(i, thread.x)\n" * 60, "illegal", 0.0, (RACE,)),) * 20


@pytest.mark.parametrize("size", [2048, 3000, 4096, 8192, 16_384, 32_768, 131_072, 1_000_000])
def test_a_prompt_fits_every_context_and_keeps_what_matters(size: int) -> None:
    window = Window(size)
    long = context(recent=RECENT, parents=(SECOND, FIRST, *(FIRST,) * 3))
    messages = Questions(Prompts(), window).first(long)
    assert window.holds(messages)
    text = messages[-1]["content"]
    assert "for i in 0..n" in text and "split(i, 128)" in text and "17 candidates" in text
    assert ("E-RACE" in text) == (size > 2048)


def test_what_is_left_out_follows_the_rules_in_order() -> None:
    """Each rule makes a prompt shorter, and the last ones are needed only by the smallest contexts."""
    long = context(recent=RECENT, parents=(SECOND, FIRST, *(FIRST,) * 3))
    for tier in TIERS:
        window = Window(tier.least or 2048)
        steps = list(shortened(tier.detail))
        counts = [window.count(Questions(Prompts(), window)._asked(long, detail)) for detail in steps]
        assert counts == sorted(counts, reverse=True)
        assert steps[-1].language == "basic" and steps[-1].failed == 0


WRONG = [("bind(i, thread.x)\n", "line 1: E-RACE: two threads write y[0]")]


@pytest.mark.parametrize(("size", "words"), [(8192, 1500), (8192, 3000), (2048, 100)])
def test_a_repair_is_shortened_too(size: int, words: int) -> None:
    window, answer = Window(size), "x " * words
    messages = Questions(Prompts(), window).again(context(), answer, WRONG)
    assert messages is not None and window.holds(messages)
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert "E-RACE" in messages[-1]["content"] and messages[-2]["content"] == answer


def test_an_answer_too_long_is_left_out_of_its_repair() -> None:
    asking = Questions(Prompts(), Window(2048))
    messages = asking.again(context(), "y " * 3000, WRONG)
    assert messages is not None and asking.window.holds(messages)
    assert [m["role"] for m in messages] == ["system", "user"]
    assert "for i in 0..n" in messages[-1]["content"] and "This program is refused" in messages[-1]["content"]
    assert asking.again(context(), "y " * 3000, ()) is None, "nothing of it is worth telling"
    assert asking.again(context(), "y " * 3000, [("split(i, 2)\n", "why " * 900)]) is None


def test_a_kernel_too_large_for_a_model_is_refused_with_the_figures() -> None:
    with pytest.raises(EvolveError) as caught:
        Questions(Prompts(), Window(1024)).first(context())
    assert (caught.value.code, caught.value.exit_status) == ("context-too-small", 1)
    assert "1024" in str(caught.value)


def test_tiers() -> None:
    sizes = (1024, 4096, 8192, 16_384, 32_768, 128_000, 10_000_000)
    names = ["tiny", "tiny", "small", "small", "medium", "large", "large"]
    assert [tier_of(size).name for size in sizes] == names


def test_what_the_kernel_and_the_programs_hold_is_never_a_template() -> None:
    evil = "{{ 7 * 7 }}{% for x in range(10) %}no{% endfor %}"
    text = asked(context(summary=evil, best=Parent(9, evil, 0.5, 1.0), parents=()))
    assert text.count(evil) == 2 and "49" not in text


@pytest.mark.parametrize(
    "template",
    [
        "{{ nothing_of_that_name }}",
        "{{ kernel",
        "{% include '/etc/passwd' %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ 1 // 0 }}",
        "{{ budget_left + kernel }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 10 ** 10 ** 7 }}",
        "{{ (2 ** 60) * [kernel] }}",
    ],
)
def test_templates_that_fail_say_so(template: str) -> None:
    with pytest.raises(EvolveError) as caught:
        Prompts({"propose": template}).render("propose", **view(context(), TIERS[0].detail))
    assert (caught.value.code, caught.value.file) == ("bad-prompt", "propose.j2")


def test_reading_a_folder_of_templates(tmp_path: Path) -> None:
    with pytest.raises(EvolveError) as caught:
        read_prompts(tmp_path)
    assert caught.value.code == "bad-prompt"
    (tmp_path / "repair.j2").write_text("Again: {{ refused }}")
    assert read_prompts(tmp_path) == {"repair": "Again: {{ refused }}"}
    (tmp_path / "system.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(EvolveError):
        read_prompts(tmp_path)
    (tmp_path / "system.j2").unlink()
    for path in ("/dev/zero", str(tmp_path)):
        (tmp_path / "steps.j2").symlink_to(path)
        with pytest.raises(EvolveError) as caught:
            read_prompts(tmp_path)
        assert "it is no file" in str(caught.value)
        (tmp_path / "steps.j2").unlink()
    (tmp_path / "steps.j2").write_bytes(b"x" * 70_000)
    with pytest.raises(EvolveError) as caught:
        read_prompts(tmp_path)
    assert "over 65536 bytes" in str(caught.value)


def test_small_repetitions_and_powers_are_templates_too() -> None:
    assert Prompts({"propose": "{{ '-' * 3 }}{{ 2 ** 10 }}{{ 3 * 4 }}"}).render("propose") == "---102412\n"


def test_how_bold_goes_by_the_program_that_is_shown() -> None:
    far, near = Parent(1, "unroll(i, 2)\n", 0.13, 600.0), Parent(2, "unroll(i, 4)\n", 0.95, 90.0)
    told = asked(context(best=near, parents=(far, near)))
    assert "The program to improve is at 0.13" in told and "Change the structure." in told
    assert "Small steps only." in asked(context(best=near, parents=(near, far)))


def test_a_step_is_short_and_ends_with_what_changes() -> None:
    moves = ["split(i, 4|8|16)", "bind(i, thread.x)"]
    first, second = (
        Prompts().render("step", **step_view(context(), program, moves)) for program in ("", "split(i, 64)\n")
    )
    assert tokens(first) + tokens(Prompts().render("steps")) < 500
    assert first.split("Program so far")[0] == second.split("Program so far")[0]
    assert "    split(i, 64)\n" in second and second.endswith("bind(i, thread.x)\ndone\n")
    assert "40%: uncoalesced" in first and "n = 1024" in first


def test_what_is_under_way_or_was_repeated_is_told() -> None:
    waiting = (Attempt(8, "split(i, 2)\n", "", 0.0, note="halves", expected="2x"),)
    twice = Attempt(9, "split(i, 2)\n", "duplicate", 0.0, note="again", expected="2x")
    told = asked(context(waiting=waiting, beside=2, hypotheses=(twice, twice)))
    assert "## Still being tried\n\n- halves\n" in told and "less obvious" in told
    assert "Of your latest programs 2 had been tried before." in told
    plain = asked(context())
    assert not any(words in plain for words in ("Still being tried", "less obvious", "had been tried"))


def test_of_what_failed_each_reason_is_told_before_any_twice() -> None:
    races = tuple(Attempt(n, f"unroll(i, {n})\n", "illegal", 0.0, (RACE,)) for n in range(2, 9))
    older = Attempt(1, "split(i, 3)\n", "compile_failed", 0.0, message="too many registers")
    told = asked(context(recent=(older, *races)))
    assert told.index("too many registers") < told.index("unroll(i, 6)") < told.index("unroll(i, 8)")
    assert "unroll(i, 5)" not in told, "four in this tier: the oldest of the others are left out"
