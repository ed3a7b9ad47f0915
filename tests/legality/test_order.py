"""`exact`: programs that keep each chain of roundings are proved, their reordered twins are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program, finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import Expr, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.ordered import in_chains
from evolve.ir.stmt import Reduce, Stmt, Store
from evolve.ir.visit import map_stmt_exprs, rewrite, substitute
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Verdict
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import MoveLimits, legal_moves
from evolve.transforms.names import NameTable
from tests.illegal.forging import scheduled
from tests.illegal.lifted import source
from tests.transforms.fixtures import KERNELS, applied
from tests.transforms.programs import KERNEL_OF, PROGRAMS

EXACT = Limits(numerics="exact")
LOOSE = Limits()
TWO_SUMS = """
__global__ void two(const float *a, const float *b, float *y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int i = 0; i < 64; i++) s += a[r * 64 + i];
    for (int j = 0; j < 64; j++) s += b[r * 64 + j] * 3.0f;
    y[r] = s;
}
"""


RUNNING_PRODUCT = """
__global__ void running(const float *a, float *y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float p = 1.0f, s = 0.0f;
    for (int i = 0; i < 4; i++) {
        p *= a[r * 4 + i];
        s += p;
    }
    y[r] = s;
}
"""


ROW_SUM = """
__global__ void row_sum(const float *x, float *y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int c = 0; c < cols; c++) s += x[r * cols + c];
    y[r] = s;
}
"""


def lifted(text: str) -> Source:
    found = lift("k.cu", None, text)
    return Source(found.kernel, found.original, found.no_wrap)


def kernel_of(name: str) -> Kernel:
    return lifted(ROW_SUM).kernel if name == "row_sum" else KERNELS[name]()


def verdict(source: Kernel, target: Kernel, limits: Limits = EXACT) -> Verdict:
    return prove(source, finish(target), limits)


def only_order(source: Kernel, target: Kernel) -> Verdict:
    """Of a target that is right but for the order of a sum."""
    assert verdict(source, target, LOOSE).proved
    v = verdict(source, target)
    assert not v.proved and {d.code for d in v.diagnostics} == {"E-ORDER"}
    return v


@pytest.mark.parametrize("name", ["matmul", "transpose", "vecadd"])
def test_programs_that_tile_results_keep_the_order(name: str) -> None:
    found = [n for n in PROGRAMS if KERNEL_OF[n] == name]
    assert found
    v = verdict(KERNELS[name](), applied(name, PROGRAMS[found[0]]).kernel)
    assert v.proved, v.diagnostics
    assert any("--fmad=false" in x for x in v.premises)


@pytest.mark.parametrize(
    "program",
    [
        "split(c, 4)\nunroll(c.i)",
        "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.x)",
        "specialize(cols % 8 == 0)\nbind(r, grid.x)\nsplit(c, 8)\nt = stage(x, at=c.o, scope=shared)\n"
        "bind(t.1, thread.x)",
        "peel(c, 1)",
    ],
)
def test_a_row_s_sum_in_its_order(program: str) -> None:
    source = lifted(ROW_SUM).kernel
    v = verdict(source, apply_program(source, parse(program)).kernel)
    assert v.proved, v.diagnostics


@pytest.mark.parametrize(
    ("kernel", "program"),
    [
        ("row_sum", "split(c, 8)\nreorder([c.i, c.o])"),
        ("row_sum", "split(c, 8)\nsplit_reduction(c.i)"),
        ("row_sum", "bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)"),
        ("row_sum", "bind(r, grid.x)\nsplit(c, 64)\nblock_reduce(c.i)"),
        ("softmax", "online([c], [c_2])"),
        ("column_sum", "accumulate_in_register(r, y)"),
        ("matmul", "split(k, 16)\nreorder([k.i, k.o])"),
    ],
)
def test_reordered_and_partial_sums_are_refused(kernel: str, program: str) -> None:
    source = kernel_of(kernel)
    only_order(source, apply_program(source, parse(program)).kernel)


def test_a_maximum_may_come_in_any_order() -> None:
    target = applied("softmax", "bind(row, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)").kernel
    v = verdict(KERNELS["softmax"](), target)
    assert v.proved, v.diagnostics


def test_two_sums_into_one_cell_stay_behind_each_other() -> None:
    source = lifted(TWO_SUMS).kernel
    assert verdict(source, apply_program(source, parse("split(r, 32)\nbind(r.o, grid.x)")).kernel).proved
    only_order(source, apply_program(source, parse("jam(i, j)")).kernel)


def test_a_chain_from_its_end_is_another() -> None:
    """The same contributions, each once, last first."""
    source = lifted(TWO_SUMS).kernel

    def turned(e: Expr) -> Expr:
        return substitute(e, {"i": sub(index(63), var("i"))})

    def one(s: Stmt) -> Stmt | None:
        first = isinstance(s, Store | Reduce) and s.origin is not None and var("i") in s.origin.instance
        return map_stmt_exprs(s, turned) if first else None

    target = replace(source, body=rewrite(source.body, one))
    assert target != source
    v = only_order(source, target)
    assert "another order" in v.diagnostics[0].message and v.diagnostics[0].witness


@pytest.mark.parametrize("text", [TWO_SUMS, RUNNING_PRODUCT])
def test_products_are_rounded_by_themselves(text: str) -> None:
    program = parse("split(r, 32)\nbind(r.o, grid.x)\nbind(r.i, thread.x)")
    for limits, rounded in ((EXACT, True), (LOOSE, False)):
        done = compile_program(lifted(text), program, limits)
        assert done.module is not None, done.verdict.diagnostics
        (kernel,) = done.module.variants[0].kernels
        assert ("mul_rn" in repr(kernel.body)) == rounded
        cubin = compile_cuda(render(done.module).text).cubin
        assert cubin is not None
        (code,) = (sass for name, sass in disassemble([cubin])[0].items() if name.endswith("_v1"))
        assert (code.mix["fp32_fma"] == 0) == rounded
        assert not rounded or code.mix["fp32_mul"] > 0


def test_a_function_that_is_contracted_inside_is_refused() -> None:
    guarded = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
    text = f"__global__ void k(const double *x, double *y, int n) {{ {guarded} y[i] = %s(x[i]); }}"
    for function, exact in (("log1p", False), ("exp", True)):
        source = lifted(text % function).kernel
        assert verdict(source, source).proved == exact and verdict(source, source, LOOSE).proved


def test_moves_regroup_no_sum() -> None:
    kernel, names = apply_program(lifted(ROW_SUM).kernel, parse("split(c, 32)")).kernel, NameTable()
    loose = legal_moves(kernel, names)
    exact = legal_moves(kernel, names, MoveLimits(numerics="exact"))
    assert set(exact) < set(loose) and "split_reduction(c.i)" in set(loose) - set(exact)
    assert all(in_chains(apply_program(kernel, parse(m)).kernel) for m in exact[:20])


@pytest.mark.parametrize(
    "program", ["split(row, 4)\nbind(row.o, grid.x)\nbind(row.i, thread.x)", "split(k, 4)"]
)
def test_rows_whose_length_memory_gives_are_added_up_in_order(program: str) -> None:
    start = source("spmv").kernel
    assert prove(start, scheduled("spmv", program), EXACT).proved


def test_such_rows_in_another_order_are_refused() -> None:
    start, target = source("spmv").kernel, scheduled("spmv", "split(k, 4)\nreorder([k.i, k.o])")
    assert prove(start, target).proved
    verdict = prove(start, target, EXACT)
    assert {d.code for d in verdict.diagnostics} == {"E-ORDER"}


def test_what_is_missing_in_any_order_is_said_to_be_missing() -> None:
    """It is no matter of the contract where nothing stands in its place."""
    k = source("row_sum").kernel

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        return () if isinstance(s, Store) and s.buffer == "out" else None

    missing = finish(replace(k, body=rewrite(k.body, one)))
    assert [d.code for d in prove(k, missing, EXACT).diagnostics] == ["E-COVERAGE"]
