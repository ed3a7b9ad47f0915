"""Kernels of several launches as text: parameters, scratch memory, and the function that launches them."""

from __future__ import annotations

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.launch import BufferArg, ScalarArg, ScratchArg, scratch_of
from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render, render_kernel
from evolve.codegen.rendered import Rendered, concretise
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda
from tests.transforms.fixtures import applied

TOTAL = """
__global__ void total(const float *x, float *out, int n) {
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += x[k];
    *out = sum;
}
"""
MOMENTS = """
__global__ void moments(const float *x, float *sum_part, float *out, int n) {
    float s = 0.0f, q = 0.0f;
    for (int k = 0; k < n; k++) { s += x[k]; q += x[k] * x[k]; }
    sum_part[0] = s;
    out[0] = q;
}
"""
PROGRAM = "split(k, 4096)\ngrid_reduce(k.o)\nbind(k.o, grid.x)\nsplit(k.i, 128)\nblock_reduce(k.i.i)\n"


def rendered_of(source: str, program: str) -> Rendered:
    lifted = lift("k.cu", text=source)
    done = compile_program(Source(lifted.kernel, lifted.original, lifted.no_wrap), parse(program), Limits())
    assert done.module is not None, done.verdict
    return render(done.module)


def test_two_launches_share_scratch_memory() -> None:
    rendered = rendered_of(TOTAL, PROGRAM)
    variant, (first, second) = concretise(rendered, {"n": 10000})
    assert variant == 0
    part = ScratchArg("sum_part", "f32", 3)
    n = ScalarArg("n", "i32", 10000)
    assert first.args == (BufferArg("x"), n, part)
    assert second.args == (BufferArg("out"), n, part)
    assert (first.grid, first.block) == ((3, 1, 1), (128, 1, 1))
    assert (second.grid, second.block) == ((1, 1, 1), (1, 1, 1))
    assert scratch_of((first, second)) == {"sum_part": part}
    assert part.numpy == "float32"
    assert compile_cuda(rendered.text).ok


def test_the_text_says_what_the_launches_share() -> None:
    text = rendered_of(TOTAL, PROGRAM).text
    said = "// sum_part is scratch memory of (n + 4095) / 4096 elements, which the launches share."
    assert text.count(said) == 2
    assert "//   total_v1_1 was launched before it." in text
    assert "const float* __restrict__ sum_part" in text, "the second only reads it"


def test_the_launcher_allocates_scratch_in_the_streams_order() -> None:
    rendered = rendered_of(TOTAL, PROGRAM)
    launcher = render_launcher(rendered, rendered.original.params)
    inside = launcher[launcher.index("        char*") : launcher.index("    }\n    total_original")]
    size = "(4LL * ((n_ + 4095) / 4096) + 255) / 256 * 256"
    grid = "(n_ + 4095) / 4096"
    assert (
        inside
        == f"""\
        char* workspace = nullptr;
        cudaError_t failed = cudaMallocAsync((void**)&workspace, {size}, stream);
        if (failed != cudaSuccess) return failed;
        float* const sum_part_2 = (float*)(workspace);
        if ({grid} > 0) {{
            total_v1_1<<<dim3((unsigned int)({grid})), dim3(128), 0,
                stream>>>(x, n, sum_part_2);
        }}
        total_v1_2<<<dim3(1), dim3(1), 0, stream>>>(out, n, sum_part_2);
        failed = cudaGetLastError();
        cudaFreeAsync(workspace, stream);
        return failed;
"""
    )


def test_two_scratch_buffers_lie_apart_and_keep_clear_of_the_users_names() -> None:
    rendered = rendered_of(MOMENTS, PROGRAM)
    _, (first, second) = concretise(rendered, {"n": 10000})
    names = sorted(scratch_of((first, second)))
    assert names == ["q_part", "s_part"]
    launcher = render_launcher(rendered, rendered.original.params)
    size = "(4LL * ((n_ + 4095) / 4096) + 255) / 256 * 256"
    assert f"cudaMallocAsync((void**)&workspace, {size} + {size}, stream)" in launcher
    assert f"= (float*)(workspace + {size});" in launcher
    assert "float* sum_part,\n" in launcher


def test_one_kernel_alone_has_one_launch() -> None:
    with pytest.raises(CodegenError, match="one launch at a time"):
        render_kernel(applied("total", "split(k, 64)\ngrid_reduce(k.o)").kernel)
