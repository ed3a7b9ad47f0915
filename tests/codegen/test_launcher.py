"""The file that a person takes away: it is CUDA C++ with a launch function, and can be read back."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.clang import parse as parse_cuda
from evolve.frontend.lift import lift, list_kernels
from evolve.ir.errors import EvolveError
from evolve.legality.verdict import Limits
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvcc import compile_with_nvcc
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.model import Contract
from tests.codegen import scheduled_ir
from tests.codegen.modules import module_of


def has_nvcc() -> bool:
    try:
        return compile_with_nvcc("__global__ void k() {}").ok
    except EvolveError:
        return False


def without_comments(text: str) -> str:
    """The words of a text with one blank between them."""
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def file_of(name: str) -> tuple[str, Rendered]:
    module = module_of(scheduled_ir.SCHEDULED[name]())
    rendered = render(module)
    return rendered.text + "\n" + render_launcher(rendered, rendered.original.params), rendered


@pytest.mark.parametrize("name", list(scheduled_ir.SCHEDULED))
def test_the_file_parses_as_cuda_and_compiles_without_its_host_part(name: str, tmp_path: Path) -> None:
    text, rendered = file_of(name)
    path = tmp_path / "best.cu"
    path.write_text(text)
    assert {k.name for k in list_kernels(path)} == set(rendered.signatures)
    done = compile_cuda(text)
    assert done.ok, done.log


def test_the_original_lifts_from_the_file(tmp_path: Path) -> None:
    text, rendered = file_of("transpose_tiled")
    path = tmp_path / "best.cu"
    path.write_text(text)
    lifted = lift(path, rendered.original.kernel)
    assert lifted.kernel.params == ("x", "y", "rows", "cols")


def test_the_text_of_a_launcher() -> None:
    text, _ = file_of("vecadd")
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    assert (
        launcher
        == """\
