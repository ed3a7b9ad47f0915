"""Emitted CUDA compiles for the GPU, and does the right thing when run on the host under all checks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.ir.kernel import Kernel
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen import scheduled_ir
from tests.codegen.conftest import Runner
from tests.codegen.modules import module_of

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", list(scheduled_ir.SCHEDULED))
def test_compiles_for_the_gpu(name: str) -> None:
    rendered = render(module_of(scheduled_ir.SCHEDULED[name]()))
    for arch in ("sm_75", "sm_90"):
        done = compile_cuda(rendered.text, arch)
        assert done.ok, done.log
    assert len(rendered.lines) == len(rendered.text.splitlines())


@pytest.mark.parametrize("n", [4, 1024, 1028, 3000])
@pytest.mark.parametrize("multiple_of_4", [True, False])
def test_vecadd(run_rendered: Runner, n: int, multiple_of_4: bool) -> None:
    rendered = render(module_of(scheduled_ir.vecadd(multiple_of_4=multiple_of_4)))
    a, b = normal(n), normal(n)
    out = run_rendered(rendered, {"a": a, "b": b, "c": np.zeros_like(a)}, {"n": n}, {"c"})
    np.testing.assert_array_equal(out["c"], a + b)


@pytest.mark.parametrize("n", [1, 2, 3, 1023, 1025, 1026, 1027])
def test_partial_vectors(run_rendered: Runner, n: int) -> None:
    rendered = render(module_of(scheduled_ir.vecadd(multiple_of_4=False)))
    a, b = normal(n), normal(n)
    out = run_rendered(rendered, {"a": a, "b": b, "c": np.zeros_like(a)}, {"n": n}, {"c"})
    np.testing.assert_array_equal(out["c"], a + b)


def test_sizes_outside_the_guard_run_the_original(run_rendered: Runner) -> None:
    rendered = render(module_of(scheduled_ir.vecadd()))
    a, b = normal(1027), normal(1027)
    out = run_rendered(rendered, {"a": a, "b": b, "c": np.zeros_like(a)}, {"n": 1027}, {"c"}, variant=-1)
    np.testing.assert_array_equal(out["c"], a + b)


@pytest.mark.parametrize("n", [1, 127, 128, 300])
def test_saxpy_in_place(run_rendered: Runner, n: int) -> None:
    rendered = render(module_of(scheduled_ir.saxpy_bound()))
    x, y = normal(n), normal(n)
    out = run_rendered(rendered, {"x": x, "y": y}, {"n": n, "alpha": 1.5}, {"y"}, inout={"y"})
    np.testing.assert_allclose(out["y"], 1.5 * x + y, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "cols"),
    [
        (lambda: scheduled_ir.softmax_block(8192), 8192),
        (lambda: scheduled_ir.softmax_block(1536, 96), 1536),
        (lambda: scheduled_ir.softmax_block(640, 80), 640),
        (lambda: scheduled_ir.softmax_block(512, 128), 512),
        (lambda: scheduled_ir.softmax_warp(256), 256),
    ],
)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_softmax(run_rendered: Runner, build: Callable[[], Kernel], cols: int, rows: int) -> None:
    x = normal(rows, cols)
    out = run_rendered(
        render(module_of(build())), {"x": x, "y": np.zeros_like(x)}, {"rows": rows, "cols": cols}, {"y"}
    )
    np.testing.assert_allclose(out["y"], softmax_of(x), rtol=2e-6)


@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (32, 64), (70, 40)])
def test_transpose(run_rendered: Runner, shape: tuple[int, int]) -> None:
    x = normal(*shape)
    rendered = render(module_of(scheduled_ir.transpose_tiled()))
    arrays = {"x": x, "y": np.zeros(shape[::-1], np.float32)}
    out = run_rendered(rendered, arrays, {"rows": shape[0], "cols": shape[1]}, {"y"})
    np.testing.assert_array_equal(out["y"], x.T)


def test_transpose_float4(run_rendered: Runner) -> None:
    x = normal(64, 192)
    rendered = render(module_of(scheduled_ir.transpose_float4()))
    arrays = {"x": x, "y": np.zeros((192, 64), np.float32)}
    out = run_rendered(rendered, arrays, {"rows": 64, "cols": 192}, {"y"})
    np.testing.assert_array_equal(out["y"], x.T)


def test_more_shared_memory_than_static_arrays_can_have(run_rendered: Runner) -> None:
    x = normal(128, 256)
    rendered = render(module_of(scheduled_ir.transpose_float4(128), scheduled_ir.transpose_float4(128, 8)))
    assert [v.launches[0].shared_bytes for v in rendered.variants] == [128 * 129 * 4] * 2
    memory = "extern __shared__ __align__(16) unsigned char"
    assert f"{memory} shared_memory[];" in rendered.text
    assert f"{memory} shared_memory_2[];" in rendered.text, "extern arrays of one name would be one"
    arrays = {"x": x, "y": np.zeros((256, 128), np.float32)}
    out = run_rendered(rendered, arrays, {"rows": 128, "cols": 256}, {"y"})
    np.testing.assert_array_equal(out["y"], x.T)


def test_matmul(run_rendered: Runner) -> None:
    a, b = normal(128, 48), normal(48, 256)
    rendered = render(module_of(scheduled_ir.matmul_tiled()))
    arrays = {"A": a, "B": b, "C": np.zeros((128, 256), np.float32)}
    out = run_rendered(rendered, arrays, {"M": 128, "N": 256, "K": 48}, {"C"})
    np.testing.assert_allclose(out["C"], a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_variants_are_tried_in_order(run_rendered: Runner) -> None:
    rendered = render(module_of(scheduled_ir.softmax_block(512, 128), scheduled_ir.softmax_warp(256)))
    for variant, cols in ((0, 512), (1, 256), (-1, 100)):
        x = normal(5, cols)
        scalars = {"rows": 5, "cols": cols}
        out = run_rendered(rendered, {"x": x, "y": np.zeros_like(x)}, scalars, {"y"}, variant=variant)
        np.testing.assert_allclose(out["y"], softmax_of(x), rtol=2e-6)


def test_a_missing_barrier_is_rendered_as_it_is(cache, run_rendered: Runner) -> None:  # type: ignore[no-untyped-def]
    """The text has the barriers of the IR and no others: without them host execution sees the race."""
    from evolve.devices.sim.build import compile_host
    from evolve.devices.sim.execute import execute

    rendered = render(module_of(scheduled_ir.transpose_tiled(barriers=False)))
    program = compile_host(rendered.text, list(rendered.signatures), cache)
    x = normal(32, 32)
    _, launches = concretise(rendered, {"rows": 32, "cols": 32})
    done = execute(program, launches, {"x": x, "y": np.zeros_like(x)}, {"y"})
    assert "race" in {f.kind for f in done.findings}
