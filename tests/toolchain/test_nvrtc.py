"""NVRTC compiles in-process, says what is wrong with a line, and stands concurrent use."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version, supported_archs

SMALL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] *= %s; }'


def test_a_good_text_gives_an_image_for_its_target() -> None:
    result = compile_cuda(SMALL % "2.0f", "sm_90")
    assert result.ok
    assert result.cubin is not None
    assert result.cubin[:4] == b"\x7fELF"
    assert result.errors == ()
    image = read_cubin(result.cubin)
    assert image.sm == 90
    assert list(image.kernels) == ["k"]


def test_the_same_text_gives_the_same_image() -> None:
    first, second = (compile_cuda(SMALL % "3.0f").cubin for _ in range(2))
    assert first == second
    assert first != compile_cuda(SMALL % "4.0f").cubin


def test_a_bad_text_is_a_result_with_lines() -> None:
    result = compile_cuda("__global__ void k() {\n  int unused;\n  foo(); }\n\n__device__ int y = z;\n")
    assert not result.ok
    assert result.cubin is None
    assert [(d.line, d.severity) for d in result.errors] == [(3, "error"), (5, "error")]
    assert 'identifier "foo" is undefined' in result.errors[0].message
    assert any(d.severity == "warning" and d.line == 2 for d in result.diagnostics)


def test_what_the_assembler_refuses_is_said() -> None:
    text = (
        "__global__ void k(float *y) { __shared__ float x[70000]; x[threadIdx.x] = 1; y[0] = x[y[1] > 0]; }"
    )
    result = compile_cuda(text)
    assert not result.ok
    assert result.errors[0].line is None
    assert "too much shared data" in result.errors[0].message


def test_a_missing_header_and_a_nul_are_errors_with_a_line() -> None:
    result = compile_cuda('\n#include "no_such_header.h"\n')
    assert [d.line for d in result.errors] == [2]
    result = compile_cuda("__global__ void k() {}\n\0 rubbish")
    assert not result.ok
    assert [d.line for d in result.errors] == [2]


@pytest.mark.parametrize("arch", ["sm_70", "sm_999", "gfx942", "", "compute_90", "sm_90 -I/"])
def test_a_target_it_lacks_is_an_error(arch: str) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_cuda(SMALL % "1", arch)
    assert caught.value.code == "unsupported-arch"


def test_a_wrong_option_is_an_error() -> None:
    with pytest.raises(EvolveError) as caught:
        compile_cuda(SMALL % "1", options=["--no-such-option"])
    assert caught.value.code == "bad-compile-option"


def test_options_are_heeded() -> None:
    assert compile_cuda(SMALL % "FACTOR", options=["-DFACTOR=2.0f"]).ok
    assert not compile_cuda(SMALL % "FACTOR").ok


def test_architecture_variants_compile() -> None:
    assert {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"} <= set(supported_archs())
    assert nvrtc_version() >= (13, 0)
    assert compile_cuda(SMALL % "1", "sm_90a").ok


def test_threads_compile_different_texts_at_once() -> None:
    texts = [SMALL % f"{n}.5f" for n in range(24)]
    alone = [compile_cuda(text).cubin for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = [result.cubin for result in pool.map(compile_cuda, texts)]
    assert together == alone


def test_a_compilation_takes_tens_of_milliseconds() -> None:
    compile_cuda(SMALL % "1")
    started = time.perf_counter()
    for n in range(5):
        compile_cuda(SMALL % f"{n}.25f")
    assert (time.perf_counter() - started) / 5 < 0.5


def test_importing_it_loads_no_cuda() -> None:
    code = "import sys, evolve.toolchain.nvrtc; print(any(m.startswith('cuda') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
