"""What a model is shown: a golden prompt, and that it stays short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.base import Attempt, Context, Parent
from evolve.agents.llm.agent import MOST_CHARS, LlmAgent
from evolve.agents.llm.view import DETAILS, boldness, view
from evolve.dsl.reference import compact_reference
from evolve.ir.errors import EvolveError
from evolve.llm.prompts import Prompts, read_prompts
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
        "budget_left": 17,
        "legal_moves": lambda text: (),
        "rng": stream(0, "agent", 4),
    }
    return Context(**(fields | changes))


def asked(of: Context) -> str:
    agent = LlmAgent.__new__(LlmAgent)
    agent._prompts = Prompts()
    return agent._question(of)[-1]["content"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("later", {}),
        ("first", {"ask": 0, "parents": (), "recent": (), "best": Parent(0, "", 0.1, 1000.0, GAP)}),
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


def test_a_long_prompt_is_shortened_and_keeps_what_matters() -> None:
    attempt = Attempt(4, "bind(i, thread.x)\n" * 60, "illegal", 0.0, (RACE,))
    text = asked(context(recent=(attempt,) * 20, parents=(SECOND, FIRST, *(FIRST,) * 3)))
    system = Prompts().render("system", reference=compact_reference(), most=4)
    assert len(text) + len(system) <= MOST_CHARS
    assert "for i in 0..n" in text and "split(i, 128)" in text and "E-RACE" in text
    assert DETAILS[-1].failed == 1


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
    ],
)
def test_templates_that_fail_say_so(template: str) -> None:
    with pytest.raises(EvolveError) as caught:
        Prompts({"propose": template}).render("propose", **view(context(), DETAILS[0]))
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
