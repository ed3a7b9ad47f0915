import json

import pytest

from evolve.features.extract import extract
from evolve.ir.errors import EvolveError
from evolve.ir.expr import Binary, BinaryOp, add, compare, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Block, If, Store
from evolve.ir.types import DType, LoopKind
from tests import kernels_ir as lifted

N = 64


def test_softmax_reads_its_input_three_times_but_needs_it_once() -> None:
    f = extract(lifted.softmax(), {"rows": 8192, "cols": 4096})
    x, y = f.buffer("x"), f.buffer("y")
    assert (x.read_elements, x.passes, x.reuse) == (8192 * 4096, 3, 3.0)
    assert (y.read_elements, y.written_elements) == (0, 8192 * 4096)
    assert f.structure == "reduction" and f.exact
    assert [(r.monoid, r.trips, r.contiguous) for r in f.reductions] == [
        ("max", 4096, True),
        ("sum", 4096, True),
    ]
    assert not any(a.coalesced for a in f.accesses)


def test_softmax_counts_each_exponential_once_although_the_source_computes_it_twice() -> None:
    n = 8192 * 4096
    ops = extract(lifted.softmax(), {"rows": 8192, "cols": 4096}).operations
    assert ops == {
        "f32.add": 2 * n,  # x - m, and the sum
        "f32.minmax": n,
        "f32.special.exp": n,
        "f32.div_invariant": n,
    }


def test_a_product_that_is_summed_is_one_fma() -> None:
    f = extract(lifted.matmul(), {"M": N, "N": 2 * N, "K": 3 * N})
    assert f.operations == {"f32.fma": 6 * N**3}
    assert f.structure == "contraction"
    assert (f.bytes_read, f.bytes_written) == (4 * (3 + 6) * N * N, 8 * N * N)
    assert f.buffer("A").reuse == 2 * N and f.buffer("B").reuse == N


def test_transpose_has_one_side_that_does_not_coalesce() -> None:
    f = extract(lifted.transpose(), {"rows": 128, "cols": 64})
    assert f.structure == "permutation"
    assert [(a.buffer, a.write, a.strides, a.coalesced) for a in f.accesses] == [
        ("x", False, (("i", 64), ("j", 1)), True),
        ("y", True, (("i", 1), ("j", 128)), False),
    ]


def test_a_stencil_does_not_read_the_corners() -> None:
    f = extract(lifted.stencil(), {"rows": N, "cols": N})
    assert f.buffer("x").read_elements == N * N - 4
    assert f.buffer("y").written_elements == (N - 2) ** 2
    assert f.buffer("x").passes == 1 and f.structure == "stencil"


def test_an_updated_buffer_is_read_and_written() -> None:
    f = extract(lifted.saxpy_in_place(), {"n": N, "alpha": 2.0})
    assert (f.bytes_read, f.bytes_written) == (8 * N, 4 * N)
    assert f.operations == {"f32.fma": N} and f.structure == "elementwise"


def test_what_a_kernel_wrote_itself_need_not_be_read() -> None:
    n, i, j = var("n"), var("i"), var("j")
    first = lifted.loop("i", n, Store("y", (i,), lifted.ld("x", i)))
    second = lifted.loop(
        "j", n, Store("y", (j,), lifted.op(BinaryOp.MUL, lifted.ld("y", j), lifted.ld("y", j)))
    )
    k = Kernel(
        "twice",
        ("x", "y", "n"),
        (lifted.buf("x", n), lifted.buf("y", n)),
        (Scalar("n", DType.I32, True),),
        Block((first, second)),
    )
    f = extract(k, {"n": N})
    assert f.buffer("y").read_elements == 0 and f.buffer("x").read_elements == N


