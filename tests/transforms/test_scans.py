"""scan."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from evolve.ir.types import LoopKind
from evolve.ir.visit import loop_sites
from evolve.legality.verdict import Status
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.test_proved import verdict

CHUNKS = "split(c, 4)\nsplit(c.o, 64)\nscan(c.o.i)"
LANES = "split(row, 4)\nbind(row.o, grid.x)\nbind(row.i, thread.y)\nsplit(c, 4)\nsplit(c.o, 8)\nscan(c.o.i)"
PIECES = "specialize(cols == 256)\nbind(row, grid.x)\nsplit(c, 8)\nscan(c.o)"


@pytest.mark.parametrize("program", [CHUNKS, LANES, PIECES, "split(c, 32)\nscan(c.i)"])
def test_the_totals_are_those_of_the_source(program: str) -> None:
    kernel = applied("running", program).kernel
    for cols in (1, 3, 31, 32, 33, 255, 256, 300):
        assert_same(KERNELS["running"](), kernel, 3, cols)


@pytest.mark.parametrize(
    "program", [f"bind(row, grid.x)\n{CHUNKS}", f"specialize(rows % 4 == 0)\n{LANES}", PIECES]
)
def test_it_is_proved(program: str) -> None:
    assert verdict("running", program).status is Status.PROVED


def test_the_whole_is_one_scan_loop_between_two_sweeps() -> None:
    kernel = applied("running", CHUNKS).kernel
    text = print_kernel(kernel)
    assert "s_before[c.o.i.all] = s[]\n" in text
    assert text.index("s_part[c.o.i.part] sum= x[") < text.index("s[] sum= s_part[c.o.i.all]")
    assert text.index("s[] sum= s_part[c.o.i.all]") < text.index("s_before[c.o.i] sum= x[")
    kinds = {n: s.stmt.kind for n, s in loop_sites(kernel.body).items()}  # type: ignore[union-attr]
    assert kinds["c.o.i.all"] is LoopKind.SCAN_BLOCK
    assert {kinds[n] for n in ("c.o.i.init", "c.o.i.part", "c.o.i")} == {LoopKind.THREAD_X}
    assert kinds["c.i.part"] is LoopKind.SERIAL


def test_up_to_a_warp_it_is_a_scan_of_lanes() -> None:
    sites = loop_sites(applied("running", LANES).kernel.body)
    assert sites["c.o.i.all"].stmt.kind is LoopKind.SCAN_WARP  # type: ignore[union-attr]


def test_wide_scans_do_not_nest_in_thread_loops() -> None:
    with pytest.raises(RefusedError) as e:
        applied("running", "split(row, 4)\nbind(row.i, thread.y)\nsplit(c, 64)\nscan(c.i)")
    assert e.value.diagnostic.code == "E-REDUCE-NEST"


def test_a_total_of_what_the_loop_writes_is_refused() -> None:
    with pytest.raises(RefusedError) as e:
        applied("cascade", "split(c, 32)\nscan(c.i)")
    assert e.value.diagnostic.code == "E-REDUCE-READ"
