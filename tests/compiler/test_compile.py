"""What comes of a program: the original for none, a guarded variant where it is proved, else a reason."""

from __future__ import annotations

from evolve.compiler.compile import compile_program
from evolve.dsl.parser import parse
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
