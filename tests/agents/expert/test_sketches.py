"""The sketches themselves: legal, complete, in a fixed order."""

from __future__ import annotations

import pytest

from evolve.agents.expert.agent import sketches
from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import describe
from evolve.agents.expert.stencils import in_vectors, rows_a_thread
from evolve.agents.holes import read_template
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.transforms.apply import apply_program
from tests.agents.expert.extended import EXTENDED
from tests.agents.expert.reach import KERNELS, problem_of
from tests.frontend.test_variants import VARIANTS

EXAMPLES = sorted(f.stem for f in KERNELS.glob("*.cu"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_sketches_and_the_first_are_proved(name: str) -> None:
    problem = problem_of(name, (KERNELS / f"{name}.cu").read_text())
    info = problem.info()
    found = sketches(info.kernel, info.workload["sizes"])
    assert len(found) == len({s.text for s in found}) >= 4
    for sketch in found[:2]:
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)


@pytest.mark.parametrize("name", ["spmv", "histogram", "total"])
def test_blocks_are_so_many_on_each_multiprocessor(name: str) -> None:
    info = problem_of(name, (KERNELS / f"{name}.cu").read_text()).info()
    large, small = ({s.text for s in sketches(info.kernel, info.workload["sizes"], sms)} for sms in (132, 66))
    assert large - small and small - large
    if name == "spmv":
        assert any("?[924, 528, 660]" in x for x in large) and any("?[462, 264, 330]" in x for x in small)


@pytest.mark.parametrize(("device", "sms"), [("a100-sxm-80gb", 108), ("h200-sxm", 132)])
def test_persistent_grids_are_offered_by_multiprocessors_too(device: str, sms: int) -> None:
    file = KERNELS / "vecadd.cu"
    problem = open_problem(ProblemRequest(str(file), file.read_text(), device=f"sim:{device}"))
    moves = problem.legal_moves("split(i, 256)")
    offered = [m for m in moves if m.startswith("persistent")]
    assert offered == [f"persistent(i.o, {n * sms})" for n in (1, 2, 4)]


def test_what_a_thread_keeps_between_two_sweeps_is_computed_where_it_is_read() -> None:
    info = problem_of("blur", (KERNELS / "blur.cu").read_text()).info()
    first, second = (s.text for s in sketches(info.kernel, info.workload["sizes"])[:2])
    assert "w = compute_at(h, at=r_2.o)" in first
    assert "inline(h)" in second
    softmax = problem_of("softmax", (KERNELS / "softmax.cu").read_text()).info()
    found = "".join(s.text for s in sketches(softmax.kernel, softmax.workload["sizes"]))
    assert "compute_at" not in found and "inline" not in found


def test_sketches_are_a_function_of_the_kernel() -> None:
    text = (KERNELS / "layernorm.cu").read_text()
    infos = [problem_of("layernorm", text).info() for _ in range(2)]
    first, second = (sketches(i.kernel, i.workload["sizes"]) for i in infos)
    assert first == second


def test_columns_outermost_are_brought_inside() -> None:
    info = problem_of("gained", EXTENDED["columns outermost"].text).info()
    shape = describe(info.kernel, info.workload["sizes"])
    assert shape.parallel == ("c", "r")
    assert shape.fastest(shape.parallel) == "c"
    assert "reorder([r, c])" in sketches(info.kernel, info.workload["sizes"])[0].text


PITCHED = {
    "copy": """__global__ void k(float *dst, int ldd, const float *src, int lds, int rows, int cols) {
        int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
        if (r < rows && c < cols) dst[r * ldd + c] = src[r * lds + c];
    }""",
    "row sums": """__global__ void k(float *out, const float *src, int ld, int rows, int cols) {
        int r = blockIdx.x * blockDim.x + threadIdx.x;
        if (r >= rows) return;
        float s = 0.f;
        for (int c = 0; c < cols; ++c) s += src[r * ld + c];
        out[r] = s;
    }""",
}


@pytest.mark.parametrize("name", list(PITCHED))
def test_arrays_whose_rows_a_size_spaces_out_have_sketches_that_are_proved(name: str) -> None:
    problem = problem_of("k", PITCHED[name])
    info = problem.info()
    found = sketches(info.kernel, info.workload["sizes"])
    for sketch in found[:2]:
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)
    assert all(s.text.count("specialize") == 1 for s in found)


