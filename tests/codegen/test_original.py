"""The original kernel keeps its text and gets its plain name."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render
from evolve.codegen.original import render_original
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
        ("__global__ void k(int n) {}", 'extern "C" __global__ void k(int n) {}'),
        ('extern "C" __global__ void k(int n) {}', 'extern "C" __global__ void k(int n) {}'),
        ("static __global__ void k() {}", 'extern "C" __global__ void k() {}'),
        ("void __global__ k() {}", 'extern "C" void __global__ k() {}'),
        ("int a;\n__global__ void\nk() {}", 'int a;\nextern "C" __global__ void\nk() {}'),
        (
            "__global__ void __launch_bounds__(256, 2) k() {}",
            'extern "C" __global__ void __launch_bounds__(256, 2) k() {}',
        ),
        (
            "#define A { \\\n } while\n__global__ void k() {}",
            '#define A { \\\n } while\nextern "C" __global__ void k() {}',
        ),
        (
            "// k( {\n/* ; k( */ __global__ void k() {}",
            '// k( {\n/* ; k( */ extern "C" __global__ void k() {}',
        ),
        (
            "__global__ void k();\n__global__ void j() {}\n__global__ void k() {}",
            'extern "C" __global__ void k();\n__global__ void j() {}\nextern "C" __global__ void k() {}',
        ),
        ("#if 1\n#endif\n\n__global__ void k() {}", '#if 1\n#endif\n\nextern "C" __global__ void k() {}'),
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
def test_examples_keep_their_names_in_the_binary(path: Path) -> None:
    lifted = lift(path)
    k = lifted.kernel
    rendered = render(Module((), lifted.original, k.params, k.buffers, k.scalars))
    done = compile_cuda(rendered.text)
    assert done.ok and done.cubin is not None, done.log
    assert lifted.original.entry in read_cubin(done.cubin).kernels
