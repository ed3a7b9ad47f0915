"""No primitive and no code generation reads an array ahead of the flag that it is there for, unless the
launch asks for the array: executed with the flag down and a bias of one element."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise_variant
from evolve.compiler.compile import Source, compile_program
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits

KERNEL = """
__global__ void k(const float *x, const float *bias, float *y, int has_bias, int rows, int cols)
{
    int r = blockIdx.x;
    if (r < rows) {
        float s = 0.0f;
        for (int c = 0; c < cols; c++) {
            float v = x[r * cols + c];
            %s
            s += v;
        }
        for (int c = 0; c < cols; c++) {
            float w = s + x[r * cols + c];
            %s
            y[r * cols + c] = w;
        }
    }
}
"""
FLAGGED = KERNEL % ("if (has_bias) v += bias[r * cols + c];", "if (has_bias) w = w * bias[r * cols + c];")
CHOSEN = KERNEL % (
    "v += has_bias ? bias[r * cols + c] : 1.0f;",
    "w *= !has_bias ? 2.0f : bias[r * cols + c];",
)
HEAD = "specialize(cols % 64 == 0)\nbind(r, grid.x)\n"
TILED = HEAD + "split([c, c_2], 64)\n"
SHARED = TILED + "b = stage(bias, at=c.o, scope=shared)\nbind(b.1, thread.x)\n"
STREAMED = SHARED + "bind(c_2.i, thread.x)\n"
PROGRAMS = {
    "none": TILED + "bind(c_2.i, thread.x)",
    "stage": STREAMED,
    "stage_registers": TILED + "stage(bias, at=c.o, scope=register)",
    "prefetch": TILED + "prefetch(bias, at=c.o, ahead=1)",
    "vectorize": TILED + "split(c_2.i, 4)\nvectorize(c_2.i.i, 4)\nbind(c_2.i.o, thread.x)",
    "vectorize_sum": TILED + "split(c.i, 4)\nvectorize(c.i.i, 4)",
    "peel": HEAD + "peel(c, 1)\npeel(c_2, 2)",
    "unroll": TILED + "unroll(c.i)",
    "block_reduce": TILED + "block_reduce(c.i)\nbind(c_2.i, thread.x)",
    "pipeline": STREAMED + "multi_buffer(b)\npipeline(c.o)",
    "make_async": STREAMED + "make_async(b)\nmulti_buffer(b)\npipeline(c.o)",
    "cache_hint": TILED + "cache_hint(bias, read_only)\nbind(c_2.i, thread.x)",
}
ROWS, COLS = 3, 128


def out_of_bounds(kernel: str, program: str) -> tuple[bool, bool]:
    """Whether `bias` is touched with the flag down, and whether the launch asks for it."""
    found = lift("k.cu", None, kernel)
    source = Source(found.kernel, found.original, found.no_wrap)
    done = compile_program(source, parse(program), Limits())
    assert done.module is not None, done.verdict.diagnostics
    rendered = render(done.module)
    sizes = {"has_bias": 0, "rows": ROWS, "cols": COLS}
    launches = concretise_variant(rendered, 0, sizes)
    host = compile_host(rendered.text, [x.kernel for x in launches])
    x = np.random.default_rng(0).normal(size=ROWS * COLS).astype(np.float32)
    arrays = {"x": x, "y": np.zeros_like(x), "bias": np.ones(1, np.float32)}
    ran = execute(host, launches, arrays, {"y"}, ExecOptions())
    touched = {f.buffer for f in ran.findings if f.kind == "out-of-bounds"}
    assert touched <= {"bias"} and (touched or not ran.findings), ran.findings[:1]
    asks = "bias != nullptr" in render_launcher(rendered, rendered.original.params)
    return bool(touched), asks


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_ahead_of_its_flag_is_asked_for(name: str) -> None:
    touched, asks = out_of_bounds(FLAGGED, PROGRAMS[name])
    assert touched == asks == (name in ("stage", "stage_registers", "prefetch", "pipeline", "make_async"))


@pytest.mark.parametrize("name", ["vectorize", "block_reduce", "stage"])
def test_so_is_what_a_choice_reads(name: str) -> None:
    touched, asks = out_of_bounds(CHOSEN, PROGRAMS[name])
    assert touched == asks == (name == "stage")