#ifndef __CUDACC_RTC__
// Launches vecadd_v1 where all that is asked below holds, else vecadd_original. Returns the error
//   of the launch.
inline cudaError_t launch_vecadd(
    const float* a,
    const float* b,
    float* c,
    int n,
    cudaStream_t stream = 0
) {
    const long long n_ = n;
    const auto apart = [](const void* a, long long a_size, const void* b, long long b_size) {
        return (const char*)a + a_size <= b || (const char*)b + b_size <= a;
    };
    if ((unsigned long long)a % 16 == 0  // for accesses of 16 bytes
        && (unsigned long long)b % 16 == 0
        && (unsigned long long)c % 16 == 0
        && n_ % 4 == 0  // what the program is specialized for
        && n_ <= 2147482624  // index arithmetic fits 32 bits
        && n_ >= 1  // proved of sizes from 1 on
        && apart(a, 4LL * n_, c, 4LL * n_)  // __restrict__
        && apart(b, 4LL * n_, c, 4LL * n_)) {
        if ((n_ + 1023) / 1024 > 0) {
            vecadd_v1<<<dim3((unsigned int)((n_ + 1023) / 1024)), dim3(256), 0,
                stream>>>(a, b, c, n);
        }
        return cudaGetLastError();
    }
    if ((n_ + 63) / 64 > 0) {
        vecadd_original<<<dim3((unsigned int)((n_ + 63) / 64)), dim3(64), 0, stream>>>(a, b, c, n);
    }
    return cudaGetLastError();
}
#endif
"""
    )


LONG = """
__global__ void scale(float* aligned, const float* apart, unsigned long long n, unsigned long long unused) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) aligned[i] = apart[i] > 0.0f ? 2.0f * apart[i] : -INFINITY;
}
"""
GATHER = """
__global__ void gather(const int* at, const unsigned char* kept, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = kept[i] ? x[at[i]] : 0.0f;
}
"""
PLANES = """
__global__ void planes(const float* x, float* y, int planes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int p = blockIdx.y;
    if (p >= planes || i >= n) return;
    const float* row = x + ((size_t)p * n + i) * 64;
    float* out = y + ((size_t)p * n + i) * 64;
    for (int c = 0; c < 64; c++) out[c] = row[c] * 2.0f;
}
"""
PROGRAM = "split(i, 1024)\nsplit(i.i, 4)\nbind(i.o, grid.x)\nbind(i.i.o, thread.x)\nvectorize(i.i.i, 4)\n"


def launcher_of(source: str, program: str, numerics: Contract = "reassociate") -> str:
    lifted = lift("k.cu", text=source)
    limits = Limits(numerics=numerics)
    done = compile_program(Source(lifted.kernel, lifted.original, lifted.no_wrap), parse(program), limits)
    assert done.module is not None, done.verdict
    rendered = render(done.module)
    return f"{rendered.text}\n{render_launcher(rendered, rendered.original.params)}"


def test_names_of_the_user_and_what_nothing_uses() -> None:
    text = launcher_of(LONG, "specialize(n % 1024 == 0)\n" + PROGRAM)
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    assert "    float* aligned,\n    const float* apart,\n" in launcher
    asked = "if ((unsigned long long)aligned % 16 == 0 && (unsigned long long)apart % 16 == 0"
    assert asked in without_comments(launcher)
    assert "apart_2(aligned, 4LL * n_, apart, 4LL * n_)" in launcher
    assert "(long long)unused" not in launcher, "a size that nothing needs has no copy"
    assert "const int n =" not in text, "the kernel's body does not use it: the grid covers it exactly"
    assert text.count("#define INFINITY") == 1
    assert "#define INFINITY" in text[: text.index("scale_v1")], "before its first use"


def test_arrays_of_integers_are_no_sizes(tmp_path: Path) -> None:
    """clang knows nothing of the runtime here, but it knows a name that is declared twice."""
    text = launcher_of(GATHER, "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")
    path = tmp_path / "best.cu"
    path.write_text(text)
    assert not [p.message for p in parse_cuda(path).problems if "redefinition" in p.message]
    assert "const long long n_ = n;" in text and "(long long)at;" not in text and "= at;" not in text


def test_a_bound_that_no_integer_reaches_is_asked_in_double(tmp_path: Path) -> None:
    text = launcher_of(PLANES, "split(i, 64)\nbind(p, grid.y)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")
    path = tmp_path / "best.cu"
    path.write_text(text)
    assert not [p.message for p in parse_cuda(path).problems if "too large" in p.message]
    assert "(double)n_ * (double)planes_ * 64 <= 9.0e+18 &&" in without_comments(text)


def test_in_place_use_is_left_to_the_original() -> None:
    text = launcher_of(LONG.replace("const float*", "float*"), "specialize(n % 1024 == 0)\n" + PROGRAM)
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    assert "    float* apart,\n" in launcher, "as the user declared it, though nothing writes it"
    assert "&& apart_2(" in launcher
    alone = launcher_of(LONG, "")
    assert "apart_2" not in alone[alone.index("#ifndef __CUDACC_RTC__") :], "the original asks for nothing"


def test_fingerprints_ignore_comments_and_nothing_else() -> None:
    a = render(module_of(scheduled_ir.vecadd()))
    noted = replace(a, text=a.text.replace("// Valid", "// other"))
    assert noted.text != a.text and noted.fingerprint == a.fingerprint
    assert render(module_of(scheduled_ir.vecadd(128))).fingerprint != a.fingerprint
    assert render(module_of(scheduled_ir.vecadd(multiple_of_4=False))).fingerprint != a.fingerprint
    assert replace(a, variants=()).fingerprint != a.fingerprint


def test_a_grid_over_a_difference_of_sizes() -> None:
    text = """__global__ void k(float *y, const float *x, int n, int m) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n - m) y[i] = x[i + m]; }"""
    lifted = lift("k.cu", None, text)
    done = compile_program(Source(lifted.kernel, lifted.original, lifted.no_wrap), parse(""), Limits())
    assert done.module is not None
    rendered = render(done.module)
    launcher = render_launcher(rendered, rendered.original.params)
    # Rounded towards zero, a negative quotient is at most 0 like the one rounded down, and launches nothing.
    grid = "(n_ - m_ + 255) / 256"
    launcher = without_comments(launcher.replace("k_original", "k"))
    assert f"if ({grid} > 0) {{ k<<<dim3((unsigned int)({grid}))" in launcher


def test_dynamic_shared_memory_is_asked_for_before_the_launch() -> None:
    text, rendered = file_of("transpose_dynamic")
    (launch,) = rendered.variants[0].launches
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    asked = f"&& allowed({launch.kernel}, {launch.shared_bytes})) {{"
    assert asked in without_comments(launcher), "else the original runs"
    assert f"dim3(32, 16), {launch.shared_bytes}, stream>>>" in without_comments(launcher)
    assert "most = cudaFuncAttributeMaxDynamicSharedMemorySize;" in launcher
    plain, _ = file_of("transpose_float4")
    assert "allowed" not in plain, "static arrays need no leave"


def test_a_carveout_is_preferred_before_the_launch_and_part_of_what_runs() -> None:
    kernel = scheduled_ir.SCHEDULED["vecadd"]()
    plain, asking = (render(module_of(replace(kernel, carveout=c))) for c in (None, 25))
    assert asking.variants[0].launches[0].carveout == 25
    assert asking.fingerprint != plain.fingerprint
    launcher = render_launcher(asking, asking.original.params)
    asked, called = (launcher.index(t) for t in ("SharedMemoryCarveout, 25)", "vecadd_v1<<<"))
    assert asked < called
    assert "Carveout" not in render_launcher(plain, plain.original.params)


def test_the_most_registers_stand_in_place_of_launch_bounds_and_are_kept_to() -> None:
    text = render(module_of(replace(scheduled_ir.SCHEDULED["softmax_block"](), registers=24))).text
    assert "__maxnreg__(24)" in text and "__launch_bounds__" not in text.split("// The original")[0]
    done = compile_cuda(text)
    assert done.ok, done.log
    (registers,) = (k.registers for n, k in read_cubin(done.cubin).kernels.items() if n.endswith("_v1"))
    assert registers <= 24


OWN = """#define BLOCK 256
#define SQUARE(x) ((x) * \\
    (x))
