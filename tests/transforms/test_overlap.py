"""multi_buffer, pipeline: right for any number of iterations, and with few barriers."""

from __future__ import annotations

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Barrier, Commit, For, Wait
from evolve.ir.types import LoopKind
from evolve.ir.visit import local_buffers, walk
from evolve.legality.prove import prove
from tests.transforms.fixtures import KERNELS, applied, assert_same

STAGED = (
    "specialize(K % 4 == 0)\ntile([i, j], [4, 4])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"
    "distribute([i.i, j.i])\nsplit(k, 4)\nreorder([k.o, i.i.1, j.i.1, k.i])\n"
    "a = stage(A, at=k.o, scope=shared)\nb = stage(B, at=k.o, scope=shared)\n"
    "bind([i.i.0, i.i.1, i.i.2, a.0, b.0], thread.y)\nbind([j.i.0, j.i.1, j.i.2, a.1, b.1], thread.x)\n"
)
BUFFERED = STAGED + "multi_buffer(a, n={n})\nmulti_buffer(b, n={n})\n"
ROWS = "tile([i, j], [1, 4])\nt = stage(x, at=i.o, scope=shared)\n"


def barriers(kernel: Kernel) -> list[int]:
    """Around how many sequential loops each barrier stands."""
    found = [s for s in walk(kernel.body) if isinstance(s.stmt, Barrier)]
    return [sum(x.kind is LoopKind.SERIAL for x in s.loops) for s in found]


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (STAGED, [1, 1]),
        (BUFFERED.format(n=2), [1]),
        (BUFFERED.format(n=1) + "pipeline(k.o)", [0, 1, 1]),
        (BUFFERED.format(n=2) + "pipeline(k.o)", [0, 1]),
        (BUFFERED.format(n=3) + "pipeline(k.o, ahead=2)", [0, 1]),
        (BUFFERED.format(n=2) + "pipeline(k.o, ahead=2)", [0, 1]),
    ],
    ids=[
        "one version",
        "two versions",
        "one ahead of one",
        "one ahead of two",
        "two ahead of three",
        "two ahead of two",
    ],
)
def test_a_second_version_saves_a_barrier(program: str, wanted: list[int]) -> None:
    kernel = finish(applied("matmul", program).kernel)
    assert prove(KERNELS["matmul"](), kernel).proved
    assert barriers(kernel) == wanted


@pytest.mark.parametrize("trips", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("n", "ahead"), [(2, 1), (3, 2), (4, 3), (3, 1), (1, 1)])
def test_loops_of_any_length_compute_the_same(trips: int, n: int, ahead: int) -> None:
    program = BUFFERED.format(n=n) + f"pipeline(k.o, ahead={ahead})"
    assert_same(KERNELS["matmul"](), applied("matmul", program).kernel, 5, 6, 4 * trips)


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8])
def test_a_loop_may_have_no_iteration(rows: int) -> None:
    """The inner rows of a stencil: none, one, two, three, six."""
    program = (
        "specialize(cols == 10)\nbind(j, thread.x)\nt = stage(x, at=i, scope=shared)\n"
        "bind(t.1, thread.x)\nmulti_buffer(t)\npipeline(i)"
    )
    kernel = KERNELS["stencil"]()
    after = finish(applied("stencil", program).kernel)
    assert prove(kernel, after).proved
    assert_same(kernel, after, rows, 10)


def test_each_element_waits_in_a_register_of_the_thread_that_copies_it() -> None:
    text = BUFFERED.format(n=2).replace("a.1, b.1", "b.1") + "split(a.1, 2)\nbind(a.1.i, thread.x)\n"
    kernel = applied("matmul", text + "pipeline(k.o)").kernel
    extents = [str(e) for e in local_buffers(kernel.body)["a.next"].extents]
    assert len(extents) == 3
    loops = {s.stmt.var for s in walk(kernel.body) if isinstance(s.stmt, For)}
    assert {"a.0.0", "a.0.1", "a.0.2", "a.1.o.1", "a.1.i.2"} <= loops


