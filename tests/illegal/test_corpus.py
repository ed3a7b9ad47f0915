"""What other compilers got wrong, as far as it can be said here: each report has a named case.

The reports were collected in a study of schedule languages; whether one is still open is not claimed.
"""

from __future__ import annotations

import pytest

from evolve.compiler.compile import finish
from evolve.ir.expr import mod, mul, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Block, For, Store
from evolve.ir.types import DType, LoopKind
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests.illegal.forged import FORGED
from tests.illegal.programs import programs
from tests.kernels_ir import buf, checked, ld, origin, vecadd

GITHUB = "https://github.com/"
REPORTS: dict[str, tuple[str, ...]] = {
    "llvm/llvm-project/issues/210585": ("test_what_cannot_be_analysed_is_not_accepted",),
    "llvm/llvm-project/issues/212032": ("second_sweep_fused", "softmax/max_and_sum_in_one_sweep"),
    "llvm/llvm-project/issues/61820": ("reduction_inside_the_copy", "element_added_twice"),
    "apache/tvm/issues/15911": ("mean_before_the_sum",),
    "apache/tvm/issues/1795": ("running_sum/sums_in_vectors", "recurrence/sweep_in_vectors"),
    "Tiramisu-Compiler/tiramisu/issues/300": ("sweep/interchange", "sweep/tiles"),
    "inducer/loopy/issues/724": ("copy_of_the_next_tile",),
    "inducer/loopy/issues/533": ("mean_before_the_sum",),
    "inducer/loopy/pull/629": ("running_sum/sum_taken_apart_from_its_use",),
    "exo-lang/exo/issues/318": ("copy_one_column_short",),
    "exo-lang/exo/issues/758": ("vecadd/vector_over_the_tail",),
    "halide/Halide/issues/5430": ("tiles_that_overlap", "update_made_twice"),
    "halide/Halide/issues/296": ("sums_over_threads",),
    "inducer/loopy/issues/600": ("tile_without_a_barrier",),
    "apache/tvm/issues/12976": ("row_sum/columns_over_threads", "partials_never_combined"),
    "apache/tvm/issues/10210": ("row_sum/block_reduce_inside_threads",),
    "tile-ai/tilelang/issues/2668": ("tile_filled_again_while_it_is_read",),
    "tile-ai/tilelang/issues/2612": ("barrier_of_half_the_threads",),
    "tile-ai/tilelang/issues/2556": ("tile_read_before_it_is_filled", "row_sum/warp_of_24"),
    "NVIDIA/Fuser/issues/678": ("idle_threads_write_the_tile",),
    "halide/Halide/pull/9325": ("softmax/sweeps_split_differently", "stencil/halo_in_registers"),
    "halide/Halide/pull/5184": ("barrier_of_half_the_threads",),
    "pocl/pocl/issues/1167": ("barrier_of_half_the_threads",),
    "exo-lang/exo/issues/477": ("running_sum/both_sweeps_jammed",),
}
NOT_SAID_HERE: dict[str, str] = {
    "llvm/llvm-project/issues/211591": "there are no calls with effects",
    "exo-lang/exo/issues/346": "no transform lets one buffer use another's memory",
    "tile-ai/tilelang/issues/2613": "there are no asynchronous matrix instructions",
    "tile-ai/tilelang/issues/2595": "there are no atomics",
    "tile-ai/tilelang/issues/2365": "there are no asynchronous copies",
    "triton-lang/triton/issues/11326": "kernels have no callees once lifted",
    "NVIDIA/Fuser/issues/2000": "there are no asynchronous copies",
    "halide/Halide/issues/4967": "one target, one kind of barrier",
    "ROCm/HIP-CPU/issues/29": "shuffles are host execution's, tested with it",
    "exo-lang/exo/issues/547": "barriers are derived, no statement adds one",
    "apache/tvm/pull/9112": "no transform joins nested loops into one",
    "mc-imperial/gpuverify/issues/55": "there are no locks",
}


def known() -> set[str]:
    return (
        {p.id for p in programs()}
        | {f.name for f in FORGED}
        | {n for n in globals() if n.startswith("test_")}
    )


@pytest.mark.parametrize("report", REPORTS)
def test_has_a_case(report: str) -> None:
    assert set(REPORTS[report]) <= known()
    assert report not in NOT_SAID_HERE


def squares(kind: LoopKind) -> Kernel:
    """y[i] = y[i * i mod 64], of which nothing affine can be said."""
    store = Store("y", (var("i"),), ld("y", mod(mul(var("i"), var("i")), 64)), origin("S0", "i"))
    scalars = (Scalar("n", DType.I32, True),)
    body = Block((For("i", var("n"), kind, Block((store,))),))
    return checked(Kernel("squares", ("y", "n"), (buf("y", var("n")),), scalars, body))


@pytest.mark.parametrize("kind", [LoopKind.GRID_X, LoopKind.UNROLL])
def test_what_cannot_be_analysed_is_not_accepted(kind: LoopKind) -> None:
    """An analysis that gives up must not read as "no dependence"."""
    source, target = squares(LoopKind.SERIAL), finish(squares(kind))
    assert prove(source, target).status is Status.UNKNOWN


def test_what_can_be_analysed_is() -> None:
    assert prove(vecadd(), finish(vecadd())).proved
