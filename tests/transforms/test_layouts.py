"""Swizzled tiles."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from evolve.ir.swizzle import Swizzle
from evolve.ir.visit import local_buffers
from tests.transforms.fixtures import KERNELS, applied, assert_same

TILE = "tile([i, j], [16, 32])\nt = stage(x, at=j.o, scope=shared)\n"


def swizzle(program: str) -> Swizzle | None:
    return local_buffers(applied("transpose", program).kernel.body)["t"].swizzle


def refused(program: str) -> str:
    with pytest.raises(RefusedError) as e:
        applied("transpose", program)
    assert e.value.diagnostic.code == "E-LAYOUT-SWIZZLE"
    return e.value.diagnostic.message


def test_a_swizzle_is_part_of_the_buffer_and_of_its_text_and_changes_no_subscript() -> None:
    plain, swizzled = (
        applied("transpose", TILE + s).kernel for s in ("", "set_layout(t, swizzle=[4, 8, 2])")
    )
    assert swizzle(TILE + "set_layout(t, swizzle=[4, 8, 2])") == Swizzle(4, 8, 2)
    assert swizzle(TILE + "set_layout(t, swizzle=[4, 8])") == Swizzle(4, 8, 1)
    text = "t: shared f32[16, 32]"
    assert print_kernel(swizzled).replace(f"{text} swizzle(4, 8, 2)", text) == print_kernel(plain)
    assert_same(KERNELS["transpose"](), swizzled, 20, 40)


def test_a_swizzle_stays_while_padding_and_versions_change() -> None:
    program = TILE + "set_layout(t, swizzle=[4, 8])\nset_layout(t, pad=[0, 4])\nmulti_buffer(t, n=2)"
    assert swizzle(program) == Swizzle(4, 8)
    assert swizzle(TILE + "set_layout(t, swizzle=[4, 8])\nset_layout(t, swizzle=[1, 32])") == Swizzle(1, 32)
    assert swizzle(TILE + "set_layout(t, order=[1, 0], swizzle=[4, 4])") == Swizzle(4, 4)


@pytest.mark.parametrize(
    "given", ["[4]", "[4, 8, 1, 1]", "[4, 16]", "[64, 2]", "[3, 2]", "[4, 1]", "[4, 8, 3]"]
)
def test_what_is_no_swizzle_of_32_columns(given: str) -> None:
    refused(TILE + f"set_layout(t, swizzle={given})")


def test_vectors_that_a_swizzle_would_take_apart() -> None:
    wide = "specialize(cols % 32 == 0)\n" + TILE + "vectorize(t.1, 4)\n"
    message = refused(wide + "set_layout(t, swizzle=[2, 8])")
    assert "4 columns at once" in message and "2 stay together" in message
    assert swizzle(wide + "set_layout(t, swizzle=[4, 8])") == Swizzle(4, 8)
    assert swizzle(wide + "set_layout(t, pad=[0, 1])\nset_layout(t, swizzle=[2, 8])"), (
        "they are apart already"
    )


def test_vectors_that_also_read_an_array_of_one_dimension() -> None:
    wide = "specialize(cols == 64)\nt = stage(x, at=row, scope=shared)\nvectorize(c_3, 4)\n"
    got = applied("layernorm", wide + "set_layout(t, swizzle=[4, 8])").kernel
    assert local_buffers(got.body)["t"].swizzle == Swizzle(4, 8)


def test_columns_that_would_become_rows() -> None:
    assert "say how" in refused(TILE + "set_layout(t, swizzle=[4, 4])\nset_layout(t, order=[1, 0])")
