"""Lanes of two dimensions: each lane has its own coordinates, and the text says which."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render, render_kernel
from evolve.codegen.threads import bits, coordinate
from evolve.compiler.compile import compile_program, finish
from evolve.dsl.parser import parse
from evolve.legality.verdict import Limits
from evolve.target.limits import WARP
from evolve.transforms.apply import apply_program
from tests.codegen.conftest import Runner
from tests.illegal.lifted import source

SHAPES = [(1 << n, WARP >> n) for n in range(6)]


def lanes(x: int, y: int) -> list[tuple[int, int]]:
    """The coordinates of each lane, by the text that computes them; C's operators are Python's here."""
    texts = [coordinate("lane", places) for places in bits(x, y)]
    return [tuple(eval(t, {"lane": lane}) for t in texts) for lane in range(WARP)]  # type: ignore[misc]


@pytest.mark.parametrize(("x", "y"), SHAPES)
def test_every_lane_has_coordinates_of_its_own(x: int, y: int) -> None:
    assert sorted(lanes(x, y)) == [(a, b) for a in range(x) for b in range(y)]


@pytest.mark.parametrize(("x", "y"), SHAPES[1:-1])
def test_neighbours_share_one_coordinate_and_their_neighbours_the_other(x: int, y: int) -> None:
    at = lanes(x, y)
    for lane in range(WARP):
        assert at[lane][1] == at[lane ^ 1][1] and at[lane][0] == at[lane ^ 2][0]


@pytest.mark.parametrize(("x", "y"), [(4, 4), (3, 11), (0, 32), (64, 1), (-2, -16)])
def test_what_is_no_shape_of_a_warp(x: int, y: int) -> None:
    with pytest.raises(ValueError):
        bits(x, y)


def program(x: int, y: int, warps: int = 2) -> str:
    return (
        f"specialize(rows % {y * warps} == 0 and cols % {x} == 0)\n"
        f"tile([i, j], [{y * warps}, {x}])\nsplit(i.i, {y})\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
        "t = stage(x, at=j.o, scope=shared)\n"
        f"split(t.0, {y})\nbind([t.0.o, i.i.o], warp)\nbind([t.0.i, i.i.i], lane.y)\n"
        "bind([t.1, j.i], lane.x)\n"
    )


ROWS = (
    "specialize(rows % 2 == 0 and cols % 32 == 0)\ntile([i, j], [2, 32])\nbind(i.o, grid.y)\n"
    "bind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\nbind([t.0, i.i], warp)\nbind([t.1, j.i], lane)\n"
)


@pytest.mark.parametrize(
    ("text", "threads"), [(program(8, 4), [32, 2, 1]), (program(2, 16), [32, 2, 1]), (ROWS, [32, 1, 2])]
)
def test_threads_do_what_their_coordinates_say(run_rendered: Runner, text: str, threads: list[int]) -> None:
    done = compile_program(source("transpose"), parse(text), Limits())
    assert done.module is not None, done.verdict.diagnostics
    rendered = render(done.module)
    block = rendered.variants[0].launches[0].block
    assert [e.value for e in block] == threads  # type: ignore[union-attr]
    a = np.arange(2 * 32 * 64, dtype=np.float32).reshape(64, 64)
    out = run_rendered(
        rendered, {"x": a, "y": np.zeros((64, 64), np.float32)}, {"rows": 64, "cols": 64}, {"y"}
    )
    np.testing.assert_array_equal(out["y"], a.T)


def test_lanes_that_make_no_warp_have_no_text() -> None:
    kernel = finish(apply_program(source("transpose").kernel, parse(program(8, 8))).kernel)
    with pytest.raises(CodegenError, match="8 by 8"):
        render_kernel(kernel)
