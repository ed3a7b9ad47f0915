"""Entries that are added to the segments they are in: the text, and what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise_variant
from evolve.codegen.rounding import rounded_by_order
from evolve.compiler.compile import Source, compile_program
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.kernel import Module
from evolve.legality.verdict import Limits
from tests.illegal.lifted import FILES

ROWS = "split([row.init, row], 16)\nbind([row.init.o, row.o], grid.x)\nbind([row.init.i, row.i], thread.x)\n"
FOUR = (
    "balance(k, by=rowptr)\nsplit(k, 4)\nsplit(k.o, 8)\npersistent(k.o.o, 2)\nbind(k.o.i, thread.x)\n"
    "vectorize(k.i, 4)\n"
)
EIGHT = (
    "balance(k, by=rowptr)\nsplit(k, 8)\nsplit(k.o, 8)\npersistent(k.o.o, 2)\nbind(k.o.i, thread.x)\n"
    "vectorize(k.i, 4)\nunroll(k.i.o)\n"
)
SERIAL = "balance(k, by=rowptr)\nsplit(k, 5)\nsplit(k.o, 8)\npersistent(k.o.o, 2)\nbind(k.o.i, thread.x)\n"
LANES = "aggregate(sum, warp)\n"
SINGLE = "balance(k, by=rowptr)\nsplit(k, 32)\npersistent(k.o, 3)\nbind(k.i, thread.x)\n"
LENGTHS = {
    "a few": [3, 1, 4, 1, 5, 9, 2, 6],
    "none here and there": [0, 7, 0, 0, 5, 0, 0, 0, 13, 0],
    "none at both ends": [0, 0, 0, 11, 0, 0],
    "a long one": [2, 150, 1, 0, 3],
    "one entry": [0, 1, 0],
    "whole vectors": [4, 8, 4, 16],
    "whole warps": [100, 28, 3, 125, 0, 140, 1, 115],
    "all alike": [1] * 300,
    "none for long": [130, *[0] * 40, 130, *[0] * 40, 60],
}


def module(program: str) -> Module:
    found = lift(FILES["spmv"])
    made = compile_program(Source(found.kernel, found.original, found.no_wrap), parse(program), Limits())
    assert made.module is not None, made.verdict.diagnostics
    return made.module


def text_of(program: str) -> str:
    return render(module(program)).text


WARPS = (
    "balance(k, by=rowptr)\nsplit(k, 4)\nsplit(k.o, 64)\npersistent(k.o.o, 1)\nbind(k.o.i, thread.x)\n"
    "vectorize(k.i, 4)\n"
)
TURNED = (
    "balance(k, by=rowptr)\nsplit(k, 4)\nsplit(k.o, 64)\npersistent(k.o.o, 1)\nsplit(k.o.i, 32)\n"
    "bind(k.o.i.o, thread.x)\nbind(k.o.i.i, thread.y)\nvectorize(k.i, 4)\n"
)
TOGETHER = {"a warp": WARPS, "lanes apart": TURNED, "half a warp": FOUR}
PROGRAMS = {"4": FOUR, "8": EIGHT, "5": SERIAL, "1": SINGLE}
PROGRAMS |= {f"{n}, {w}": p + a for n, p in TOGETHER.items() for w, a in (("alone", ""), ("together", LANES))}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_each_entry_goes_to_its_row(program: str, cache: Path) -> None:
    rendered = render(module(program + ROWS))
    host = compile_host(rendered.text, list(rendered.signatures), cache)
    rng = np.random.default_rng(0)
    for name, lengths in LENGTHS.items():
        rows, entries = len(lengths), sum(lengths)
        arrays = {
            "rowptr": np.array([0, *np.cumsum(lengths)], np.int32),
            "col": rng.integers(0, 20, entries).astype(np.int32),
            "val": rng.integers(-8, 9, entries).astype(np.float32),
            "x": rng.integers(-8, 9, 20).astype(np.float32),
            "y": np.full(rows, np.nan, np.float32),
        }
        want = np.zeros(rows)
        np.add.at(want, np.repeat(np.arange(rows), lengths), arrays["val"] * arrays["x"][arrays["col"]])
        sizes = {"rows": rows, "col_size": entries, "x_size": 20}
        launches = concretise_variant(rendered, 0, sizes)
        done = execute(host, launches, arrays, {"y"}, ExecOptions(orders=("forward", "reversed", "permuted")))
        assert done.findings == (), (name, done.findings)
        assert done.outputs["y"].tolist() == want.tolist(), name


ROWS_OF = "int row = blockIdx.x * blockDim.x + threadIdx.x; if (row < rows) {"
OTHERS = {
    "what the row has goes into each entry": """
