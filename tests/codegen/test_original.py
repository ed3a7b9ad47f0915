"""The original kernel keeps its text and gets a plain name of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.original import render_original
from evolve.devices.sim.build import compile_host
from evolve.frontend.lift import lift
from evolve.ir.expr import index
from evolve.ir.kernel import Module, Original
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvrtc import compile_cuda

KERNELS = Path(__file__).parents[2] / "kernels"
ONES = (index(1), index(1), index(1))


def original(text: str, entry: str = "k") -> Original:
    return Original(text, entry, ONES, ONES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global__ void k(int n) {}", 'extern "C" __global__ void k_original(int n) {}'),
        ('extern "C" __global__ void k(int n) {}', 'extern "C" __global__ void k_original(int n) {}'),
        ("static __global__ void k() {}", 'extern "C" __global__ void k_original() {}'),
        ("void __global__ k() {}", 'extern "C" void __global__ k_original() {}'),
        ("int a;\n__global__ void\nk() {}", 'int a;\nextern "C" __global__ void\nk_original() {}'),
        (
            "__global__ void __launch_bounds__(256, 2) k() {}",
            'extern "C" __global__ void __launch_bounds__(256, 2) k_original() {}',
        ),
        (
            "#define A { \\\n } while\n__global__ void k() {}",
            '#define A { \\\n } while\nextern "C" __global__ void k_original() {}',
        ),
        (
            "// k( {\n/* ; k( */ __global__ void k() {}",
            '// k( {\n/* ; k( */ extern "C" __global__ void k_original() {}',
        ),
        (
            "__global__ void k();\n__global__ void j() {}\n__global__ void k() {}",
            'extern "C" __global__ void k_original();\n__global__ void j() {}\n'
            'extern "C" __global__ void k_original() {}',
        ),
        (
            "#if 1\n#endif\n\n__global__ void k() {}",
            '#if 1\n#endif\n\nextern "C" __global__ void k_original() {}',
        ),
    ],
)
def test_declarations(text: str, expected: str) -> None:
    assert render_original(original(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "template <int N> __global__ void k() {}",
        "void k() {}",
        "#define NAME k\n__global__ void NAME() {}",
        "__global__ void other() { k(); }",
    ],
)
def test_refusals(text: str) -> None:
    with pytest.raises(CodegenError):
        render_original(original(text))


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.cu")), ids=lambda p: p.stem)
def test_examples_have_plain_names_in_the_binary(path: Path) -> None:
    lifted = lift(path)
    k = lifted.kernel
    rendered = render(Module((), lifted.original, k.params, k.buffers, k.scalars))
    done = compile_cuda(rendered.text)
    assert done.ok and done.cubin is not None, done.log
    assert f"{path.stem}_original" in read_cubin(done.cubin).kernels


CLASHING = ("norm", "round", "max", "abs", "index", "y0", "div", "exp", "rsqrt", "printf", "sigmoid", "clock")


@pytest.mark.parametrize("name", CLASHING)
def test_a_kernel_may_be_called_like_a_function_of_the_library(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(
        f"__global__ void {name}(const float *x, float *y, int n) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = fabsf(x[i]);\n}\n"
    )
    lifted = lift(path)
    k = lifted.kernel
    rendered = render(Module((), lifted.original, k.params, k.buffers, k.scalars))
    done = compile_cuda(rendered.text)
    assert done.ok and done.cubin is not None, done.log
    compile_host(rendered.text, [rendered.original.kernel], tmp_path)
    assert f"launch_{name}(" in render_launcher(rendered, rendered.original.params)


def test_a_name_that_is_taken_is_not_used() -> None:
    text = "__device__ int k_original;\n__global__ void k() {}"
    assert render_original(original(text)).endswith('extern "C" __global__ void k_original_2() {}')
