"""Errors planted in texts, and in what renders them: none is proved."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from evolve.codegen.module import render, render_kernel
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.validation.validate import validate_kernel
from tests.codegen.test_planted_errors import PLANTED, Planted
from tests.illegal.forging import good
from tests.validation.suite import KERNELS, Made, made


@dataclass(frozen=True)
class Edit:
    """`old` of a program's text becomes `new`, the first time that it stands there, or the `nth`."""

    what: str
    program: str
    old: str
    new: str
    nth: int = 0


EDITS = (
    Edit("index one too far", "saxpy", "alpha * x[i + i_oi", "alpha * x[1 + i + i_oi"),
    Edit("index with another stride", "vecadd", "i_oi * 1024] + b", "i_oi * 1023] + b"),
    Edit("another array", "saxpy", "+ y[i +", "+ x[i +"),
    Edit("operands swapped", "softmax", "expf(x_row[c_3_oo][0] - m) / s", "s / expf(x_row[c_3_oo][0] - m)"),
    Edit("operands swapped", "softmax", "x_row[c_2_oo][c_2_i] - m", "m - x_row[c_2_oo][c_2_i]"),
    Edit("another function", "softmax", "expf(x_row[c_2_oo]", "exp2f(x_row[c_2_oo]"),
    Edit("another constant", "stencil", "0.2f", "0.2000001f"),
    Edit("initial value lost", "softmax", "float m = -INFINITY;", "float m;"),
    Edit("another initial value", "softmax", "float s = 0.0f;", "float s = 1.0f;"),
    Edit("sign of zero", "softmax", "float s_part = -0.0f;", "float s_part = 0.0f;"),
    Edit("update instead of store", "transpose", "y4.x = ", "y4.y = "),
    Edit("a lane left out", "softmax", "y4.y = expf(x_row[c_3_oo][1] - m) / s;", ""),
    Edit("a lane twice", "softmax", "x_row[x_row_1oo][1] = x4.y;", "x_row[x_row_1oo][1] = x4.x;"),
    Edit("barrier left out", "transpose", "__syncthreads();", ""),
    Edit("barrier of a loop left out", "template matmul 3", "__syncthreads();", "", 1),
    Edit("barrier under a condition", "transpose", "__syncthreads();", "if (tx < 8) { __syncthreads(); }"),
    Edit(
        "a barrier on either side of a condition",
        "transpose",
        "__syncthreads();",
        "if (tx < 8) { __syncthreads(); } else { __syncthreads(); }",
    ),
    Edit(
        "a read-only load of what is written",
        "saxpy",
        "+ y[i + i_oi * 256]",
        "+ __ldg(&y[i + i_oi * 256])",
    ),
    Edit(
        "a hint for what is shared",
        "transpose",
        "x_tile[tx * 4][j_io * 16 + ty]",
        "__ldcg(&x_tile[tx * 4][j_io * 16 + ty])",
    ),
    Edit(
        "a name that hides a parameter",
        "saxpy",
        "    const int tx",
        "    if (n < 0) { float y[4]; }\n    const int tx",
    ),
    Edit("no kernel", "saxpy", "__global__", "__device__"),
    Edit("a name of C++", "saxpy", 'extern "C" __global__', "__global__"),
    Edit(
        "a value set inside a declaration",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s; const float t = (s = 0.0f);",
    ),
    Edit(
        "a loop that counts twice",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s; const int t = c_3_oo++;",
    ),
    Edit(
        "an update of what is a thread's own",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s; const float t = atomicAdd(&s, 1.0f);",
    ),
    Edit(
        "a lane before it is set again",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "y4.x = s; const float t = y4.x; y4.x = expf(x_row[c_3_oo][0] - m) / s;",
    ),
    Edit(
        "a lane that will be set",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "const float t = y4.x; y4.x = expf(x_row[c_3_oo][0] - m) / s;",
    ),
    Edit("a parameter by reference", "saxpy", "int n,", "int& n,"),
    Edit(
        "a read that does not count",
        "template embedding 0",
        "if (",
        "if (ids[0] - ids[5] >= ids[0] - ids[5] && ",
    ),
    Edit(
        "alignment in a comment",
        "transpose-swizzle-16x16",
        "__shared__ __align__(16) float x_tile",
        "// __align__(16)\n    __shared__ float x_tile",
    ),
    Edit(
        "a second function of the name",
        "softmax",
        "__device__ __forceinline__ float block_max_512",
        "__device__ int block_max_512(int v, float*) { return v; }\n"
        "__device__ __forceinline__ float block_max_512",
    ),
    Edit(
        "a call without effects",
        "softmax",
        "__device__ __forceinline__ float block_max",
        "__device__ __attribute__((const)) float block_max",
    ),
    Edit(
        "an alignment that nobody asks for",
        "saxpy",
        "const float* __restrict__ x",
        "const float* __restrict__ __attribute__((align_value(64))) x",
    ),
    Edit(
        "a kernel that does not return",
        "saxpy",
        "__global__ void",
        "__global__ __attribute__((noreturn)) void",
    ),
    Edit(
        "a condition on data in a collective",
        "softmax",
        "const int lane = threadIdx.x % 32;",
        "const int lane = threadIdx.x % 32; if (value > 1e30f) { value = 0.0f; }",
    ),
    Edit(
        "a value cut off in a collective",
        "softmax",
        "const int lane = threadIdx.x % 32;",
        "const int lane = threadIdx.x % 32; value = value > 3.0f ? 3.0f : value;",
    ),
    Edit(
        "a value rounded in a collective",
        "softmax",
        "const int lane = threadIdx.x % 32;",
        "const int lane = threadIdx.x % 32; value = (float)(double)value;",
    ),
    Edit(
        "a comparison for an extreme of floats",
        "softmax",
        "value = fmaxf(value, other);",
        "value = other > value ? other : value;",
    ),
    Edit(
        "a sum of the positive",
        "softmax",
        "value = value + other;",
        "value = other > 0.0f ? value + other : value;",
    ),
    Edit(
        "a place cut to a byte in a collective",
        "softmax",
        "scratch[threadIdx.x / 32] = value;",
        "scratch[(unsigned char)threadIdx.x / 32] = value;",
    ),
    Edit("more shared memory than there is", "histogram", "int h[256]", "int h[300000]"),
    Edit("wait left out", "template matmul 3", "__pipeline_wait_prior(1);", "", 1),
    Edit(
        "wait for too little",
        "template matmul 3",
        "    __pipeline_wait_prior(1);",
        "    __pipeline_wait_prior(2);",
    ),
    Edit("commit left out", "template matmul 3", "        __pipeline_commit();", "", 1),
    Edit("copy of other bytes", "template matmul 3", "+ tx], 4);", "+ tx], 8);"),
    Edit("another buffer version", "template matmul 3", "a[(k_o + 2) % 3]", "a[(k_o + 1) % 3]"),
    Edit("shared array too small", "transpose", "x_tile[64][65]", "x_tile[63][65]"),
    Edit(
        "another pitch for one side",
        "attention",
        "float (&P)[64][132] = *reinterpret_cast<float (*)[64][132]>",
        "float (&P)[64][128] = *reinterpret_cast<float (*)[64][128]>",
    ),
    Edit("arrays on top of each other", "attention", "shared_memory + 50176", "shared_memory + 50160"),
    Edit("more memory than asked for", "attention", "shared_memory + 67584", "shared_memory + 67600"),
    Edit("loop one too short", "softmax", "c_2_oo < 4", "c_2_oo < 3"),
    Edit("loop one too long", "template matmul 3", "k_i < 4", "k_i < 5"),
    Edit("loop of another length", "template matmul 3", "k_o < K / 4; ++k_o", "k_o < K; ++k_o"),
    Edit(
        "guard dropped",
        "template matmul 3",
        "if (i < M && j < N) {",
        "if (j < N) {",
        2,
    ),
    Edit(
        "guard one too far",
        "template stencil 2",
        "if (j_oo * 2 + tx < cols / 4)",
        "if (j_oo * 2 + tx <= cols / 4)",
    ),
    Edit("guard of whole tiles too weak", "template stencil 2", "i_o * 2 + 2 < rows", "i_o * 2 + 1 < rows"),
    Edit("guard of a partial vector", "template stencil 2", "j + j_i >= 1", "j + j_i >= 0"),
    Edit("threads of another axis", "transpose", "const int tx = threadIdx.x", "const int tx = threadIdx.y"),
    Edit("blocks of another axis", "transpose", "const int i_o = blockIdx.y", "const int i_o = blockIdx.x"),
    Edit("every thread adds", "template spmv 2", "if (tx == 0) {\n        y[row]", "{\n        y[row]"),
    Edit("half of the lanes", "softmax", "mask = 16", "mask = 8"),
    Edit(
        "a lane of another warp",
        "softmax",
        "__shfl_xor_sync(0xffffffffu, value, mask)",
        "__shfl_xor_sync(0xffffu, value, mask)",
    ),
    Edit("wrong lane", "cumsum", "value, delta)", "value, delta + 1)"),
    Edit(
        "total of another lane",
        "cumsum",
        "__shfl_sync(0xffffffffu, value, 31)",
        "__shfl_sync(0xffffffffu, value, 30)",
    ),
    Edit("lanes down instead of across", "row_sum", "__shfl_xor_sync", "__shfl_down_sync"),
    Edit(
        "another operation between lanes",
        "softmax",
        "value = fmaxf(value, other);",
        "value = fminf(value, other);",
    ),
    Edit(
        "barrier inside a collective",
        "softmax",
        "    __syncthreads();\n    value = scratch",
        "    value = scratch",
    ),
    Edit("memory of a collective too small", "softmax", "m_scratch[16]", "m_scratch[8]"),
    Edit(
        "memory of a collective used too early",
        "cumsum",
        "__syncthreads();  // acc_scratch is written again",
        "",
    ),
    Edit("another collective", "softmax", "block_max_512(m_part", "block_sum_512(m_part"),
    Edit("a collective of another value", "softmax", "block_sum_512(s_part", "block_sum_512(m_part"),
    Edit("update not atomic", "histogram", "atomicAdd(&hist[tx], h[tx]);", "hist[tx] += h[tx];"),
    Edit("another atomic update", "histogram", "atomicAdd(&hist", "atomicMax(&hist"),
    Edit("a bin for another value", "histogram", "atomicAdd(&h[x4.y], 1);", "atomicAdd(&h[x4.z], 1);"),
    Edit(
        "a register declared in the loop",
        "cumsum",
        "    #pragma unroll\n    for (int c_oo = 0; c_oo < 2; ++c_oo) {\n",
        "    #pragma unroll\n    for (int c_oo = 0; c_oo < 2; ++c_oo) {\n        float acc = 0.0f;\n",
    ),
    Edit(
        "two elements in one place", "softmax", "x_row[x_row_1oo][0] = x4.x;", "x_row[x_row_1oo][1] = x4.x;"
    ),
    Edit("a swizzle that is another", "transpose-swizzle-16x16", "% 8 * 4)]) = x4", "% 4 * 4)]) = x4"),
    Edit(
        "lanes numbered alike", "template transpose 3", "(threadIdx.x >> 1 & 1) |", "(threadIdx.x >> 2 & 1) |"
    ),
    Edit("a store too much", "saxpy", "    #pragma unroll", "    y[0] = 0.0f;\n    #pragma unroll"),
    Edit(
        "a load before its guard",
        "template stencil 2",
        "        if (i_o * 2 >= 1 && j >= 4",
        "        const float4 early = *reinterpret_cast<const float4*>(&x[0]);\n"
        "        if (i_o * 2 >= 1 && j >= 4",
    ),
    Edit(
        "an index that is computed in 32 bits", "template embedding 0", "(long long)ids[t] * d", "ids[t] * d"
    ),
    Edit("more than 32 bits between", "template gelu 0", "idx_o * 64", "idx_o * 64 * 2 / 2"),
    Edit(
        "a lane that one thread sets",
        "softmax",
        "y4.x = expf(x_row[c_3_oo][0] - m) / s;",
        "if (tx == 7) { y4.x = expf(x_row[c_3_oo][0] - m) / s; }",
    ),
    Edit(
        "a coordinate cut to a byte", "softmax", "int tx = threadIdx.x", "int tx = (unsigned char)threadIdx.x"
    ),
    Edit("a coordinate in a byte", "softmax", "const int tx = t", "const unsigned char tx = t"),
    Edit(
        "an integer load of what is not there",
        "histogram",
        "    __syncthreads();",
        "    const int junk = x[n + 100000];\n    __syncthreads();",
    ),
    Edit("bounds that are computed", "softmax", "__launch_bounds__(512)", "__launch_bounds__(512 / 8)"),
    Edit("a comment before a directive", "softmax", 'extern "C"', '/**/#ifdef X\n/**/#endif\nextern "C"'),
    Edit("fewer threads allowed", "saxpy", "__launch_bounds__(256)", "__launch_bounds__(128)"),
    Edit("an instruction of another width", "layernorm-y-last", ".v4.f32", ".v2.f32"),
    Edit("an instruction that stores elsewhere", "layernorm-y-last", "[%0], {%1", "[%1], {%1"),
    Edit("a copy that is no copy", "template matmul 3", "[%0], [%1], 4;", "[%1], [%0], 4;"),
    Edit("a macro", "saxpy", 'extern "C"', '#define threadIdx blockIdx\nextern "C"'),
)