__global__ void w(const int *rowptr, const float *val, const float *d, float *y, int rows) { ROWS
  float f = d[row] * 2.f; float s = f;
  for (int k = rowptr[row]; k < rowptr[row + 1]; k++) s += val[k] * f * d[row];
  y[row] = s * f; } }""",
    "two totals": """
__global__ void w(const int *rowptr, const float *val, float *y, float *z, int rows) { ROWS
  float s = 0.f, q = 0.f;
  for (int k = rowptr[row]; k < rowptr[row + 1]; k++) { s += val[k]; q += val[k] * val[k]; }
  y[row] = s; z[row] = q; } }""",
    "the least of integers, pointers of 64 bits": """
__global__ void w(const long long *rowptr, const int *val, int *y, int rows) { ROWS
  int s = 1000;
  for (long long k = rowptr[row]; k < rowptr[row + 1]; k++) s = min(s, val[k]);
  y[row] = s; } }""",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=list(OTHERS))
def test_other_rows_of_uneven_length_compute_what_they_did(text: str, cache: Path) -> None:
    found = lift("w.cu", None, text.replace("ROWS", ROWS_OF))
    program = parse(WARPS.replace("64", "32") + "aggregate(s, warp)\n")
    made = compile_program(Source(found.kernel, found.original, found.no_wrap), program, Limits())
    assert made.module is not None, made.verdict.diagnostics
    rendered = render(made.module)
    host = compile_host(rendered.text, list(rendered.signatures), cache)
    lengths = [3, 0, 150, 1, 0, 0, 9, 40, 2]
    rng = np.random.default_rng(1)
    arrays = {}
    for b in found.kernel.buffers:
        kind = np.dtype({"i32": "int32", "i64": "int64", "f32": "float32"}[b.dtype.value])
        size = sum(lengths) if b.name == "val" else len(lengths)
        arrays[b.name] = rng.integers(-4, 5, size).astype(kind)
        if b.name == "rowptr":
            arrays[b.name] = np.array([0, *np.cumsum(lengths)], kind)
    sizes = {s.name: len(lengths) if s.name == "rows" else sum(lengths) for s in found.kernel.scalars}
    outputs = {"y", "z"} & arrays.keys()
    want, got = (
        execute(
            host, concretise_variant(rendered, v, sizes), arrays, outputs, ExecOptions(orders=("permuted",))
        )
        for v in (-1, 0)
    )
    assert got.findings == ()
    assert all(got.outputs[n].tolist() == want.outputs[n].tolist() for n in outputs)


def test_a_thread_searches_once_and_updates_memory_once_a_run() -> None:
    text = text_of(EIGHT)
    assert "float sum_values[8];" in text
    assert "sum_runs_8(sum_values, rowptr, rows, " in text
    function = text[text.index("void sum_runs_8(") :]
    function = function[: function.index("\n}\n")]
    assert function.count("find_together(") == 1 and function.count("atomicAdd(") == 2


def test_a_whole_run_is_read_in_vectors_without_a_question() -> None:
    text = " ".join(text_of(EIGHT).split())
    whole = text[: text.index("// a partial tile")]
    assert (
        whole.count("const float4 val4 = ") == 1 and "sum_values[k_io * 4 + 3] = val4.w * x[col4.w];" in whole
    )
    assert whole.count("if (k_ooo * 128 + k + 7 < (long long)rowptr[rows])") == 1


def test_entries_of_threads_apart_are_searched_for_one_by_one() -> None:
    text = " ".join(text_of(SINGLE).split())
    assert "sum_runs" not in text
    assert "atomicAdd(&sum[find(rowptr, rows, k_oo * 96 + k)], " in text


def test_sums_in_no_order_round_in_no_order() -> None:
    kernels = module(EIGHT).variants[0].kernels
    assert rounded_by_order(kernels) == {"sum", "y"}
    assert rounded_by_order(kernels[2:]) == frozenset()
    assert render(module(EIGHT)).variants[0].rounded == {"sum", "y"}


def test_a_thread_with_a_single_row_after_the_other_is_not_rounded_by_order() -> None:
    rows = module("split(row, 16)\nbind(row.o, grid.x)\nbind(row.i, thread.x)\n")
    assert render(rows).variants[0].rounded == frozenset()


def test_lanes_together_search_and_update_together() -> None:
    text = text_of(WARPS + LANES)
    function = text[text.index("void sum_runs_4(") :]
    assert "sum_together(target, r, total);" in function[: function.index("\n}\n")]
    assert "find_together(starts, segments, from)" in function
