"""What a reader of an emitted kernel sees besides its statements: names of sums, comments, conditions."""

from __future__ import annotations

import re
from dataclasses import replace

from evolve.codegen.module import render
from evolve.codegen.rendered import ORIGINAL
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from tests.validation.suite import made

SCALE = """
__global__ void scale(float* y, const float* x, int rows, int cols) {
    for (int c = 0; c < cols; c++) {
        int r = blockIdx.x * blockDim.x + threadIdx.x;
        if (r < rows) y[r * cols + c] = COMMENT 2.0f * x[r * cols + c];
    }
}
"""
PROGRAM = "split(r, 64)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n"


def text_of(source: str, program: str = PROGRAM) -> str:
    found = lift("k.cu", text=source)
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), parse(program), Limits())
    assert done.module is not None, done.verdict
    return render(done.module).text.split(ORIGINAL)[0]


def own(name: str) -> str:
    """What was written of a program, without the user's own kernel."""
    return made(name).rendered.text.split(ORIGINAL)[0]


def test_a_line_that_cannot_be_joined_is_left_where_it_is() -> None:
    """Where more than white space would change, the text itself is compiled."""
    rendered = made("matmul").rendered
    odd = replace(rendered, text="int f(int a,  // why\n    int b);\n" + rendered.text)
    assert odd.by_statement.startswith("int f(int a,  // why\n    int b);\n")


def test_a_sum_of_coordinates_is_named_once() -> None:
    text = own("spmv")
    assert "const int row = row_o * 32 + ty;" in text and text.count("row_o * 32") == 1
    text = own("stencil3x3")
    assert "const int i = i_oo * 16 + ty * 4;" in text and "if (i >= 1 && j >= 4 && i + 4 < rows" in text


def test_what_stands_in_one_place_only_has_no_name() -> None:
    """A name at the head would live across the loops between."""
    assert "C[(i_o * 64 + " in own("matmul")


def test_a_nest_says_which_line_of_the_source_it_does() -> None:
    text = own("softmax")
    for line in ("11: m = fmaxf(m, x[row * cols + c]);", "15: s += expf(x[row * cols + c] - m);"):
        assert f"    // softmax.cu:{line}\n    #pragma unroll\n    for (" in text
    assert "    // x to registers\n    #pragma unroll\n    for (int x_row_1oo" in text
    assert not re.search(r"// (split|bind|vectorize|block_reduce)\(", text)


def test_no_comment_of_the_users_is_repeated() -> None:
    text = text_of(SCALE.replace("COMMENT", "/* secret \\" + "\n */"))
    assert "secret" not in text and "// k.cu:" in text
    text = text_of(SCALE.replace("COMMENT ", "/* secret */"))
    assert "secret" not in text
    assert "// k.cu:5: if (r < rows) y[r * cols + c] = 2.0f * x[r * cols + c];\n" in text


def test_each_condition_has_its_reason() -> None:
    text = own("matmul")
    head = " ".join(
        re.sub(r"\n//", " ", text[text.index("// matmul_v1:") : text.index('extern "C"')]).split()
    )
    assert "M % 64 == 0, N % 128 == 0, K % 16 == 0: what the program is specialized for;" in head
    assert "M <= 4194240: grid.y has at most 65535 blocks;" in head
    assert "grid (N / 128, M / 64), block (2, 16, 4)" in head