WINDOWS = {
    "taps from a size": """__global__ void k(const float *x, const float *w, float *y, int n, int taps) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float s = 0.f;
        for (int t = 0; t < taps; ++t) s += w[t] * x[i + t];
        y[i] = s;
    }""",
    "rows, summed in memory": """__global__ void k(const float *x, float *y, int rows, int cols) {
        int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
        if (r >= rows || c >= cols - 4) return;
        y[r * cols + c] = 0.f;
        for (int t = 0; t < 5; ++t) y[r * cols + c] += x[r * cols + c + t];
    }""",
}


@pytest.mark.parametrize("name", list(WINDOWS))
def test_windows_along_the_contiguous_loop_come_in_registers(name: str) -> None:
    sizes = "n = 1048576\ntaps = 7" if "taps" in name else "rows = 1024\ncols = 2048"
    problem = problem_of("k", WINDOWS[name], f"[[timed]]\n{sizes}\n")
    info = problem.info()
    found = sketches(info.kernel, info.workload["sizes"])
    assert "x_window = stage(x, " in found[0].text
    for sketch in found[:4]:
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)
    assert all("taps == 7" in s.text for s in found) == ("taps" in name)


def test_entries_of_a_sparse_matrix_are_shared_out_too() -> None:
    workload = (KERNELS / "workloads" / "spmv-power_law.toml").read_text()
    problem = problem_of("spmv", (KERNELS / "spmv.cu").read_text(), workload)
    info = problem.info()
    by_lanes, *shared = sketches(info.kernel, info.workload["sizes"])[:4]
    assert "warp_reduce(k.i)" in by_lanes.text
    for sketch in shared:
        template = read_template(sketch.text)
        assert "balance(k, by=rowptr)" in sketch.text and len(template.choices) == 1
        compiled = problem.compile(parse(template.fill((0,))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)


def test_small_matrices_have_tiles_of_their_size() -> None:
    info = problem_of("batched_matmul", (KERNELS / "batched_matmul.cu").read_text()).info()
    found = sketches(info.kernel, info.workload["sizes"])
    assert "tile([row, col], [32, 32])" in found[0].text
    large = sketches(info.kernel, {**info.workload["sizes"], "m": 64, "n": 64})
    assert not any("[32, 32]" in s.text for s in large[:6])


@pytest.mark.parametrize("name", ["matmul", "products in a batch"])
def test_products_are_offered_with_the_next_tiles_under_way_first(name: str) -> None:
    e = EXTENDED.get(name)
    problem = problem_of(
        name, e.text if e else (KERNELS / f"{name}.cu").read_text(), e.workload if e else None
    )
    info = problem.info()
    waiting, ahead = sketches(info.kernel, info.workload["sizes"])[:2]
    assert "make_async(A_tile)" in ahead.text and "pipeline" not in waiting.text
    for sketch in (waiting, ahead):
        compiled = problem.compile(parse(sketch.text))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)


def test_the_first_sketch_of_a_product_is_the_program() -> None:
    """As CUDA text, apart from comments that name the statements."""
    problem = problem_of("matmul", (KERNELS / "matmul.cu").read_text())
    info = problem.info()
    first = problem.compile(parse(sketches(info.kernel, info.workload["sizes"])[0].text))
    program = problem.compile(parse((KERNELS / "programs" / "matmul.dsl").read_text()))
    assert first.module_hash == program.module_hash


def test_the_parts_of_a_nest_are_counted() -> None:
    e = EXTENDED["product with the second operand turned, scaled and added"]
    shape = describe(problem_of("nt", e.text).info().kernel, {"m": 128, "n": 128, "k": 128})
    assert [(p.loop, p.stores) for p in shape.pieces] == [(None, False), ("t", False), (None, True)]


@pytest.mark.parametrize(
    ("name", "cols", "pairs"),
    [("stencil", 8192, 5), ("stencil", 8191, 0), ("stencil3x3", 8192, 2), ("stencil3x3", 8191, 0)],
)
def test_neighbouring_rows_come_in_pairs_of_columns(name: str, cols: int, pairs: int) -> None:
    """Stored together, or copied together where sums stand inside; an odd number of columns has no pairs."""
    sizes = {"rows": 8192, "cols": cols}
    problem = problem_of(name, (KERNELS / f"{name}.cu").read_text())
    found = list(rows_a_thread(describe(problem.info().kernel, sizes), sizes))
    assert sum("vectorize" in s.text for s in found) == pairs and len(found) == pairs + 5
    for sketch in found:
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)


