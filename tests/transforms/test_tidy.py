"""What is tidy already stays the object that it is, alone and in what a statement leaves of it."""

from __future__ import annotations

import pytest

from evolve.dsl.parser import parse
from evolve.ir.stmt import Stmt
from evolve.ir.visit import walk
from evolve.transforms.apply import apply_program
from evolve.transforms.edit import tidy
from tests.illegal.lifted import source
from tests.illegal.templates import TEMPLATES


@pytest.mark.parametrize("name", ["matmul", "softmax", "stencil", "transpose"])
def test_tidying_twice_changes_nothing(name: str) -> None:
    kernel = apply_program(source(name).kernel, parse(TEMPLATES[name][0])).kernel
    assert tidy(kernel).body is kernel.body


def test_what_a_statement_leaves_is_shared() -> None:
    """Splitting the first loop of a row's two leaves the second as it was."""
    kernel = source("softmax").kernel
    first = apply_program(kernel, parse("bind(row, grid.x)\nsplit(c, 64)")).kernel
    second = apply_program(kernel, parse("bind(row, grid.x)\nsplit(c, 64)\nunroll(c.i)")).kernel

    def objects(body: object) -> set[int]:
        return {id(s.stmt) for s in walk(body)}  # type: ignore[arg-type]

    kept: list[Stmt] = [s.stmt for s in walk(first.body) if id(s.stmt) in objects(second.body)]
    assert len(kept) > len(list(walk(first.body))) // 2
