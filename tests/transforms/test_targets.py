"""The target programs give the kernels that they promise, and compute the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evolve.dsl.parser import parse
from evolve.dsl.program import Program
from evolve.ir.kernel import Kernel
from evolve.ir.layout import register_layouts
from evolve.ir.printer import print_kernel
from evolve.ir.stmt import Alloc, For
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import loop_sites, walk
from evolve.transforms.apply import apply_program
from tests.codegen import scheduled_ir
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.programs import KERNEL_OF, PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_text_round_trips(name: str) -> None:
    program = parse(PROGRAMS[name])
    assert parse(str(program)) == program


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_exist(name: str) -> None:
    register_layouts(applied(KERNEL_OF[name], PROGRAMS[name]).kernel)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("matmul", "softmax", "layernorm")])
def test_every_step_computes_the_same(name: str) -> None:
    source = KERNELS[KERNEL_OF[name]]()
    for step in applied(KERNEL_OF[name], PROGRAMS[name]).steps:
        for wanted in ((5, 3, 4), (33, 35, 2)):
            assert_same(source, step, *wanted)


@pytest.mark.parametrize("name", ["matmul", "softmax", "layernorm"])
def test_result_computes_the_same(name: str) -> None:
    source = KERNELS[KERNEL_OF[name]]()
    assert_same(source, applied(KERNEL_OF[name], PROGRAMS[name]).kernel, 1, 1, 1)


def small(name: str, *numbers: tuple[str, str]) -> str:
    text = PROGRAMS[name]
    for old, new in numbers:
        assert old in text
        text = text.replace(old, new)
    return text


def test_matmul_of_small_tiles_computes_the_same_at_each_step() -> None:
    text = small(
        "matmul",
        ("128", "16"),
        ("K % 16", "K % 8"),
        ("split(k, 16)", "split(k, 8)"),
        ("[8, 8]", "[4, 4]"),
        ("split(a.0, 16)", "split(a.0, 4)"),
        ("split(b.1.o, 16)", "split(b.1.o, 2)"),
        ("j.i.i.2.o, ", ""),
    )
    source = KERNELS["matmul"]()
    for step in apply_program(source, parse(text)).steps:
        assert_same(source, step, 16, 20, 11)


def test_softmax_of_a_short_row_computes_the_same_at_each_step() -> None:
    text = small("softmax", ("8192", "256"), ("256)\nblock", "32)\nblock"))
    source = KERNELS["softmax"]()
    for step in apply_program(source, parse(text)).steps:
        assert_same(source, step, 3, 3)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("softmax", scheduled_ir.softmax_block),
        ("softmax_warp", scheduled_ir.softmax_warp),
        ("transpose4", scheduled_ir.transpose_float4),
    ],
)
def test_loops_and_buffers_are_those_of_the_hand_written_schedule(
    program: str, expected: Callable[[], Kernel]
) -> None:
    want = expected()
    got = applied(KERNEL_OF[program], PROGRAMS[program]).kernel

    def shape(kernel: Kernel) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for site in walk(kernel.body):
            if isinstance(site.stmt, For):
                rows.append((site.stmt.var, site.stmt.extent, site.stmt.kind, len(site.loops)))
        return rows

    def buffers(kernel: Kernel) -> set[object]:
        return {s.stmt.buffer for s in walk(kernel.body) if isinstance(s.stmt, Alloc)}

    assert shape(got) == shape(want)
    assert buffers(got) == buffers(want)


def test_softmax_reads_global_memory_once() -> None:
    text = print_kernel(applied("softmax", PROGRAMS["softmax"]).kernel)
    assert text.count("x[row,") == 1
    assert text.count("xr[0,") == 4


def test_steps_are_the_kernels_of_the_prefixes() -> None:
    program = parse(PROGRAMS["transpose"])
    result = apply_program(KERNELS["transpose"](), program)
    assert len(result.steps) == len(program.statements)
    assert result.steps[-1] == result.kernel
    prefix = apply_program(KERNELS["transpose"](), Program(program.statements[:4]))
    assert prefix.kernel == result.steps[3]


def test_matmul_keeps_its_sums_in_a_distributed_register_tile() -> None:
    kernel = applied("matmul", PROGRAMS["matmul"]).kernel
    layout = register_layouts(kernel)["sum"]
    assert layout.is_distributed
    assert layout.slots == (8, 8)
    spaces = {s.stmt.buffer.name: s.stmt.buffer.space for s in walk(kernel.body) if isinstance(s.stmt, Alloc)}
    assert spaces["a"] is Space.SHARED
    assert loop_sites(kernel.body)["k.o"].loops[-1].kind is LoopKind.GRID_X
