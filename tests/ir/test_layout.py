"""Ownership of distributed register buffers."""

from __future__ import annotations

import pytest

from evolve.ir.expr import Expr, add, index, mul, var
from evolve.ir.kernel import Kernel
from evolve.ir.layout import LayoutError, register_layouts, slot_of
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, For, Reduce, Stmt, Store
from evolve.ir.types import SUM, LoopKind, Space
from evolve.ir.visit import leaves
from tests.kernels_ir import buf, ld, loop

T = LoopKind.THREAD_X


def nest(k: str, t: str, v: str, leaf: Stmt, *, stride: int = 4, outer: int = 64) -> For:
    return loop(k, index(2), loop(t, index(16), loop(v, index(4), leaf), kind=T))


def c(k: str, t: str, v: str) -> Expr:
    return add(add(mul(var(k), 64), mul(var(t), 4)), var(v))


def kernel(*body: Stmt) -> Kernel:
    x, y = buf("x", index(128)), buf("y", index(128))
    return Kernel("f", ("x", "y"), (x, y), (), Block((loop("r", index(1), *body, kind=LoopKind.GRID_X),)))


def row(*extra: Stmt) -> Kernel:
    fill = nest("k", "t", "v", Store("xr", (c("k", "t", "v"),), ld("x", c("k", "t", "v"))))
    return kernel(Alloc(buf("xr", index(128), space=Space.REGISTER)), fill, *extra)


def test_digits_owner_and_slots() -> None:
    layout = register_layouts(row())["xr"]
    assert [(d.stride, d.extent, d.axis) for d in layout.dims[0]] == [(64, 2, None), (4, 16, T), (1, 4, None)]
    assert layout.slots == (2, 4)


def test_same_split_reads_its_own_slots() -> None:
    use = nest("k2", "t2", "v2", Store("y", (c("k2", "t2", "v2"),), ld("xr", c("k2", "t2", "v2"))))
    k = row(use)
    layout = register_layouts(k)["xr"]
    *_, (leaf, site) = leaves(k.body)
    slots = slot_of(layout, leaf.value.indices, site.loops, ranges_at(k, site.path))  # type: ignore[union-attr]
    assert slots == (var("k2"), var("v2"))


def test_another_split_is_refused() -> None:
    other = add(add(mul(var("t2"), 8), mul(var("k2"), 4)), var("v2"))
    use = loop(
        "t2",
        index(16),
        loop("k2", index(2), loop("v2", index(4), Store("y", (other,), ld("xr", other)))),
        kind=T,
    )
    k = row(use)
    *_, (leaf, site) = leaves(k.body)
    with pytest.raises(LayoutError) as e:
        slot_of(register_layouts(k)["xr"], (other,), site.loops, ranges_at(k, site.path))
    assert e.value.code == "E-OWNER"
    assert leaf.buffer == "y"


@pytest.mark.parametrize(("axis", "held"), [(T, True), (LoopKind.THREAD_Y, False)])
def test_combines_count_the_threads_of_one_axis(axis: LoopKind, held: bool) -> None:
    """Iterations of a combine loop stand for threads along x: what others hold is not theirs to name."""
    fill = loop("t", index(16), Store("p", (var("t"),), ld("x", var("t"))), kind=axis)
    fold = loop("a", index(16), Reduce("y", (index(0),), SUM, ld("p", var("a"))), kind=LoopKind.COMBINE_BLOCK)
    k = kernel(Alloc(buf("p", index(16), space=Space.REGISTER)), fill, fold)
    *_, (leaf, site) = leaves(k.body)
    given = register_layouts(k)["p"], (var("a"),), site.loops, ranges_at(k, site.path)
    assert isinstance(leaf, Reduce)
    if held:
        assert slot_of(*given) == ()
    else:
        with pytest.raises(LayoutError, match="thread that holds the element"):
            slot_of(*given)


def test_every_thread_filling_the_same_cells_is_refused() -> None:
    fill = loop("t", index(16), loop("v", index(4), Store("xr", (var("v"),), ld("x", var("v")))), kind=T)
    k = kernel(Alloc(buf("xr", index(4), space=Space.REGISTER)), fill)
    with pytest.raises(LayoutError) as e:
        register_layouts(k)
    assert (e.value.code, e.value.loop) == ("E-OWNER", "t")


def test_a_window_without_constant_extent_is_refused() -> None:
    k = kernel(Alloc(buf("xr", var("n"), space=Space.REGISTER)))
    with pytest.raises(LayoutError) as e:
        register_layouts(k)
    assert e.value.code == "E-WINDOW"
