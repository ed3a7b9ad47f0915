"""What other compilers got wrong, as far as it can be said here: each report has a named case.

The reports were collected in a study of schedule languages; whether one is still open is not claimed.
`REPORTS` names the case of each: an illegal program, a forged kernel, a test of this module, or one of
another file. `NOT_SAID_HERE` says why others have none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import add, mod, mul, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Block, For, Store
from evolve.ir.types import DType, LoopKind
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status
from evolve.transforms.apply import apply_program
from tests.illegal.forcing import forgiving
from tests.illegal.forged import FORGED
from tests.illegal.programs import programs
from tests.kernels_ir import buf, checked, ld, origin, vecadd
from tests.legality.brute import same

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
    "inducer/loopy/pull/683": ("tests/legality/test_flow_enumerated.py::test_every_read_of_random_nests",),
    "inducer/loopy/pull/916": ("tests/legality/test_flow_enumerated.py::test_every_read_of_random_nests",),
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
    "pocl/pocl/issues/553": ("barrier_of_half_the_threads",),
    "pocl/pocl/issues/1435": ("barrier_of_half_the_threads",),
    "pocl/pocl/issues/1794": ("barrier_of_half_the_threads",),
    "exo-lang/exo/issues/477": ("running_sum/both_sweeps_jammed",),
    "exo-lang/exo/issues/294": ("test_what_takes_too_long_is_not_accepted",),
    "Tiramisu-Compiler/tiramisu/pull/422": ("threads_bound_before_an_interchange",),
    "inducer/loopy/issues/543": ("total/parts_read_by_one_thread", "bins_updated_before_they_start"),
    "tile-ai/tilelang/issues/2595": ("bins_read_while_they_are_updated", "bins_updated_by_halves"),
    "tile-ai/tilelang/issues/2699": ("vectors_read_before_they_are_written",),
    "tile-ai/tilelang/issues/2957": ("copy_one_column_short", "last_column_of_blocks_missing"),
    "NVIDIA/Fuser/issues/2000": (
        "as_many_versions_as_iterations_ahead",
        "read_of_what_the_thread_itself_copies",
    ),
    "csarofeen/pytorch/issues/2463": ("groups_never_closed", "wait_that_leaves_a_group_too_many"),
    "triton-lang/triton/pull/9720": ("one_version_less", "as_many_versions_as_iterations_ahead"),
    "ROCm/hip/issues/3213": ("half_of_the_lanes_combined",),
    "exo-lang/exo/issues/346": ("tile_read_untransposed", "mean_before_the_sum"),
    "tile-ai/tilelang/issues/2365": ("test_bytes_are_not_copied_asynchronously",),
    "tile-ai/tilelang/issues/2393": ("tests/illegal/test_record.py::test_nothing_wrong_is_accepted",),
    "ROCm/HIP-CPU/issues/29": ("tests/devices/sim/test_collectives.py::test_shuffles",),
    "triton-lang/triton/issues/11326": (
        "tests/frontend/test_examples.py::test_helper_functions_are_inlined",
    ),
    "exo-lang/exo/issues/547": ("tests/legality/test_barriers.py::test_each_barrier_of_matmul_is_needed",),
    "apache/tvm/issues/15877": ("tests/illegal/test_programs.py::test_is_refused_with_its_code",),
    "KernelTuner/kernel_tuner/issues/245": ("tests/scoring/test_measured.py::test_wrong_results_are_seen",),
    "tinygrad/tinygrad/issues/3819": (
        "tests/scoring/test_measured.py::test_what_leads_meets_every_family_at_the_timed_size",
    ),
    "apache/tvm/pull/9112": ("test_loops_whose_extents_depend_are_not_joined",),
}
NOT_SAID_HERE: dict[str, str] = {
    "llvm/llvm-project/issues/211591": "there are no calls with effects",
    "tile-ai/tilelang/issues/2613": "there are no asynchronous matrix instructions",
    "halide/Halide/issues/4967": "one target, one kind of barrier",
    "mc-imperial/gpuverify/issues/55": "there are no locks",
}
ROOT = Path(__file__).resolve().parents[2]


def known() -> set[str]:
    return (
        {p.id for p in programs()}
        | {f.name for f in FORGED}
        | {n for n in globals() if n.startswith("test_")}
    )


def is_test(case: str) -> bool:
    """Whether it is a test of another file, `path::name`."""
    path, _, name = case.partition("::")
    return bool(name) and f"\ndef {name}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("report", REPORTS)
def test_has_a_case(report: str) -> None:
    assert all(case in known() or is_test(case) for case in REPORTS[report])
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


@pytest.mark.parametrize("operations", [1, 100, 600])
def test_what_takes_too_long_is_not_accepted(operations: int) -> None:
    source = vecadd()
    verdict = prove(source, finish(source), Limits(operations=operations))
    assert verdict.status is Status.UNKNOWN and verdict.diagnostics[0].code == "E-LIMIT"


def triangle() -> Kernel:
    """y[i, j] = x[i, j] for j up to i."""
    n, i, j = var("n"), var("i"), var("j")
    store = Store("y", (i, j), ld("x", i, j), origin("S0", "i", "j"))
    inner = For("j", add(i, 1), LoopKind.SERIAL, Block((store,)))
    body = Block((For("i", n, LoopKind.PARALLEL, Block((inner,))),))
    return checked(Kernel("triangle", ("x", "y", "n"), (buf("x", n, n), buf("y", n, n)), (N,), body))


N = Scalar("n", DType.I32, True)


@pytest.mark.parametrize("program", ["collapse([i, j])", "tile([i, j], [4, 4])", "reorder([j, i])"])
def test_loops_whose_extents_depend_are_not_joined(program: str) -> None:
    """Refused at once, or a result that is not proved, or one that is the same instances."""
    source = triangle()
    try:
        target = finish(apply_program(source, parse(program)).kernel)
    except RefusedError:
        return
    right = all(same(source, target, {"n": n}) for n in (1, 2, 3, 5, 8))
    assert right or not prove(source, target).proved


BYTES = """
__global__ void bytes(const unsigned char *x, unsigned char *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
"""


def test_bytes_are_not_copied_asynchronously() -> None:
    """The hardware copies 4, 8 or 16 bytes: the transform says so, and so does the prover."""
    kernel = lift("bytes.cu", text=BYTES).kernel
    staged = (
        "split(i, 64)\nbind(i.o, grid.x)\ns = stage(x, at=i.o, scope=shared)\nbind([s.0, i.i], thread.x)\n"
    )
    assert prove(kernel, finish(apply_program(kernel, parse(staged)).kernel)).proved
    with pytest.raises(RefusedError, match="bytes"):
        apply_program(kernel, parse(staged + "make_async(s)"))
    with forgiving({"E-ASYNC-COPY"}):
        target = finish(apply_program(kernel, parse(staged + "make_async(s)")).kernel)
    verdict = prove(kernel, target)
    assert not verdict.proved and verdict.diagnostics[0].code == "E-ASYNC"
