"""jam, distribute and specialize."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.printer import print_expr, print_kernel
from evolve.ir.stmt import Alloc, Stmt
from evolve.ir.types import Space
from evolve.ir.visit import local_buffers, rewrite
from evolve.transforms.apply import apply_program
from tests.transforms.fixtures import KERNELS, applied, assert_same


def refused(kernel: str, program: str) -> RefusedError:
    with pytest.raises(RefusedError) as e:
        applied(kernel, program)
    return e.value


def test_jam_moves_what_stands_between_to_the_front() -> None:
    text = print_kernel(applied("moments", "jam(c, c_2)").kernel)
    assert text.index("q[] = 0.0:f32") < text.index("for c in")
    assert text.count("for c") == 1


def test_jam_refuses_to_move_what_depends_on_the_first_loop() -> None:
    error = refused("layernorm", "jam(c, c_2)")
    assert error.diagnostic.code == "E-JAM-APART"
    assert "touch s" in error.diagnostic.message


def test_jam_of_dependent_loops_is_left_to_the_prover() -> None:
    # The precondition is local: that the maximum is complete before it is used is a question of flow.
    kernel = applied("softmax", "jam(c, c_2)").kernel
    with pytest.raises(AssertionError):
        assert_same(KERNELS["softmax"](), kernel, 3, 5)


def test_distribute_makes_one_dimension_of_the_digits_of_an_index() -> None:
    program = "tile([i, j], [16, 8])\nsplit(i.i, 4)\nsplit(j.i, 4)\nreorder([i.i.o, j.i.o, i.i.i, j.i.i])\n"
    kernel = applied("matmul", program + "distribute([i.i.o, j.i.o, i.i.i, j.i.i])").kernel
    assert [print_expr(e) for e in local_buffers(kernel.body)["sum"].extents] == ["16", "8"]
    for sizes in ((16, 8, 4), (5, 9, 3)):
        assert_same(KERNELS["matmul"](), kernel, *sizes)


def test_distribute_of_part_of_the_digits_gives_each_loop_a_dimension() -> None:
    program = "specialize(M % 16 == 0)\ntile([i, j], [16, 8])\nsplit(i.i, 4)\nreorder([j.i, i.i.i, i.i.o])\n"
    kernel = applied("matmul", program + "distribute([i.i.i, i.i.o])").kernel
    assert [print_expr(e) for e in local_buffers(kernel.body)["sum"].extents] == ["16"]
    kernel = applied("matmul", program + "distribute(i.i.o)").kernel
    assert [print_expr(e) for e in local_buffers(kernel.body)["sum"].extents] == ["4"]
    assert_same(KERNELS["matmul"](), kernel, 16, 5, 3)


def test_distribute_refuses_shared_buffers() -> None:
    kernel = KERNELS["matmul"]()

    def shared(s: Stmt) -> Stmt | None:
        return Alloc(replace(s.buffer, space=Space.SHARED)) if isinstance(s, Alloc) else None

    kernel = replace(kernel, body=rewrite(kernel.body, shared))
    with pytest.raises(RefusedError) as e:
        apply_program(kernel, parse("tile([i, j], [8, 8])\ndistribute([i.i, j.i])"))
    assert e.value.diagnostic.code == "E-EXPAND"


def test_copies_remember_where_they_came_from() -> None:
    with pytest.raises(RefusedError, match=r"distributed into i\.i\.0, i\.i\.1, i\.i\.2"):
        applied("matmul", "tile([i, j], [8, 8])\ndistribute([i.i, j.i])\nunroll(i.i)")


def test_specialize_puts_a_constant_everywhere() -> None:
    kernel = applied("softmax", "specialize(cols == 512)").kernel
    assert "cols" not in print_kernel(kernel).split("assume cols == 512")[1]
    assert [print_expr(e) for e in kernel.buffers[0].extents] == ["rows", "512"]


def test_a_constant_reaches_data_too() -> None:
    text = print_kernel(applied("layernorm", "specialize(cols == 512)").kernel)
    assert "mean[] = s[] / f32(512)" in text


@pytest.mark.parametrize(
    ("condition", "fact"),
    [
        ("rows < 100", "rows <= 99"),
        ("rows > 3", "rows >= 4"),
        ("100 > rows", "rows <= 99"),
        ("8192 == cols", "cols == 8192"),
        ("rows % 4 == 0", "rows mod 4 == 0"),
        ("rows * cols <= 1000", "rows * cols <= 1000"),
        ("rows == cols", "rows == cols"),
    ],
)
def test_conditions_are_kept_in_one_form(condition: str, fact: str) -> None:
    kernel = applied("softmax", f"specialize({condition})").kernel
    assert [print_expr(a) for a in kernel.assumptions] == [fact]


@pytest.mark.parametrize(
    "program",
    [
        "specialize(cols == 0)",
        "specialize(cols < 1)",
        "specialize(cols % 8 == 0 and cols == 100)",
        "specialize(cols == 100 and cols % 8 == 0)",
        "specialize(1 == 2)",
    ],
)
def test_contradictions(program: str) -> None:
    assert refused("softmax", program).diagnostic.code == "E-CONTRADICTION"


def test_a_data_scalar_is_not_a_size() -> None:
    assert refused("saxpy", "specialize(alpha == 1)").diagnostic.code == "E-NAME"


def test_depth_is_limited() -> None:
    text = "".join(f"split(i{'.o' * n}, 2)\n" for n in range(100))
    error = refused("vecadd", text)
    assert error.diagnostic.code == "E-SIZE"
    assert error.diagnostic.statement is not None
    assert error.diagnostic.statement < 50


def test_holes_must_be_filled() -> None:
    assert refused("vecadd", "split(i, ?[2, 4])").diagnostic.code == "E-HOLE"
    assert refused("transpose", "tile([i, j], [8, ?[2, 4]])").diagnostic.code == "E-HOLE"
