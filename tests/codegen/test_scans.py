"""What scan loops are emitted as: executed under all checks for every width, type and monoid."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render
from evolve.ir.expr import Const, ceildiv, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Reduce, Stmt, Store
from evolve.ir.types import MAX, MIN, PROD, SUM, DType, LoopKind, Monoid
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen.conftest import Runner
from tests.codegen.modules import bare_module, kernel_of
from tests.codegen.scheduled_ir import (
    GRID_X,
    REGISTER,
    SERIAL,
    THREAD_X,
    THREAD_Y,
    at,
    fact_multiple,
    loop,
)
from tests.kernels_ir import buf, ld

WARP, BLOCK = LoopKind.SCAN_WARP, LoopKind.SCAN_BLOCK
F32, F64, I32 = DType.F32, DType.F64, DType.I32
RNG = np.random.default_rng(11)
OF_NUMPY = {SUM: np.add, PROD: np.multiply, MIN: np.minimum, MAX: np.maximum}


def scanned(
    kind: LoopKind, threads: int, rows_per_block: int, steps: int, monoid: Monoid = SUM, dtype: DType = F32
) -> Kernel:
    """y[r, c] = what comes before x[r, c] in its row, z[r] = the whole row, a row for each thread.y."""
    r, c = at(("r.o", rows_per_block), ("r.i", 1)), at(("c.o", threads), ("c.i", 1))
    out = at(("c.o", threads), ("c.out", 1))
    start = Const(monoid.identity(dtype), dtype)
    turn = (
        Store("before", (var("c.all"),), ld("s", dtype=dtype)),
        Reduce("s", (), monoid, ld("part", var("c.all"), dtype=dtype)),
    )
    body: list[Stmt] = [
        Alloc(buf("s", dtype=dtype, space=REGISTER)),
        Store("s", (), start),
        loop(
            "c.o",
            steps,
            SERIAL,
            Alloc(buf("part", index(threads), dtype=dtype, space=REGISTER)),
            loop("c.i", threads, THREAD_X, Store("part", (var("c.i"),), ld("x", r, c, dtype=dtype))),
            Alloc(buf("before", index(threads), dtype=dtype, space=REGISTER)),
            loop("c.all", threads, kind, *turn),
            loop("c.out", threads, THREAD_X, Store("y", (r, out), ld("before", var("c.out"), dtype=dtype))),
        ),
        Store("z", (r,), ld("s", dtype=dtype)),
    ]
    nest = loop(
        "r.o", ceildiv(var("rows"), rows_per_block), GRID_X, loop("r.i", rows_per_block, THREAD_Y, *body)
    )
    shape = (var("rows"), index(threads * steps))
    arrays = (
        buf("x", *shape, dtype=dtype),
        buf("y", *shape, dtype=dtype),
        buf("z", var("rows"), dtype=dtype),
    )
    return kernel_of("x y z rows", arrays, nest, fact_multiple("rows", rows_per_block))


def check(run: Runner, kernel: Kernel, x: np.ndarray, monoid: Monoid = SUM, rtol: float = 1e-4) -> None:
    rendered = render(bare_module(kernel))
    done = compile_cuda(rendered.text)
    assert done.ok, done.log
    rows = x.shape[0]
    given = {"x": x, "y": np.zeros_like(x), "z": np.zeros(rows, x.dtype)}
    out = run(rendered, given, {"rows": rows}, {"y", "z"})
    upto = OF_NUMPY[monoid].accumulate(x.astype(np.float64 if x.dtype.kind == "f" else x.dtype), axis=1)
    np.testing.assert_allclose(out["z"], upto[:, -1], rtol=rtol, atol=1e-4)
    np.testing.assert_allclose(out["y"][:, 1:], upto[:, :-1], rtol=rtol, atol=1e-4)
    assert np.all(out["y"][:, 0] == np.asarray(monoid.identity(kernel.buffers[0].dtype), x.dtype))


WIDTHS = [
    (WARP, 2, 4),
    (WARP, 4, 5),
    (WARP, 8, 4),
    (WARP, 16, 2),
    (WARP, 32, 3),
    (BLOCK, 32, 1),
    (BLOCK, 64, 1),
    (BLOCK, 96, 3),
    (BLOCK, 256, 2),
    (BLOCK, 1024, 1),
]


@pytest.mark.parametrize(("kind", "threads", "rows"), WIDTHS)
def test_sums_of_every_width(run_rendered: Runner, kind: LoopKind, threads: int, rows: int) -> None:
    x = RNG.normal(size=(2 * rows, threads * 3)).astype(np.float32)
    check(run_rendered, scanned(kind, threads, rows, 3), x)


@pytest.mark.parametrize("monoid", [SUM, MIN, MAX, PROD], ids=lambda m: m.name)
@pytest.mark.parametrize(("kind", "threads"), [(WARP, 8), (WARP, 32), (BLOCK, 96)])
def test_integers_are_exact(run_rendered: Runner, monoid: Monoid, kind: LoopKind, threads: int) -> None:
    x = RNG.integers(-50, 50, size=(4, threads * 2)).astype(np.int32)
    if monoid is PROD:
        x = np.where(RNG.random(x.shape) < 0.9, 1, np.sign(x)).astype(np.int32)
    check(run_rendered, scanned(kind, threads, 2, 2, monoid, I32), x, monoid, 0.0)


@pytest.mark.parametrize(("monoid", "dtype"), [(MAX, F32), (MIN, F32), (SUM, F64)], ids=str)
def test_other_floats(run_rendered: Runner, monoid: Monoid, dtype: DType) -> None:
    x = RNG.normal(size=(2, 128)).astype(np.float32 if dtype is F32 else np.float64)
    check(run_rendered, scanned(BLOCK, 64, 1, 2, monoid, dtype), x, monoid)


@pytest.mark.parametrize(("kind", "threads"), [(WARP, 24), (BLOCK, 48)])
def test_other_widths_have_no_text(kind: LoopKind, threads: int) -> None:
    with pytest.raises(CodegenError):
        render(bare_module(scanned(kind, threads, 1, 1)))
