"""Arrays that only a flag lets a kernel touch: what is touched ahead of the flag is asked for and said."""

from __future__ import annotations

import pytest

from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.compiler.compile import Compiled, Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.flags import conditions
from evolve.ir.printer import print_expr
from evolve.legality.verdict import Limits

BIAS = """
__global__ void k(const float *x, const float *bias, float *y, int has_bias, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        for (int r = 0; r < rows; r++) {
            float v = x[r * cols + c];
            if (has_bias) v += bias[c];
            y[r * cols + c] = v;
        }
    }
}
"""
SCHEDULE = "split(c, 128)\nbind(c.o, grid.x)\nbind(c.i, thread.x)\n"
AHEAD = "b = stage(bias, at=c.i, scope=register)\n"
CLAUSE = "bias has its elements whatever has_bias may be"


def compiled(program: str, source: str = BIAS) -> Compiled:
    lifted = lift("k.cu", text=source)
    done = compile_program(Source(lifted.kernel, lifted.original, lifted.no_wrap), parse(program), Limits())
    assert done.module is not None, done.verdict
    return done


def file_of(done: Compiled) -> str:
    assert done.module is not None
    rendered = render(done.module)
    return f"{rendered.text}\n{render_launcher(rendered, rendered.original.params)}"


def test_a_copy_ahead_of_the_flag_is_made_of_an_array_that_is_there() -> None:
    done = compiled(SCHEDULE + AHEAD)
    text = file_of(done)
    assert text.index("= bias[") < text.index("has_bias != 0 ?"), "the copy stands before the condition"
    assert "    if (bias != nullptr  // " in text
    assert text.count(f"//   {CLAUSE}.") == 1
    assert done.verdict.premises[-1] == CLAUSE


@pytest.mark.parametrize(
    "program",
    [
        SCHEDULE,
        "assume(has_bias == 1)\n" + SCHEDULE + AHEAD,
        "assume(has_bias == 0)\n" + SCHEDULE,
    ],
)
def test_what_is_touched_under_the_flag_only_may_be_left_out(program: str) -> None:
    done = compiled(program)
    assert "nullptr" not in file_of(done) and CLAUSE not in file_of(done)
    assert CLAUSE not in done.verdict.premises


@pytest.mark.parametrize(
    ("statement", "held"),
    [
        ("if (a) y[i] = x[i];", ["a != 0:i32"]),
        ("if (a > 2 && b) y[i] = x[i];", ["a > 2:i32", "b != 0:i32"]),
        ("if (!a) y[i] = x[i];", ["a == 0:i32"]),
        ("if (a) y[i] = 1.0f; else y[i] = x[i];", ["a == 0:i32"]),
        ("y[i] = a == 1 ? 0.0f : b ? x[i] : 2.0f;", ["a != 1:i32", "b != 0:i32"]),
        ("y[i] = a ? x[i] : x[i] * 2.0f;", []),
        ("y[i] = i > 3 ? x[i] : 2.0f;", []),
        ("if (a || b) y[i] = x[i];", ["a != 0:i32 or b != 0:i32"]),
    ],
)
def test_the_conditions_of_a_source(statement: str, held: list[str]) -> None:
    text = (
        "__global__ void k(const float *x, float *y, int a, int b, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) {{ {statement} }}\n}}\n"
    )
    found = conditions(lift("k.cu", text=text).kernel)
    assert sorted(map(print_expr, found["x"])) == held