def test_only_copies_by_the_loops_own_iteration_move() -> None:
    """A tile staged outside of the loop keeps its place."""
    program = BUFFERED.format(n=2).replace("multi_buffer(b, n=2)\n", "") + "pipeline(k.o)"
    loops = {s.stmt.var for s in walk(applied("matmul", program).kernel.body) if isinstance(s.stmt, For)}
    assert {"a.0.1", "b.0"} <= loops and "b.0.1" not in loops


def test_what_the_loop_writes_is_not_loaded_ahead() -> None:
    program = "split(i, 4)\nt = stage(x, at=i.o, scope=shared)\nmulti_buffer(t)\npipeline(i.o)"
    applied("saxpy", program)
    with pytest.raises(RefusedError) as e:
        applied("saxpy", program.replace("stage(x", "stage(y"))
    assert e.value.diagnostic.code == "E-STAGE-WRITTEN"


def test_a_window_of_one_element_that_the_loop_declares_stays_there() -> None:
    """Its subscript 0 is the iteration modulo 1, but it has no version outside of the loop."""
    program = "specialize(n == 6)\nstage(a, at=i, scope=shared)\nstage(b, at=i, scope=shared)\n"
    after = applied("vecadd", program + "multi_buffer(a_s)\npipeline(i)")
    local = local_buffers(after.kernel.body)
    assert "a_s.next" in local and "b_s.next" not in local
    assert prove(KERNELS["vecadd"](), finish(after.kernel)).proved


# ---- asynchronous copies

ASYNC = STAGED + "make_async(a)\nmake_async(b)\n"


def statements(kernel: Kernel) -> list[str]:
    """Groups closed, waits and barriers, in text order, with the sequential loops around them."""
    found = [s for s in walk(kernel.body) if isinstance(s.stmt, Barrier | Commit | Wait)]
    return [
        "  " * sum(x.kind is LoopKind.SERIAL for x in s.loops) + print_stmt(s.stmt).strip() for s in found
    ]


def test_copies_that_follow_each_other_are_one_group() -> None:
    kernel = finish(applied("matmul", ASYNC).kernel)
    assert prove(KERNELS["matmul"](), kernel).proved
    assert statements(kernel) == ["  commit", "  wait 0", "  barrier", "  barrier"]


def test_the_order_of_buffering_and_making_asynchronous_does_not_matter() -> None:
    text = "multi_buffer(a)\nmulti_buffer(b)\npipeline(k.o)"
    one = applied("matmul", ASYNC + text).kernel
    two = applied(
        "matmul", STAGED + "multi_buffer(a)\nmake_async(b)\nmulti_buffer(b)\nmake_async(a)\npipeline(k.o)"
    )
    assert one == two.kernel


@pytest.mark.parametrize(
    ("n", "ahead", "wanted"),
    [
        (2, 1, ["commit", "wait 0", "barrier", "  commit", "  wait 0", "  barrier"]),
        (3, 2, ["commit", "wait 1", "barrier", "  commit", "  wait 1", "  barrier"]),
    ],
)
def test_a_group_is_closed_in_each_iteration_and_waited_for_before_it_is_needed(
    n: int, ahead: int, wanted: list[str]
) -> None:
    text = f"multi_buffer(a, n={n})\nmulti_buffer(b, n={n})\npipeline(k.o, ahead={ahead})"
    kernel = finish(applied("matmul", ASYNC + text).kernel)
    assert statements(kernel) == wanted
    assert prove(KERNELS["matmul"](), kernel).proved


@pytest.mark.parametrize("trips", [1, 2, 3, 6])
def test_asynchronous_loops_of_any_length_compute_the_same(trips: int) -> None:
    text = "multi_buffer(a, n=3)\nmulti_buffer(b, n=3)\npipeline(k.o, ahead=2)"
    assert_same(KERNELS["matmul"](), applied("matmul", ASYNC + text).kernel, 5, 6, 4 * trips)
