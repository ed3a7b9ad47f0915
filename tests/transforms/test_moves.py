"""Legal moves are accepted, fit the limits, and random programs of them keep the meaning."""

from __future__ import annotations

import random
import time
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.program import Program
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For
from evolve.ir.visit import walk
from evolve.transforms.apply import apply, apply_program
from evolve.transforms.moves import MoveLimits, legal_moves
from evolve.transforms.names import NameTable
from evolve.workload.model import Contract
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.programs import KERNEL_OF, PROGRAMS

ORDER_IS_THE_PROVERS = ("jam", "reorder", "tile", "distribute", "inline", "compute_at")
"""Primitives whose result may compute something else where the source carries a dependence."""
INDEPENDENT = ["vecadd", "transpose", "stencil", "saxpy", "column_sum", "moments", "matmul", "layernorm"]
"""Kernels on which those are harmless too: no loop-carried dependence but reductions."""
RUN_SIZES = ((3, 5, 4), (9, 7, 10))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_move_is_accepted_along_the_target_programs(name: str) -> None:
    program = parse(PROGRAMS[name])
    for length in range(0, len(program.statements) + 1, 3):
        at = apply_program(KERNELS[KERNEL_OF[name]](), Program(program.statements[:length]))
        for text in legal_moves(at.kernel, at.names):
            apply(at.kernel, parse_statement(text), at.names)


@pytest.mark.parametrize("name", KERNELS)
def test_moves_are_distinct_in_a_fixed_order_and_change_the_kernel(name: str) -> None:
    kernel = KERNELS[name]()
    moves = legal_moves(kernel, NameTable())
    assert moves
    assert moves == legal_moves(kernel, NameTable())
    assert len(set(moves)) == len(moves)
    for text in moves:
        assert apply(kernel, parse_statement(text), NameTable())[0] != kernel


def test_limits_are_kept() -> None:
    at = apply_program(KERNELS["transpose"](), parse("tile([i, j], [64, 64])"))
    wide = legal_moves(at.kernel, at.names, MoveLimits(threads=1024, shared_bytes=48 * 1024))
    narrow = legal_moves(at.kernel, at.names, MoveLimits(threads=32, shared_bytes=1024))
    assert "bind(i.i, thread.x)" in wide
    assert "bind(i.i, thread.x)" not in narrow
    assert "stage(x, at=j.o, scope=shared)" in wide
    assert "stage(x, at=j.o, scope=shared)" not in narrow


def test_specialization_follows_the_sizes_that_are_run() -> None:
    kernel = KERNELS["softmax"]()
    moves = legal_moves(kernel, NameTable(), MoveLimits(sizes={"cols": (96,), "rows": (100, 36)}))
    assert [m for m in moves if m.startswith("specialize(cols")] == [
        "specialize(cols == 96)",
        "specialize(cols % 4 == 0)",
        "specialize(cols % 32 == 0)",
    ]
    assert [m for m in moves if m.startswith("specialize(rows")] == [
        "specialize(rows == 100)",
        "specialize(rows == 36)",
        "specialize(rows % 4 == 0)",
    ]


def test_numbers_of_the_language_can_be_replaced() -> None:
    limits = MoveLimits(numbers={"split.factor": (3, 5), "specialize.condition.multiple_of": (6,)})
    moves = legal_moves(KERNELS["vecadd"](), NameTable(), limits)
    assert [m for m in moves if m.startswith("split")] == ["split(i, 3)", "split(i, 5)"]
    assert "specialize(n % 6 == 0)" in moves and "specialize(n % 4 == 0)" not in moves


def test_declared_launch_bounds_limit_what_is_bound() -> None:
    at = apply_program(KERNELS["transpose"](), parse("tile([i, j], [32, 16])\nlaunch_bounds(16)"))
    moves = legal_moves(at.kernel, at.names)
    assert "bind(j.i, thread.x)" in moves
    assert "bind(i.i, thread.x)" not in moves


def test_moves_of_a_matmul_are_listed_quickly() -> None:
    at = apply_program(KERNELS["matmul"](), parse(PROGRAMS["matmul"]))
    legal_moves(at.kernel, at.names)
    best = min(_seconds(at.kernel, at.names) for _ in range(3))
    assert best < 0.1, "the budget, in processor time"


def _seconds(kernel: Kernel, names: NameTable) -> float:
    start = time.process_time()
    legal_moves(kernel, names)
    return time.process_time() - start


def _walk(kernel: Kernel, rng: random.Random, length: int, avoid: tuple[str, ...]) -> tuple[Kernel, str]:
    names, text = NameTable(), ""
    for _ in range(length):
        # Versions are used again: whether a loop's parts can be done one after the other, the prover decides.
        left_out = (*avoid, "distribute") if "multi_buffer" in text else avoid
        # Fixed sizes of thousands would only make the interpreter slow.
        moves = [
            m
            for m in legal_moves(kernel, names)
            if not m.startswith(left_out) and "== 4096" not in m and "== 8192" not in m and "== 1024" not in m
        ]
        if not moves or len(list(_loops(kernel))) > 24:
            break
        # By primitive first: there are many more ways to split than to stage.
        kinds = sorted({m.split("(")[0] for m in moves})
        kind = rng.choice(kinds)
        move = rng.choice([m for m in moves if m.split("(")[0] == kind])
        text += move + "\n"
        kernel, names = apply(kernel, parse_statement(move), names)
    return kernel, text


def _loops(kernel: Kernel) -> list[For]:
    return [s.stmt for s in walk(kernel.body) if isinstance(s.stmt, For)]


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(INDEPENDENT), st.integers(0, 2**32), st.integers(1, 7))
def test_random_programs_keep_the_meaning(name: str, seed: int, length: int) -> None:
    source = KERNELS[name]()
    avoid = ("jam", "distribute") if name == "layernorm" else ()
    kernel, text = _walk(source, random.Random(seed), length, avoid)
    for wanted in RUN_SIZES:
        try:
            assert_same(source, kernel, *wanted)
        except Exception as e:
            raise AssertionError(f"{name} after\n{text}") from e


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["softmax", "running", "triangle"]), st.integers(0, 2**32), st.integers(1, 6))
def test_random_programs_without_reordering_keep_the_meaning_of_any_kernel(
    name: str, seed: int, length: int
) -> None:
    source = KERNELS[name]()
    kernel, text = _walk(source, random.Random(seed), length, ORDER_IS_THE_PROVERS)
    for wanted in RUN_SIZES:
        try:
            assert_same(source, kernel, *wanted)
        except Exception as e:
            raise AssertionError(f"{name} after\n{text}") from e


def test_copies_of_inputs_are_offered_for_rounding_under_mixed_only() -> None:
    staged = applied("softmax", "specialize(cols == 8)\ncopy = stage(x, at=row, scope=register)")
    for numerics in get_args(Contract):
        moves = legal_moves(staged.kernel, staged.names, MoveLimits(numerics=numerics))
        rounded = {m for m in moves if "bf16" in m}
        assert rounded == ({"set_precision(copy, bf16)"} if numerics == "mixed" else set())
