"""What a statement takes, put together from what is inside it, is what a walk over all of it finds."""

from __future__ import annotations

import pytest

from evolve.dsl.parser import parse
from evolve.ir.effects import Mode, effects
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Buffer, For
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import walk
from evolve.transforms.apply import apply_program
from evolve.transforms.edit import declared_in, loop_at, loops_in, replace_loop, sites, touched
from evolve.transforms.taken import Taken, named, taken
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES

PROGRAMS = [(name, 0) for name in TEMPLATES]


def scheduled(name: str, number: int) -> Kernel:
    return apply_program(source(name).kernel, parse(TEMPLATES[name][number])).kernel


def taken_in_a_walk(kernel: Kernel) -> Taken:
    loops = [s.stmt for s in walk(kernel.body) if isinstance(s.stmt, For)]
    buffers = [s.stmt.buffer for s in walk(kernel.body) if isinstance(s.stmt, Alloc)]

    def of(chosen: list[For]) -> tuple[tuple[str, LoopKind, object], ...]:
        return tuple((x.var, x.kind, x.extent) for x in chosen)

    def lying(space: Space) -> tuple[Buffer, ...]:
        return tuple(b for b in buffers if b.space is space)

    return Taken(
        of([x for x in loops if x.kind.is_thread]),  # type: ignore[arg-type]
        of([x for x in loops if x.kind.is_grid]),  # type: ignore[arg-type]
        of([x for x in loops if x.kind.is_combine]),  # type: ignore[arg-type]
        lying(Space.SHARED),
        lying(Space.REGISTER),
    )


def touched_in_a_walk(kernel: Kernel) -> tuple[set[str], set[str]]:
    accesses = [a for site in walk(kernel.body) for a in effects(site.stmt).accesses]
    read = {a.buffer for a in accesses if a.mode in (Mode.READ, Mode.REDUCE)}
    return read, {a.buffer for a in accesses if a.mode in (Mode.WRITE, Mode.REDUCE)}


def declared_in_a_walk(kernel: Kernel) -> set[str]:
    return {s.stmt.buffer.name for s in walk(kernel.body) if isinstance(s.stmt, Alloc)}


@pytest.mark.parametrize(("name", "number"), PROGRAMS)
def test_it_is_what_a_walk_finds(name: str, number: int) -> None:
    kernel = scheduled(name, number)
    assert taken(kernel.body) == taken_in_a_walk(kernel)
    assert touched(kernel.body) == touched_in_a_walk(kernel)
    assert declared_in(kernel.body) == declared_in_a_walk(kernel)
    assert named(kernel.body) == declared_in_a_walk(kernel).union(*touched_in_a_walk(kernel))
    assert loops_in(kernel.body) == {s.stmt.var for s in walk(kernel.body) if isinstance(s.stmt, For)}


@pytest.mark.parametrize(("name", "number"), PROGRAMS)
def test_loops_are_found_where_a_walk_finds_them(name: str, number: int) -> None:
    """Also in a body that was not walked before."""
    kernel = scheduled(name, number)
    for loop in list(sites(kernel)):
        changed = replace_loop(kernel, loop, lambda s: (s,))
        found, site = loop_at(changed, loop)
        (want,) = (s for s in walk(changed.body) if isinstance(s.stmt, For) and s.stmt.var == loop)
        assert found is want.stmt and site.in_else == want.in_else
        assert [id(p) for p in site.path] == [id(p) for p in want.path]


def test_a_loop_that_is_not_there() -> None:
    kernel = scheduled("softmax", 0)
    with pytest.raises(KeyError):
        replace_loop(kernel, "nowhere", lambda s: s)
    with pytest.raises(KeyError):
        loop_at(kernel, "nowhere")
