"""Swizzled tiles as text, executed under all checks; what vectors and copies become in them."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import compile_program
from evolve.dsl.parser import parse
from evolve.legality.verdict import Limits
from tests.codegen.conftest import Runner
from tests.illegal.lifted import source

PROGRAM = """\
specialize(cols % 64 == 0 and rows % 64 == 0)
tile([i, j], [64, 64])
bind(i.o, grid.y)
bind(j.o, grid.x)
x_tile = stage(x, at=j.o, scope=shared)
set_layout(x_tile, swizzle=[4, 8, 4])
split(x_tile.0, 32)
split(x_tile.1, 4)
split(x_tile.1.o, 8)
bind(x_tile.0.i, thread.y)
bind(x_tile.1.o.i, thread.x)
vectorize(x_tile.1.i, 4)
unroll([x_tile.0.o, x_tile.1.o.o])
reorder([j.i, i.i])
split(j.i, 32)
split(i.i, 4)
split(i.i.o, 8)
bind(j.i.i, thread.y)
bind(i.i.o.i, thread.x)
vectorize(i.i.i, 4)
unroll([j.i.o, i.i.o.o])
"""
"""No two lanes of a warp meet in a bank, neither when the tile is written in vectors nor when it is read."""


def rendered(program: str) -> Rendered:
    done = compile_program(source("transpose"), parse(program), Limits())
    assert done.module is not None, done.verdict.diagnostics
    return render(done.module)


def vectors(text: str) -> tuple[int, int, int]:
    """Vectors read, vectors written, and asynchronous copies of 16 bytes."""
    found = ("= *reinterpret_cast<const float4*>", "*reinterpret_cast<float4*>(&", ", 16);")
    text = " ".join(text.split())
    return tuple(text.count(f) for f in found)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("old", "new", "wide"),
    [
        ("", "", (1, 2, 0)),
        ("[4, 8, 4]", "[8, 4]", (1, 2, 0)),
        ("[4, 8, 4]", "[2, 8, 2]", (1, 1, 0)),
        ("[4, 8, 4]", "[1, 64]", (1, 1, 0)),
        ("swizzle=[4, 8, 4]", "swizzle=[4, 8, 4], pad=[0, 4]", (1, 2, 0)),
        ("swizzle=[4, 8, 4]", "swizzle=[4, 8, 4], pad=[0, 1]", (1, 1, 0)),
        ("split(x_tile.0, 32)", "make_async(x_tile)\nsplit(x_tile.0, 32)", (0, 1, 1)),
        ("swizzle=[4, 8, 4])", "swizzle=[2, 8, 4])\nmake_async(x_tile)", (0, 1, 0)),
    ],
)
def test_transposes(run_rendered: Runner, old: str, new: str, wide: tuple[int, int, int]) -> None:
    """Groups narrower than the vectors, and rows that are no multiple of them, take vectors apart; nothing
    else does, and each is right."""
    r = rendered(PROGRAM.replace(old, new))
    assert "^" in r.text and vectors(r.text) == wide
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
    arrays = {"x": x, "y": np.zeros((128, 64), np.float32)}
    out = run_rendered(r, arrays, {"rows": 64, "cols": 128}, {"y"})
    np.testing.assert_array_equal(out["y"], x.T)
