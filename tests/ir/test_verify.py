"""Kernels that no pass may build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.expr import index
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, Buffer
from evolve.ir.types import DType, Space
from evolve.ir.verify import MalformedKernelError, verify
from tests.kernels_ir import vecadd


def with_padding(*padding: int) -> Kernel:
    tile = Buffer("tile", DType.F32, (index(4), index(8)), Space.SHARED, padding)
    k = vecadd()
    return replace(k, body=Block((Alloc(tile), *k.body.stmts)))


def test_rows_of_a_buffer_may_lie_apart() -> None:
    verify(with_padding(0, 1))


@pytest.mark.parametrize("padding", [(0, -1), (-1, 0), (1,)])
def test_rows_of_a_buffer_may_not_overlap(padding: tuple[int, ...]) -> None:
    with pytest.raises(MalformedKernelError, match="padding"):
        verify(with_padding(*padding))
