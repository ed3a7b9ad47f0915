"""cache_write."""

from __future__ import annotations

import pytest

from evolve.ir.printer import print_kernel
from evolve.legality.verdict import Status
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.test_proved import verdict

RUNNING = (
    "specialize(cols % 4 == 0)\nbind(row, grid.x)\nsplit(c, 4)\nyr = cache_write(y, at=c.o, scope=register)"
)
TRANSPOSE = (
    "tile([i, j], [16, 16])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\nt = cache_write(y, at=j.o, scope=shared)\n"
    "bind([i.i, t.0], thread.y)\nbind([j.i, t.1], thread.x)"
)
CASES = [("running", RUNNING), ("transpose", TRANSPOSE)]


@pytest.mark.parametrize(("kernel", "program"), CASES)
def test_the_same_is_written(kernel: str, program: str) -> None:
    after = applied(kernel, program).kernel
    for sizes in ((3, 5), (16, 16), (17, 33), (1, 1)):
        assert_same(KERNELS[kernel](), after, *sizes)


@pytest.mark.parametrize(("kernel", "program"), CASES)
def test_it_is_proved(kernel: str, program: str) -> None:
    assert verdict(kernel, program).status is Status.PROVED


def test_the_copy_is_written_out_last_and_inside_the_guard_of_registers() -> None:
    text = print_kernel(
        applied("running", "split(row, 8)\nsplit(c, 4)\ncache_write(y, at=c.o, scope=register)").kernel
    )
    assert text.index("y_w[0, c.i] = s[]") < text.index(
        "y[row.o * 8 + row.i, c.o * 4 + y_w.1] = y_w[0, y_w.1]"
    )
