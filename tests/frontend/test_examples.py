"""The kernels of `kernels/`: what they lift to, and that it is what the text computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evolve.frontend.lift import lift, list_kernels
from evolve.ir.affine import simplify
from evolve.ir.expr import Const, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_kernel
from evolve.ir.types import DType
from evolve.ir.visit import map_block_exprs, map_expr
from tests import kernels_ir
from tests.frontend.differential import assert_no_longer_than_touched, assert_same

KERNELS = Path(__file__).parents[2] / "kernels"
SHORT = ("stencil",)
"""What is read has a last row of which the kernel leaves the corner out."""
NAMES = sorted(p.stem for p in KERNELS.glob("*.cu"))


def test_all_are_there() -> None:
    assert NAMES == [
        "attention", "batched_matmul", "blur", "column_sum", "conv1d", "cross_entropy", "cumsum", "gather",
        "gelu", "histogram", "layernorm", "masked_softmax", "matmul", "matvec", "rmsnorm", "rope",
        "row_sum", "saxpy", "softmax", "spmv", "stencil", "stencil3x3", "total", "transpose", "vecadd",
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_lifted_means_what_the_text_computes(name: str, cache: Path) -> None:
    lifted = lift(KERNELS / f"{name}.cu")
    assert assert_same(lifted, cache_dir=cache) >= 3
    assert assert_no_longer_than_touched(lifted, cache_dir=cache) or lifted.kernel.contents or name in SHORT


def _plain(k: Kernel) -> str:
    """Text with index arithmetic simplified and single-precision literals as they round."""

    def literal(e: Expr) -> Expr:
        if isinstance(e, Const) and e.dtype is DType.F32:
            return Const(float(np.float32(e.value)), DType.F32)
        return e

    body = map_block_exprs(k.body, lambda e: simplify(map_expr(e, literal)))
    return print_kernel(replace(k, body=body), origins=True)


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("vecadd", kernels_ir.vecadd()),
        ("softmax", kernels_ir.softmax()),
        ("transpose", kernels_ir.transpose()),
        ("matmul", kernels_ir.matmul()),
        ("saxpy", kernels_ir.saxpy_in_place()),
    ],
)
def test_structure_is_that_of_the_kernels_built_by_hand(name: str, by_hand: Kernel) -> None:
    assert _plain(lift(KERNELS / f"{name}.cu").kernel) == _plain(by_hand)


def test_stencil_splits_the_flat_index_and_shifts_to_the_interior() -> None:
    text = print_kernel(lift(KERNELS / "stencil.cu").kernel, origins=True)
    assert "for i in 0..rows + -2:   # parallel\n    for j in 0..cols + -2:   # parallel" in text
    assert "x: global f32[rows, cols]" in text
    assert "y: global f32[rows, cols]" in text
    assert "y[i + 1, j + 1] =" in text
    assert "# S0(i, j)" in text


def test_layernorm_keeps_row_statistics_in_registers_and_conversions_explicit() -> None:
    text = print_kernel(lift(KERNELS / "layernorm.cu").kernel)
    assert "mean[] = sum[] / f32(cols)" in text
    assert "var[] sum= (x[r, c_2] - mean[]) * (x[r, c_2] - mean[])" in text
    assert "gamma: global f32[cols]" in text


def test_helper_functions_are_inlined() -> None:
    text = print_kernel(lift(KERNELS / "gelu.cu").kernel)
    assert "tanh(" in text
    assert "count: u64 size" in text


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("softmax", ["cols * rows <= 2147483648"]),
        ("row_sum", ["cols * rows <= 4294967296"]),
        ("layernorm", []),
        ("vecadd", []),
        ("matmul", ["K * M <= 2147483648", "K * N <= 2147483648", "M * N <= 2147483648"]),
    ],
)
def test_products_that_may_wrap_become_facts(name: str, facts: list[str]) -> None:
    assert [print_expr(f) for f in lift(KERNELS / f"{name}.cu").no_wrap] == facts


@pytest.mark.parametrize(
    ("name", "grid", "block"),
    [
        ("softmax", ["(rows + 255) // 256", "1", "1"], ["256", "1", "1"]),
        ("transpose", ["(cols + 15) // 16", "(rows + 15) // 16", "1"], ["16", "16", "1"]),
        ("matmul", ["(N + 15) // 16", "(M + 15) // 16", "1"], ["16", "16", "1"]),
        ("saxpy", ["(n + 255) // 256", "1", "1"], ["256", "1", "1"]),
        ("stencil", ["(cols * rows + 255) // 256", "1", "1"], ["256", "1", "1"]),
    ],
)
def test_launch(name: str, grid: list[str], block: list[str]) -> None:
    lifted = lift(KERNELS / f"{name}.cu")
    assert [print_expr(e) for e in lifted.original.grid] == grid
    assert [print_expr(e) for e in lifted.original.block] == block
    assert (lifted.launch is not None) == (name in ("transpose", "matmul", "saxpy"))


@pytest.mark.parametrize("name", NAMES)
def test_original_compiles_alone(name: str) -> None:
    from evolve.toolchain.nvrtc import compile_cuda

    lifted = lift(KERNELS / f"{name}.cu")
    assert "main" not in lifted.original.text
    assert "#include" not in lifted.original.text
    done = compile_cuda(lifted.original.text)
    assert done.ok, done.log


@pytest.mark.parametrize("name", NAMES)
def test_one_kernel_each(name: str) -> None:
    (info,) = list_kernels(KERNELS / f"{name}.cu")
    assert info.name == name
    assert info.signature.startswith(f"{name}(")


def test_lifting_is_deterministic_across_hash_seeds() -> None:
    import os
    import subprocess
    import sys

    code = (
        "from evolve.frontend.lift import lift;from evolve.ir.printer import print_kernel, print_expr;"
        f"l = lift({str(KERNELS / 'matmul.cu')!r});"
        "print(print_kernel(l.kernel, origins=True), [print_expr(f) for f in l.no_wrap], l.notes)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, cwd=KERNELS.parent,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in (1, 2, 3)
    }  # fmt: skip
    assert len(outputs) == 1