def edited(e: Edit) -> str:
    text = made(e.program).rendered.text
    parts = text.split(e.old)
    assert len(parts) > e.nth + 1, (e.what, text)
    return e.old.join(parts[: e.nth + 1]) + e.new + e.old.join(parts[e.nth + 1 :])


@pytest.mark.parametrize("e", EDITS, ids=lambda e: f"{e.what}: {e.program}")
def test_an_edit_is_found(e: Edit) -> None:
    assert made(e.program).read_back().proved
    verdict = made(e.program).read_back(edited(e))
    assert not verdict.proved, str(verdict)
    assert "Error" not in verdict.reason
    assert "clang" not in verdict.reason


@pytest.mark.parametrize("p", PLANTED, ids=lambda p: p.name)
def test_an_error_of_the_renderer_is_found(p: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = good(p.kernel, p.number)
    assert validate_kernel(kernel, *render_kernel(kernel)).proved
    monkeypatch.setattr(p.owner, p.method, p.change(getattr(p.owner, p.method)))
    assert not validate_kernel(kernel, *render_kernel(kernel)).proved


def test_an_array_that_is_const_and_is_written() -> None:
    """A compiler may load it by the read-only path, whatever is cast away where it is written."""
    text = made("saxpy").rendered.text
    const = (" float* __restrict__ y", " const float* __restrict__ y")
    for old, new in (const, ("    y[", "    ((float*)y)[")):
        assert old in text
        text = text.replace(old, new, 1)
    assert str(made("saxpy").read_back(text)).endswith("y is const and is written")


def test_a_function_of_cuda_that_is_another() -> None:
    text = made("saxpy").rendered.text
    other = "template <> __device__ float __ldcg(const float* p) { return 0.0f; }\n"
    element = "x[i + i_oi * 256]"
    assert f"alpha * {element}" in text
    hinted = text.replace(f"alpha * {element}", f"alpha * __ldcg(&{element})", 1)
    assert made("saxpy").read_back(hinted).proved
    assert not made("saxpy").read_back(hinted.replace('extern "C"', f'{other}extern "C"', 1)).proved


def test_a_counter_of_32_bits_for_a_row_that_may_be_longer() -> None:
    text = (KERNELS / "spmv.cu").read_text()
    text = re.sub(r"const int ?\* ?(__restrict__ )?rowptr", "const long long *rowptr", text).replace(
        "int k", "long long k"
    )
    found = lift("spmv.cu", None, text)
    program = parse("a, b = split(row, 256)\nbind(a, grid.x)\nbind(b, thread.x)\n")
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), program, Limits())
    assert done.module is not None
    it = Made(done.module, render(done.module))
    counter = "for (long long k"
    assert counter in it.rendered.text and it.read_back().proved
    assert not it.read_back(it.rendered.text.replace(counter, "for (int k", 1)).proved