@pytest.mark.parametrize("name", ["stencil", "stencil3x3"])
def test_stencils_are_offered_in_aligned_vectors_first(name: str) -> None:
    problem = problem_of(name, (KERNELS / f"{name}.cu").read_text())
    kernel = problem.info().kernel
    sizes = {"rows": 8192, "cols": 8192}
    found = list(in_vectors(describe(kernel, sizes), sizes))
    assert [s.text for s in sketches(kernel, sizes)][:2] == [s.text for s in found]
    for sketch in found:
        assert "shift(" in sketch.text and "align=4" in sketch.text
        template = read_template(sketch.text)
        compiled = problem.compile(parse(template.fill((0,) * len(template.choices))))
        assert compiled.verdict == "PROVED", (sketch.text, compiled.diagnostics)
    odd = {"rows": 8192, "cols": 8190}
    assert not list(in_vectors(describe(kernel, odd), odd))


def test_needs_join_into_one_condition_that_holds() -> None:
    info = problem_of("vecadd", (KERNELS / "vecadd.cu").read_text()).info()
    shape = describe(info.kernel, {"n": 4096 * 3})
    facts = Facts(shape, {"n": 4096 * 3})
    assert facts.multiple("i", 4)
    assert facts.multiple("i", 6)
    assert not facts.multiple("i", 5)
    assert facts.statement() == "specialize(n % 12 == 0)"
    facts.constant("i")
    assert facts.statement() == "specialize(n == 12288)"


def test_blocks_that_read_the_same_rows_run_together() -> None:
    info = problem_of("masked_softmax", (KERNELS / "masked_softmax.cu").read_text()).info()
    assert "bind(row, grid.x)\nbind(q, grid.y)" in sketches(info.kernel, info.workload["sizes"])[0].text
    assert on_grid([("h", 8)], ("r", 9), "h") == ["bind(h, grid.x)", "bind(r, grid.y)"]
    assert on_grid([("h", 8)], ("r", 100_000), "h") == ["bind(h, grid.y)", "bind(r, grid.x)"]


def test_long_loops_go_to_the_long_axis_of_the_grid() -> None:
    assert on_grid([("r", 100_000)], ("c", 4)) == ["bind(r, grid.x)", "bind(c, grid.y)"]
    assert on_grid([("r", 100)], ("c", 100_000)) == ["bind(r, grid.y)", "bind(c, grid.x)"]
    assert on_grid([("r", 100_000)], ("c", 100_000)) is None


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [4096, 257])
def test_every_kernel_that_lifts_has_a_sketch_that_applies(name: str, size: int) -> None:
    kernel = lift("variant.cu", None, VARIANTS[name]).kernel
    found = sketches(kernel, {s.name: size for s in kernel.scalars if s.is_size})
    assert found
    template = read_template(found[0].text)
    assert apply_program(kernel, parse(template.fill((0,) * len(template.choices)))).kernel != kernel


def test_rows_of_different_lengths_are_shared_by_a_block() -> None:
    kernel = lift("lower.cu", None, VARIANTS["lower triangle and a window"]).kernel
    shape = describe(kernel, {"rows": 64, "cols": 64})
    assert shape.varies("c")
    assert not shape.varies("r")
    first = sketches(kernel, {"rows": 4096, "cols": 4096})[0].text
    assert "bind(c.i, thread.x)" in first
    assert "vectorize" not in first


@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "masked_softmax"])
def test_rows_of_any_length_are_read_once_for_their_exponentials(name: str) -> None:
    problem = problem_of(name, (KERNELS / f"{name}.cu").read_text())
    info = problem.info()
    (once,) = [s for s in sketches(info.kernel, info.workload["sizes"]) if "online(" in s.text]
    assert "% 1024 == 0" in once.text and "==" not in once.text.replace("% 1024 == 0", "")
    compiled = problem.compile(parse(once.text))
    assert compiled.verdict == "PROVED", compiled.diagnostics
