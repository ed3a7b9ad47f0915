"""The language as text comes from `dsl_spec/`, whole."""

from __future__ import annotations

from evolve.dsl.reference import compact_reference, full_reference
from evolve.dsl.registry import statements


def test_both_references_have_every_primitive() -> None:
    compact, full = compact_reference(), full_reference()
    for one in statements().values():
        assert one.signature in compact and one.signature in full
        assert one.meaning in full and one.legality in full
        assert all(r.code in full and r.when in full for r in one.rejections)
        assert all(choice in compact for p in one.parameters for choice in p.choices)
        assert all(alias in compact for alias in one.aliases)


def test_the_compact_one_is_a_page() -> None:
    assert len(compact_reference()) < 300 * len(statements()) + 500
    assert len(compact_reference()) < len(full_reference()) / 4
