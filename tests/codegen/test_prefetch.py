"""Requests to L2: in the machine code, in bounds in every order of the threads, and without effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble
from tests.codegen.conftest import Runner

KERNELS = Path(__file__).parents[2] / "kernels"
ROWS = "bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)\n"
LINES = "specialize(cols == 100)\nasked = prefetch(in, at=r, ahead=2, bytes=64)\nbind(asked.1, thread.x)\n"


def text_of(program: str) -> str:
    lifted = lift(KERNELS / "row_sum.cu")
    made = compile_program(Source(lifted.kernel, lifted.original), parse(program), Limits())
    assert made.module is not None, made.diagnostics
    return render(made.module).text


def test_a_request_is_an_instruction_without_a_register_for_its_result() -> None:
    text = text_of(LINES + ROWS)
    assert "float asked" not in text
    done = compile_cuda(text)
    assert done.ok, done.log
    code = disassemble([done.cubin])[0]["row_sum_v1"].instructions
    (asked,) = (i for i in code if i.opcode == "CCTL")
    assert "PF2" in asked.modifiers


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_no_request_leaves_the_array_and_no_value_changes(rows: int, run_rendered: Runner) -> None:
    lifted = lift(KERNELS / "row_sum.cu")
    made = compile_program(Source(lifted.kernel, lifted.original), parse(LINES + ROWS), Limits())
    assert made.module is not None, made.diagnostics
    x = np.arange(rows * 100, dtype=np.float32).reshape(rows, 100) % 17
    arrays = {"in": x, "out": np.zeros(rows, np.float32)}
    out = run_rendered(render(made.module), arrays, {"rows": rows, "cols": 100}, {"out"})
    np.testing.assert_array_equal(out["out"], x.sum(1))
