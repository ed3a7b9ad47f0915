"""Each code of a refusal is listed with when it is given, and what helps."""

from __future__ import annotations

import re
from pathlib import Path

import evolve
from evolve.dsl.registry import refusals, statements

WITHOUT_REPAIR = {
    # Bugs, which no other program avoids.
    "E-INTERNAL", "E-SIGNATURE", "E-SOURCE",
}  # fmt: skip


def test_every_code_in_the_source_is_listed() -> None:
    files = Path(evolve.__file__).parent.rglob("*.py")
    raised = {c for f in files for c in re.findall(r'"(E-[A-Z-]+)"', f.read_text(encoding="utf-8"))}
    assert raised - refusals().keys() == set()
    assert refusals().keys() - raised == set()


def test_every_code_says_when_it_is_given() -> None:
    for code, one in refusals().items():
        assert one.code == code and one.when and all(one.when)
        assert set(one.given_by) == {p.name for p in statements().values() if code in _codes(p)}


def test_what_is_refused_of_any_program_has_a_repair() -> None:
    without = {code for code, one in refusals().items() if one.repair is None and not one.given_by}
    assert without == WITHOUT_REPAIR


def _codes(p: object) -> set[str]:
    return {r.code for r in p.rejections}  # type: ignore[attr-defined]
