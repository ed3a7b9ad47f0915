"""Code for indices that are read from memory: its types, what it may depend on, what it computes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.ctext import CountText
from evolve.codegen.errors import CodegenError
from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.reference_cuda import render_reference_cuda
from evolve.codegen.reference_model import Role
from evolve.codegen.rendered import concretise_variant
from evolve.compiler.compile import Source, compile_program
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import execute
from evolve.dsl.parser import parse, parse_statement
from evolve.frontend.lift import Lifted, lift
from evolve.ir.affine import Ranges
from evolve.ir.expr import TRUE, Binary, BinaryOp, add, floordiv, index, mod, mul, sub, var
from evolve.ir.kernel import Module, Variant
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import rewrite
from evolve.legality.verdict import Limits
from evolve.scoring.correctness import Checked, Correctness, Failure
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.target.profile import load_profile
from evolve.toolchain.nvrtc import compile_cuda
from evolve.transforms import moves
from evolve.transforms.apply import apply
from evolve.transforms.edit import less
from evolve.transforms.names import NameTable
from evolve.workload.infer import infer
from evolve.workload.inputs import generate
from tests.codegen.test_reference import reference
from tests.illegal.lifted import FILES
from tests.illegal.templates import TEMPLATES

KERNELS = ("spmv", "gather", "embedding", "segments")
BY_THREAD = "split(row, 64)\nbind(row.o, grid.x)\nbind(row.i, thread.x)\n"


def lifted(name: str) -> Lifted:
    return lift(FILES[name])


def module(found: Lifted, program: str) -> Module | None:
    source = Source(found.kernel, found.original, found.no_wrap)
    return compile_program(source, parse(program), Limits()).module


def text_of(found: Lifted, program: str) -> str:
    made = module(found, program)
    assert made is not None
    return render(made).text


def test_lengths_of_rows_are_counted_in_their_own_type() -> None:
    text = text_of(lifted("spmv"), BY_THREAD)
    assert "for (int k = 0; k < rowptr[row + 1] - rowptr[row]; ++k) {" in text
    assert "val[(long long)rowptr[row] + k]" in text


SECONDS = """__global__ void k(const int *first, const int *last, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float s = 0.0f;
    for (int k = first[i]; k <= last[i]; k += 2) s += x[k];
    y[i] = s;
  } }"""


def test_a_loop_that_ends_before_it_begins_has_no_iteration(cache: Path) -> None:
    """-1 / 2 + 1 is 1 in C; half of -1 rounded down, and one more, is 0."""
    found = lift("k.cu", None, SECONDS)
    made = module(found, "split(i, 8)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n")
    assert made is not None
    rendered = render(made)
    first, last = (np.array(x, np.int32) for x in ([3, 3, 3, 0, 7, 6], [2, 3, 5, 7, 0, 1]))
    x = np.arange(1.0, 9.0, dtype=np.float32)
    want = [float(x[a : b + 1 : 2].sum()) for a, b in zip(first, last, strict=True)]
    arrays = {"first": first, "last": last, "x": x, "y": np.full(6, np.nan, np.float32)}
    sizes = {"n": 6, "x_size": 8, "last_max": 7}
    program = compile_host(rendered.text, list(rendered.signatures), cache)
    run = execute(program, concretise_variant(rendered, 0, sizes), arrays, {"y"})
    assert run.findings == () and run.outputs["y"].tolist() == want
    assert reference(found.kernel, arrays, sizes, cache)[0]["y"].tolist() == want


def test_only_where_a_count_is_at_most_0_anyway_may_c_round_it_up() -> None:
    d, e = (floordiv(var(n), index(4)) for n in "de")
    text = CountText(str, str, Ranges({}, {})).text
    assert text(add(d, 3)) == "(d + 12) / 4"
    assert text(floordiv(add(d, 17), index(16))) == "(d + 68) / 4 / 16"
    assert (
        text(Binary(BinaryOp.MIN, d, add(e, -1), DType.INDEX)) == "d / 4 < (e - 4) / 4 ? d / 4 : (e - 4) / 4"
    )
    # Elsewhere it is rounded down, as is meant.
    down = "d / 4 - (d % 4 < 0)"
    assert text(add(d, e)) == f"{down} + (e / 4 - (e % 4 < 0))"
    assert text(sub(index(3), d)) == f"3 - ({down})"
    assert text(mul(d, 2)) == f"({down}) * 2"
    assert text(mod(d, index(4))) == f"(({down}) % 4 + 4) % 4"
    assert text(add(mul(d, 2), 1)) == f"({down}) * 2 + 1"
    known = CountText(str, str, Ranges({"d": (0, None), "e": (0, None)}, {})).text
    assert known(add(d, e)) == "d / 4 + e / 4" and known(add(d, 3)) == "d / 4 + 3"


def test_parts_of_rows_are_counted_in_64_bits() -> None:
    """32 * ((n + 31) / 32) may be more than an `int` holds where n is not."""
    text = " ".join(text_of(lifted("spmv"), BY_THREAD + "split(k, 32)\n").split())
    assert "for (long long k_o = 0; k_o < ((long long)rowptr[" in text
    assert "if (k_o * 32 + k_i < (long long)rowptr[" in text


def test_unsigned_row_pointers_are_counted_in_64_bits() -> None:
    text = FILES["spmv"].read_text().replace("const int *rowptr", "const unsigned *rowptr")
    found = lift(FILES["spmv"], text=text.replace("int k", "unsigned k"))
    text = text_of(found, BY_THREAD)
    assert "for (long long k = 0; k < (long long)rowptr[" in text


def test_one_more_than_a_difference_is_counted_in_64_bits() -> None:
    text = FILES["spmv"].read_text().replace("k < rowptr[row + 1]", "k <= rowptr[row + 1]")
    found = lift(FILES["spmv"], text=text)
    assert "for (long long k = 0; k < (long long)rowptr[" in text_of(found, BY_THREAD)


def test_a_gather_needs_no_cast() -> None:
    text = text_of(lifted("gather"), "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n")
    assert "y[i] = x[idx[i]];" in text


def test_subscripts_are_read_in_vectors() -> None:
    text = text_of(
        lifted("gather"),
        "specialize(n % 4 == 0)\nsplit(i, 256)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nbind(i.i.o, thread.x)\n"
        "vectorize(i.i.i, 4)\n",
    )
    assert "const int4 idx4 = *reinterpret_cast<const int4*>(&idx[" in text
    assert "y4.y = x[idx4.y];" in text


def test_the_text_says_what_it_takes_for_granted() -> None:
    text = text_of(lifted("spmv"), BY_THREAD)
    said = " ".join(x.removeprefix("//").strip() for x in text.splitlines() if x.startswith("//"))
    assert (
        "rowptr holds integers from 0, below col_size + 1, none less than the one before, "
        "0 the first and col_size the last;" in said
    )
    assert "can check: nothing else writes or updates the arrays while it runs;" in said
    assert "col and val have col_size elements along the first dimension;" in said


def test_no_condition_asks_for_a_length_that_no_parameter_has() -> None:
    found = lifted("embedding")
    made = module(found, "bind(t, grid.x)\nsplit(c, 64)\nbind(c.i, thread.x)\n")
    assert made is not None
    rendered = render(made)
    code = re.sub("//.*", "", rendered.text)
    assert "table_size" in rendered.text and "table_size" not in code
    assert "table_size" not in render_launcher(rendered, rendered.original.params)


def test_code_that_would_need_such_a_length_is_refused() -> None:
    found = lifted("gather")
    k = found.kernel

    def guarded(s: Stmt) -> Stmt | None:
        if not isinstance(s, For):
            return None
        return replace(s, kind=LoopKind.GRID_X, body=Block((If(less(index(3), var("x_size")), s.body),)))

    spoiled = replace(k, body=rewrite(k.body, guarded))
    with pytest.raises(CodegenError, match="x_size"):
        render(Module((Variant(TRUE, (spoiled,)),), found.original, k.params, k.buffers, k.scalars))


@pytest.mark.parametrize("name", KERNELS)
def test_the_gpu_reference_is_that_of_the_host(name: str, cache: Path) -> None:
    found = lifted(name)
    workload = infer(found)
    sizes = workload.check[-1]
    arrays = dict(generate(workload, sizes, "normal", 3))
    for a in workload.arrays:
        arrays.setdefault(a.name, np.zeros(a.shape(sizes), np.float32))
    values, errors = reference(found.kernel, arrays, sizes, cache)
    r = render_reference_cuda(found.kernel)
    assert compile_cuda(r.text, "sm_90").ok
    held = {
        a.name: arrays[a.buffer] if a.role is Role.INPUT else np.zeros(arrays[a.buffer].shape)
        for a in r.arrays
    }
    args = (*(BufferArg(a.name) for a in r.arrays), *(ScalarArg(s, "i64", sizes[s]) for s in r.scalars))
    launches = [ConcreteLaunch(k, args, (2, 1, 1), (8, 1, 1)) for k in r.kernels]
    outputs = {a.name for a in r.arrays if a.role is not Role.INPUT}
    run = execute(compile_host(r.text, list(r.kernels), cache), launches, held, outputs)
    assert run.findings == ()
    for a in r.arrays:
        if a.role in (Role.VALUE, Role.ERROR):
            want = values if a.role is Role.VALUE else errors
            np.testing.assert_array_equal(run.outputs[a.name], want[a.buffer])


def drawn(found: Lifted, rng: random.Random) -> str:
    """A random program of legal moves."""
    kernel, names, lines = found.kernel, NameTable(), list[str]()
    for _ in range(rng.randint(3, 9)):
        legal = moves.legal_moves(kernel, names)
        good = [m for m in legal if m.startswith(("bind", "split(k", "reorder", "warp_", "block_", "unroll"))]
        line = rng.choice(good if good and rng.random() < 0.7 else legal)
        kernel, names = apply(kernel, parse_statement(line), names)
        lines.append(line)
    return "\n".join(lines)


def agrees(found: Lifted, program: str, cache: Path) -> bool:
    """Whether a proved program's code computes what the reference does, under checks.

    False for what is not proved, has no rendering or is too much for this host.
    """
    made = module(found, program)
    if made is None:
        return False
    try:
        rendered = render(made)
    except CodegenError:
        return False
    source = Source(found.kernel, found.original, found.no_wrap)
    workload = replace(infer(found), families=("normal", "ones"))
    task = Task(source, workload, load_profile("h200-sxm"))
    host = compile_host(rendered.text, list(rendered.signatures), cache)
    done = Correctness(task, References(task)).check(rendered, host)
    if isinstance(done, Failure) and not done.judged:
        return False
    assert isinstance(done, Checked), (program, done)
    return True


@pytest.mark.parametrize(("name", "number"), [(n, i) for n in KERNELS for i in range(len(TEMPLATES[n]))])
def test_good_programs_agree_with_the_reference(name: str, number: int, cache: Path) -> None:
    assert agrees(lifted(name), TEMPLATES[name][number], cache)


@pytest.mark.parametrize("name", ["spmv", "gather"])
def test_the_best_programs_agree_with_the_reference(name: str, cache: Path) -> None:
    path = FILES[name].parent / "programs" / f"{name}.dsl"
    assert agrees(lifted(name), path.read_text(), cache)


@pytest.mark.parametrize("name", KERNELS)
def test_whatever_is_proved_agrees_with_the_reference(name: str, cache: Path) -> None:
    found = lifted(name)
    ran = 0
    for seed in range(40):
        ran += agrees(found, drawn(found, random.Random(seed)), cache)
        if ran == 2:
            return
    raise AssertionError(f"only {ran} of 40 random programs ran")