#ifndef WAYS
#define WAYS 2
#endif
#define INCLUDED
/*
#define NULL 1
*/
typedef unsigned int uint;
__global__ void own(const float *x, const uint32_t *m, float *y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    if (i < n) y[i] = SQUARE(x[i]) / WAYS + expf((float)(uint)m[i]);
}
"""
"""Its own macros and types, beside those of <cstdint>; what it divides and raises may be approximate."""


def test_macros_of_the_kernel_end_with_the_file() -> None:
    text = launcher_of(OWN, PROGRAM)
    assert text.endswith("#endif\n#undef BLOCK\n#undef SQUARE\n")
    assert compile_cuda(text).ok


def test_types_of_headers_are_those_of_the_headers() -> None:
    """A macro in their place would change every file that includes this one."""
    original = launcher_of(OWN, "")
    assert "#define int64_t" not in original and original.count("unsigned int uint;") == 1
    assert "#ifdef __CUDACC_RTC__\ntypedef long long int64_t;\ntypedef unsigned int uint32_t;\n" in original
    assert "#elif defined(__CUDACC__)\n#include <cstdint>\n#endif\n" in original


def test_approximate_functions_are_named() -> None:
    said = "// Approximate functions: __fdividef, __expf.\n"
    assert said in launcher_of(OWN, f"set_precision(y, fast)\n{PROGRAM}", "fast")
    assert "Approximate" not in launcher_of(OWN, PROGRAM, "fast")


def test_arrays_of_unknown_length_are_said_not_to_be_checked() -> None:
    program = "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)"
    told = "// How long x must be, no parameter says: that the caller's do not overlap\n"
    assert told in launcher_of(GATHER, program)
    assert "How long" not in launcher_of(GATHER, "") + launcher_of(LONG, PROGRAM)


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc here, or no g++ that it can use")
def test_the_file_compiles_without_a_warning() -> None:
    text = launcher_of(OWN, f"set_precision(y, fast)\n{PROGRAM}", "fast")
    done = compile_with_nvcc(text, "sm_90", ("-Werror", "all-warnings"))
    assert done.ok, done.log


def test_alignment_is_asked_where_there_are_vectors_only() -> None:
    text = launcher_of(GATHER, "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")
    assert "% 16" not in text and "at a multiple" not in text
    pairs = launcher_of(LONG, "specialize(n % 1024 == 0)\n" + PROGRAM.replace("4", "2"))
    asked = "if ((unsigned long long)aligned % 8 == 0 && (unsigned long long)apart % 8 == 0 &&"
    assert asked in without_comments(pairs)
    assert "//   aligned and apart start at a multiple of 8 bytes (vector accesses);\n" in pairs
    staged = "specialize(n % 1024 == 0)\nsplit(i, 1024)\nstage(apart, at=i.o, scope=shared)\n"
    copies = staged + "split(apart_s.0, 4)\nbind(i.o, grid.x)\nbind([i.i, apart_s.0.o], thread.x)\n"
    text = launcher_of(LONG, copies + "vectorize(apart_s.0.i, 4)\n")
    assert "(unsigned long long)apart % 16 == 0" in text and "aligned %" not in text


ALONE = """
__global__ void alone(float* y) {
    int i = threadIdx.x;
    if (i < 64) y[i] = 1.0f;
}
"""


def test_what_depends_on_nothing_has_no_other_way() -> None:
    text = launcher_of(ALONE, "bind(i, thread.x)")
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    assert "alone_v1<<<" in launcher and "alone_original" not in launcher and "if (" not in launcher
