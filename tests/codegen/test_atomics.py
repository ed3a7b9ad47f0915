"""Atomic updates as code: what is rendered, and that it computes what the kernel does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.prepared_programs import files_of
from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.codegen.module import render
from evolve.codegen.reference_cuda import render_reference_cuda
from evolve.codegen.reference_model import Role
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import execute
from evolve.dsl.parser import parse
from evolve.frontend.lift import Lifted, lift
from evolve.legality.verdict import Limits
from evolve.scoring.correctness import Checked, Correctness, Failure
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.target.profile import load_profile
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.infer import infer
from tests.codegen.conftest import Runner
from tests.codegen.test_reference import reference

MERGED = [f for f in files_of("histogram") if "privatize" in f.read_text()]
"""Those that write every bin."""
(COLUMNS,) = (f for f in files_of("histogram") if f.stem == "histogram-columns")
KERNEL = Path(__file__).parents[2] / "kernels" / "histogram.cu"
PLAIN = "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
TOGETHER = PLAIN + "aggregate({buffer}, warp)\n"


def rendered(found: Lifted, program: str) -> Rendered:
    source = Source(found.kernel, found.original, found.no_wrap)
    compiled = compile_program(source, parse(program), Limits())
    assert compiled.module is not None, compiled.verdict.diagnostics
    return render(compiled.module)


def gathering(name: str, kind: str, value: str = "x[i]") -> Lifted:
    text = f"""
    __global__ void k(const int *where, const {kind} *x, {kind} y[8], int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) {name}(&y[where[i]], {value});
    }}"""
    return lift("kernel.cu", None, text)


@pytest.mark.parametrize("file", MERGED, ids=lambda f: f.stem)
@pytest.mark.parametrize("n", [3, 17001])
def test_the_programs_count(file: Path, n: int, run_rendered: Runner) -> None:
    """With shorter parts for the blocks, so that there are several, some of them whole."""
    program = file.read_text().replace("512000", "8192")
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.int32)
    before = np.arange(256, dtype=np.int32)
    arrays = {"x": x, "hist": before}
    got = run_rendered(rendered(lift(KERNEL), program), arrays, {"n": n}, {"hist"}, inout={"hist"})
    np.testing.assert_array_equal(got["hist"], before + np.bincount(x, minlength=256))


def test_lanes_have_columns_of_their_own_and_read_in_vectors() -> None:
    text = rendered(lift(KERNEL), COLUMNS.read_text()).text
    assert "int h[256][32];" in text
    assert "const int4 x4 = " in text
    assert "atomicAdd(&h[x4.w][tx], 1);" in text
    assert text.count("atomicAdd(&hist[") == 2, "the merge, and the original"


@pytest.mark.parametrize("program", [PLAIN, TOGETHER.format(buffer="y")], ids=["alone", "together"])
@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        ("atomicAdd", "unsigned", np.uint32),
        ("atomicAdd", "unsigned long long", np.uint64),
        ("atomicAdd", "float", np.float32),
        ("atomicAdd", "double", np.float64),
        ("atomicMin", "int", np.int32),
        ("atomicMax", "long long", np.int64),
    ],
)
def test_each_type_is_updated_as_in_the_source(
    name: str, kind: str, dtype: type[np.generic], program: str, run_rendered: Runner
) -> None:
    found = gathering(name, kind)
    rng = np.random.default_rng(3)
    arrays = {
        "where": np.concatenate((np.arange(8), rng.integers(0, 8, 92))).astype(np.int32),
        "x": rng.integers(0, 1000, 100).astype(dtype),
        "y": rng.integers(0, 1000, 8).astype(dtype),
    }
    code = rendered(found, program)
    assert ("__match_any_sync" in code.text) == ("aggregate" in program)
    assert compile_cuda(code.text, "sm_75").ok
    got = run_rendered(code, arrays, {"n": 100}, {"y"}, inout={"y"})["y"]
    want = arrays["y"].copy()
    {"atomicAdd": np.add, "atomicMin": np.minimum, "atomicMax": np.maximum}[name].at(
        want, arrays["where"], arrays["x"]
    )
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "shape",
    [
        "split(i.i, 8)\nbind(i.i.o, thread.y)\nbind(i.i.i, thread.x)",
        "bind(i.i, thread.x)",
        "split(i.i, 32)\nsplit(i.i.i, 8)\nbind(i.i.o, warp)\nbind(i.i.i.o, lane.y)\nbind(i.i.i.i, lane.x)",
    ],
)
@pytest.mark.parametrize("bins", [1, 3, 8])
def test_lanes_that_count_alike_update_once(shape: str, bins: int, run_rendered: Runner) -> None:
    """With a tail, so that lanes of a warp part; rows of threads shorter than a warp, and lanes in two
    dimensions, whose row is the warp."""
    program = f"split(i, 64)\nbind(i.o, grid.x)\n{shape}\naggregate(y, warp)"
    code = rendered(gathering("atomicAdd", "int", "2"), program)
    assert "__popc(peers) * value" in code.text
    where = np.concatenate((np.arange(8), np.random.default_rng(bins).integers(0, bins, 325)))
    arrays = {"where": where.astype(np.int32), "x": np.zeros(333, np.int32), "y": np.zeros(8, np.int32)}
    got = run_rendered(code, arrays, {"n": 333}, {"y"}, inout={"y"})
    np.testing.assert_array_equal(got["y"], 2 * np.bincount(where, minlength=8))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("atomicAdd", "int"), ("atomicAdd", "float"), ("atomicMin", "int"), ("atomicMax", "int")],
)
@pytest.mark.parametrize(("places", "threads"), [(8, 4), (8, 32), (1, 32)])
def test_the_gpu_reference_is_that_of_the_host(
    name: str, kind: str, places: int, threads: int, cache: Path
) -> None:
    """Two blocks update the same few elements of the reference; whole warps of them add to one element."""
    found = gathering(name, kind)
    rng = np.random.default_rng(4)
    dtype = np.float32 if kind == "float" else np.int32
    arrays = {
        "where": rng.integers(0, places, 200).astype(np.int32),
        "x": rng.integers(-99, 99, 200).astype(dtype),
        "y": rng.integers(-99, 99, 8).astype(dtype),
    }
    values, errors = reference(found.kernel, arrays, {"n": 200}, cache)
    r = render_reference_cuda(found.kernel)
    assert compile_cuda(r.text, "sm_90").ok
    held = {
        a.name: arrays[a.buffer] if a.role is Role.INPUT else np.zeros(arrays[a.buffer].shape)
        for a in r.arrays
    }
    args = (*(BufferArg(a.name) for a in r.arrays), ScalarArg("n", "i64", 200))
    launches = [ConcreteLaunch(k, args, (2, 1, 1), (threads, 1, 1)) for k in r.kernels]
    outputs = {a.name for a in r.arrays if a.role is not Role.INPUT}
    run = execute(compile_host(r.text, list(r.kernels), cache), launches, held, outputs)
    assert run.findings == ()
    for a in r.arrays:
        if a.role in (Role.VALUE, Role.ERROR):
            want = values if a.role is Role.VALUE else errors
            np.testing.assert_allclose(run.outputs[a.name], want[a.buffer], rtol=1e-12)


@pytest.mark.parametrize(
    ("merged", "said"),
    [("h[tx]", None), ("h[tx] + (tx == 9)", "it writes elements of hist that the original leaves alone")],
)
def test_adding_nothing_to_a_bin_that_no_value_names_is_right(
    merged: str, said: str | None, cache: Path
) -> None:
    """At one value and a few: of 256 bins the original updates hardly any, the merge all of them."""
    found = lift(KERNEL)
    code = rendered(found, files_of("histogram")[0].read_text())
    text = code.text.replace("atomicAdd(&hist[tx], h[tx]);", f"atomicAdd(&hist[tx], {merged});")
    workload = replace(infer(found), families=("normal",), check=({"n": 1}, {"n": 7}))
    source = Source(found.kernel, found.original, found.no_wrap)
    task = Task(source, workload, load_profile("h200-sxm"))
    done = Correctness(task, References(task)).check(
        replace(code, text=text), compile_host(text, list(code.signatures), cache)
    )
    if said is None:
        assert isinstance(done, Checked) and done.worst == 0.0
    else:
        assert isinstance(done, Failure) and said in done.message


@pytest.mark.parametrize("layout", ["", "set_layout(hp, swizzle=[1, 32])\n", "set_layout(hp, pad=[0, 1])\n"])
@pytest.mark.parametrize("together", ["", "aggregate(hp, warp)\n"])
def test_updates_go_where_the_tile_has_its_elements(layout: str, together: str, run_rendered: Runner) -> None:
    """Lanes that combine find the cell by its offset, which has to be that of the layout."""
    found = lift(
        "k.cu",
        None,
        """__global__ void k(const float *x, float *h, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          int r = blockIdx.y;
          if (i >= n || r >= 32) return;
          for (int c = 0; c < 32; ++c) atomicAdd(&h[r * 32 + c], x[(r * n + i) * 32 + c]);
        }""",
    )
    program = (
        "split(i, 64)\nreorder([i.o, r, i.i, c])\nhp = privatize(h, at=i.o)\n"
        f"{layout}bind(i.o, grid.x)\nbind(i.i, thread.x)\n{together}"
    )
    x = np.arange(32 * 3 * 32, dtype=np.float32) % 101
    given = {"x": x, "h": np.zeros(32 * 32, np.float32)}
    got = run_rendered(rendered(found, program), given, {"n": 3}, {"h"}, inout={"h"})["h"]
    np.testing.assert_array_equal(got.reshape(32, 32), x.reshape(32, 3, 32).sum(axis=1))
