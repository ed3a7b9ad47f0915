"""What is asked of the caches: compiles for every type, reaches the machine code, changes no value."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble
from tests.codegen.conftest import Runner

TYPES = ("bool", "unsigned char", "unsigned int", "long long", "double")
COPIES = (
    "__global__ void work("
    + "".join(f"const {t} *x{k}, {t} *y{k}, " for k, t in enumerate(TYPES))
    + "int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {"
    + "".join(f" y{k}[i] = x{k}[i];" for k in range(len(TYPES)))
    + " }\n}\n"
)
SUM = """
__global__ void work(const float *a, const float *b, const float *c, const float *d, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i] + c[i] + d[i];
}
"""
UPDATE = """
__global__ void work(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + y[i];
}
"""
FIRST, LAST = 0x120, 0x140
"""What the assembler makes the upper half of L2's policies from."""


def rendered(text: str, hints: dict[str, str], width: int, folder: Path) -> Rendered:
    file = folder / "work.cu"
    file.write_text(text)
    lifted = lift(file)
    lines = ["specialize(n % 4 == 0)", *(f"cache_hint({a}, {asked})" for a, asked in hints.items())]
    lines += [f"vectorize(i, {width})", "bind(i.o, grid.x)"] if width > 1 else ["bind(i, grid.x)"]
    made = compile_program(Source(lifted.kernel, lifted.original), parse("\n".join(lines)), Limits())
    assert made.module is not None, made.diagnostics
    return render(made.module)


def test_a_subscript_is_loaded_with_a_hint(tmp_path: Path) -> None:
    text = "__global__ void work(const float *x, const int *idx, float *y, int n) {\n"
    text += "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[idx[i]];\n}\n"
    done = compile_cuda(rendered(text, {"idx": "evict_first"}, 1, tmp_path).text)
    assert done.ok, done.log


def accesses(text: str) -> tuple[dict[str, Counter[str]], set[int]]:
    """How often the variant's global loads and stores have each modifier, and the constants that it moves."""
    done = compile_cuda(text)
    assert done.ok, done.log
    code = disassemble([done.cubin])[0]["work_v1"]
    found: dict[str, Counter[str]] = {"LDG": Counter(), "STG": Counter()}
    constants: set[int] = set()
    for i in code.instructions:
        if i.opcode in found:
            found[i.opcode].update(i.modifiers)
        if i.opcode == "UMOV" and i.operands[1].startswith("0x"):
            constants.add(int(i.operands[1], 16))
    return found, constants & {FIRST, LAST}


@pytest.mark.parametrize(
    ("loads", "stores", "function"),
    [
        ("read_only", "l2", "__ldg("),
        ("streaming", "streaming", "__ldcs("),
        ("no_allocate, l2=evict_first", "default, l2=evict_last", "load_double_no_allocate_l2_evict_first"),
    ],
)
def test_elements_and_vectors_compile(loads: str, stores: str, function: str, tmp_path: Path) -> None:
    """There are no such functions for bool: single ones are accessed plainly, vectors as those of bytes."""
    hints = {f"{a}{k}": asked for k in range(len(TYPES)) for a, asked in (("x", loads), ("y", stores))}
    for width in (1, 2):
        text = rendered(COPIES, hints, width, tmp_path).text
        assert function.replace("double", "double" if width == 1 else "double2") in text
        done = compile_cuda(text)
        assert done.ok, done.log


@pytest.mark.parametrize(("width", "bits"), [(1, {}), (2, {"64": 4}), (4, {"128": 4})])
def test_what_is_said_to_l1_is_said_by_the_instruction(
    width: int, bits: dict[str, int], tmp_path: Path
) -> None:
    hints = {"a": "evict_first", "b": "evict_last", "c": "no_allocate", "y": "evict_last"}
    found, policies = accesses(rendered(SUM, hints, width, tmp_path).text)
    assert found["LDG"] == {"E": 4, "CONSTANT": 4, "EF": 1, "EL": 1, "NA": 1, **bits}
    assert found["STG"] == {"E": 1, "EL": 1} | dict.fromkeys(bits, 1)
    assert not policies


@pytest.mark.parametrize(("priority", "policy"), [("evict_first", FIRST), ("evict_last", LAST)])
def test_what_is_said_to_l2_is_a_policy_of_the_access(priority: str, policy: int, tmp_path: Path) -> None:
    said = {"a": "default", "b": "streaming", "c": "no_allocate", "d": "l2", "y": "streaming"}
    hints = {array: f"{to_l1}, l2={priority}" for array, to_l1 in said.items()}
    found, policies = accesses(rendered(SUM, hints, 4, tmp_path).text)
    assert found["LDG"] == {"E": 4, "128": 4, "CONSTANT": 4, "EF": 1, "NA": 1}
    assert found["STG"] == {"E": 1, "128": 1, "EF": 1}
    assert policies == {policy}


def test_what_is_said_of_one_array_is_not_said_of_others(tmp_path: Path) -> None:
    """What the kernel writes is not loaded as a constant either."""
    hints = {"x": "evict_first, l2=evict_first", "y": "evict_last"}
    found, policies = accesses(rendered(UPDATE, hints, 4, tmp_path).text)
    assert found["LDG"] == {"E": 2, "128": 2, "EF": 1, "EL": 1, "CONSTANT": 1}
    assert found["STG"] == {"E": 1, "128": 1, "EL": 1}
    assert policies == {FIRST}


@pytest.mark.parametrize("width", [1, 4])
def test_no_value_changes(width: int, run_rendered: Runner, tmp_path: Path) -> None:
    hints = {"x": "no_allocate, l2=evict_first", "y": "evict_last, l2=evict_last"}
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    made = rendered(UPDATE, hints, width, tmp_path)
    out = run_rendered(made, {"x": x, "y": y}, {"n": 8}, {"y"}, inout={"y"})
    np.testing.assert_array_equal(out["y"], x + 1)