def test_a_guard_on_a_loop_narrows_the_footprint() -> None:
    n, i = var("n"), var("i")
    cond = Binary(
        BinaryOp.AND,
        compare(BinaryOp.GT, i, 0),
        compare(BinaryOp.LT, i, add(n, -1)),
        DType.BOOL,
    )
    body = If(cond, Block((Store("y", (i,), lifted.ld("x", add(i, 1))),)))
    k = Kernel(
        "guarded",
        ("x", "y", "n"),
        (lifted.buf("x", n), lifted.buf("y", n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, body, kind=LoopKind.PARALLEL),)),
    )
    f = extract(k, {"n": N})
    assert f.exact
    assert f.buffer("y").written_elements == N - 2 and f.buffer("x").read_elements == N - 2


def test_a_strided_subscript_counts_what_it_touches() -> None:
    n, i = var("n"), var("i")
    two_i = Binary(BinaryOp.MUL, i, Binary(BinaryOp.ADD, var("n"), var("n"), DType.INDEX), DType.INDEX)
    k = Kernel(
        "strided",
        ("x", "y", "n"),
        (lifted.buf("x", n), lifted.buf("y", n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, Store("y", (i,), lifted.ld("x", two_i)), kind=LoopKind.PARALLEL),)),
    )
    assert extract(k, {"n": N}).buffer("x").read_elements == N


def test_a_diagonal_is_no_box() -> None:
    n, i = var("n"), var("i")
    k = Kernel(
        "diagonal",
        ("x", "y", "n"),
        (lifted.buf("x", n, n), lifted.buf("y", n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, Store("y", (i,), lifted.ld("x", i, i)), kind=LoopKind.PARALLEL),)),
    )
    f = extract(k, {"n": N})
    assert not f.exact and f.buffer("x").read_elements == N


def test_features_are_json() -> None:
    data = json.loads(json.dumps(extract(lifted.softmax(), {"rows": 8, "cols": 8}).to_json()))
    assert data["accesses"][0]["strides"] == {"row": 8, "c": 1}


def test_a_missing_size_is_said() -> None:
    with pytest.raises(EvolveError, match="cols") as error:
        extract(lifted.softmax(), {"rows": 8})
    assert error.value.code == "missing-size"


def test_one_statement_that_names_an_element_twice_loads_it_once() -> None:
    n, i = var("n"), var("i")
    square = lifted.op(BinaryOp.MUL, lifted.ld("x", i), lifted.ld("x", i))
    k = Kernel(
        "square",
        ("x", "y", "n"),
        (lifted.buf("x", n), lifted.buf("y", n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, Store("y", (i,), square), kind=LoopKind.PARALLEL),)),
    )
    assert extract(k, {"n": N}).buffer("x").reuse == 1.0


def test_a_triangle_is_half_of_the_square() -> None:
    n, i, k = var("n"), var("i"), var("k")
    fold = lifted.loop("k", add(i, 1), Store("y", (i, k), lifted.ld("x", i, k)))
    triangle = Kernel(
        "triangle",
        ("x", "y", "n"),
        (lifted.buf("x", n, n), lifted.buf("y", n, n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, fold, kind=LoopKind.PARALLEL),)),
    )
    f = extract(triangle, {"n": N})
    assert f.exact
    assert f.buffer("x").read_elements == f.buffer("y").written_elements == N * (N + 1) // 2


def test_a_band_between_two_loops_is_counted() -> None:
    n, i, j = var("n"), var("i"), var("j")
    body = If(compare(BinaryOp.LE, j, i), Block((Store("y", (i, j), lifted.ld("x", i)),)))
    band = Kernel(
        "band",
        ("x", "y", "n"),
        (lifted.buf("x", n), lifted.buf("y", n, n)),
        (Scalar("n", DType.I32, True),),
        Block((lifted.loop("i", n, lifted.loop("j", n, body, kind=LoopKind.PARALLEL)),)),
    )
    f = extract(band, {"n": N})
    assert f.buffer("y").written_elements == N * (N + 1) // 2 and f.buffer("y").exact
    # Not every iteration reads an element of its own: no more than the estimate may be claimed.
    assert f.buffer("x").read_elements == N and not f.buffer("x").exact
