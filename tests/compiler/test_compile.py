"""What comes of a program: the original for none, a guarded variant where it is proved, else a reason."""

from __future__ import annotations

from evolve.compiler.compile import compile_program, finish
from evolve.dsl.parser import parse
from evolve.ir.stmt import For
from evolve.ir.types import LoopKind
from evolve.ir.visit import walk
from evolve.legality.verdict import Limits
from tests.illegal.lifted import source


def test_the_empty_program_is_the_original_alone() -> None:
    done = compile_program(source("saxpy"), parse(""), Limits())
    assert done.verdict.proved
    assert done.module is not None and done.module.variants == ()


def test_a_proved_program_is_guarded_by_what_the_source_relies_on() -> None:
    done = compile_program(source("transpose"), parse("bind(i, grid.x)"), Limits())
    assert done.module is not None
    (variant,) = done.module.variants
    assert source("transpose").no_wrap
    for fact in source("transpose").no_wrap:
        assert str(fact) in str(variant.guard)


def test_what_is_not_proved_has_no_module() -> None:
    for text in ("split(nothing, 4)", "bind(i, thread.x)"):
        done = compile_program(source("transpose"), parse(text), Limits())
        assert not done.verdict.proved and done.module is None and done.kernel is None


def test_a_reason_is_blamed_on_who_brought_it_though_others_kept_it_from_being_seen() -> None:
    """With too many threads nobody looks at the order; that there are too many is looked for in any case."""
    text = "split(c, 4)\nsplit(r, 64)\nreorder([c.i, c.o])\nlaunch_bounds(32)\nbind(r.i, thread.x)"
    exact = Limits(numerics="exact")

    def blamed(text: str) -> list[tuple[str, int | None]]:
        found = compile_program(source("row_sum"), parse(text), exact, blame=True).verdict.diagnostics
        assert all(d.spans for d in found)
        return [(d.code, d.statement) for d in found]

    assert blamed(text) == [("E-THREADS", 4)]
    assert blamed(f"{text}\nlaunch_bounds(64)") == [("E-ORDER", 2)]


def test_places_in_the_source_are_for_who_asks_for_blame() -> None:
    text = parse("bind(i, thread.x)")
    for blame in (False, True):
        found = compile_program(source("transpose"), text, Limits(), blame=blame).verdict.diagnostics
        assert found and all(bool(d.spans) == blame for d in found)


def test_loops_that_nobody_bound_run_in_order() -> None:
    loops = [s.stmt for s in walk(finish(source("transpose").kernel).body) if isinstance(s.stmt, For)]
    assert [x.kind for x in loops] == [LoopKind.SERIAL] * 2
