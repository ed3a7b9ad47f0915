"""Asynchronous copies as CUDA: as wide as both sides allow, compiled by NVRTC, the header for others."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evolve.codegen.asynchronous import MOST_PENDING
from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render_kernel
from evolve.compiler.compile import finish
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Stmt, Wait
from evolve.ir.visit import rewrite
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble
from tests.transforms.fixtures import applied

TILED = (
    "specialize(rows % 16 == 0 and cols % 16 == 0)\ntile([i, j], [16, 16])\nbind(i.o, grid.y)\n"
    "bind(j.o, grid.x)\nt = stage(x, at=j.o, scope=shared)\nbind(j.i, thread.x)\nbind(t.0, thread.x)\n"
)


def rendered(more: str) -> str:
    return render_kernel(finish(applied("transpose", TILED + more).kernel))[0]


@pytest.mark.parametrize(
    ("more", "bytes_"),
    [
        ("make_async(t)", {4}),
        ("split(t.1, 2)\nvectorize(t.1.i, 2)\nmake_async(t)", {8}),
        ("split(t.1, 4)\nvectorize(t.1.i, 4)\nmake_async(t)", {16}),
        # Rows of 17 elements begin anywhere, columns lie apart: one side is not wide.
        ("set_layout(t, pad=[0, 1])\nsplit(t.1, 4)\nvectorize(t.1.i, 4)\nmake_async(t)", {4}),
        ("set_layout(t, order=[1, 0])\nsplit(t.1, 4)\nvectorize(t.1.i, 4)\nmake_async(t)", {4}),
    ],
    ids=["one element", "two", "four", "not aligned", "transposed"],
)
def test_a_copy_is_as_wide_as_both_sides_are(more: str, bytes_: set[int]) -> None:
    text = rendered(more)
    sizes = re.findall(r"__pipeline_memcpy_async\(&[^;]*, (\d+)\);", " ".join(text.split()))
    assert {int(n) for n in sizes} == bytes_
    done = compile_cuda(text)
    assert done.ok, done.log
    assert done.cubin is not None
    (sass,) = disassemble([done.cubin])[0].values()
    assert sass.mix.count("ldgsts") > 0 and sass.mix.count("sts") == 0


def test_other_compilers_get_the_header() -> None:
    text = rendered("make_async(t)")
    assert text.count("#include <cuda_pipeline.h>") == 1
    assert text.index("#else") < text.index("#include") < text.index("#endif")
    assert "cuda_pipeline" not in rendered("set_layout(t, pad=[0, 1])")


def test_a_wait_cannot_leave_more_groups_than_there_is_code_for() -> None:
    kernel = finish(applied("transpose", TILED + "make_async(t)").kernel)

    def later(s: Stmt) -> Stmt | None:
        return Wait(MOST_PENDING + 1) if isinstance(s, Wait) else None

    changed: Kernel = replace(kernel, body=rewrite(kernel.body, later))
    with pytest.raises(CodegenError, match="groups"):
        render_kernel(changed)
