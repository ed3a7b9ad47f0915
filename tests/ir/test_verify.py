"""Kernels that no pass may build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.expr import Const, index
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, Buffer, Reduce
from evolve.ir.types import MAX, PROD, SUM, DType, Monoid, Space
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


def updating(space: Space, monoid: Monoid) -> Kernel:
    cell = Buffer("cell", DType.F32, (), space)
    update = Reduce("cell", (), monoid, Const(1.0, DType.F32), atomic=True)
    k = vecadd()
    return replace(k, body=Block((Alloc(cell), update, *k.body.stmts)))


def test_shared_memory_can_be_updated_by_many() -> None:
    verify(updating(Space.SHARED, SUM))


@pytest.mark.parametrize(
    ("space", "monoid", "message"),
    [
        (Space.REGISTER, SUM, "in registers"),
        (Space.SHARED, MAX, "no atomic max of f32"),
        (Space.SHARED, PROD, "no atomic prod of f32"),
    ],
)
def test_only_what_the_hardware_does_at_once_is_atomic(space: Space, monoid: Monoid, message: str) -> None:
    with pytest.raises(MalformedKernelError, match=message):
        verify(updating(space, monoid))
