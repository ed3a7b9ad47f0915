"""Instructions know their source line: as nvdisasm prints it, and as the text has it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble
from evolve.toolchain.tools import find_tool

from .conftest import ARCHS, SOURCE

INLINED = """
__device__ __forceinline__ float twice(float v) {
    return v + v * 3.0f;
}

extern "C" __global__ void k(float *x) {
    x[0] = twice(x[1])
        * twice(x[2]);
}
"""


def with_lines(text: str, arch: str) -> bytes:
    result = compile_cuda(text, arch, [LINE_INFO])
    assert result.cubin is not None, result.log
    return result.cubin


@pytest.mark.parametrize("arch", ARCHS)
def test_lines_agree_with_nvdisasm(arch: str, tmp_path: Path) -> None:
    image = with_lines(SOURCE, arch)
    file = tmp_path / "image.cubin"
    file.write_bytes(image)
    call = [str(find_tool("nvdisasm")), "-g", "-c", str(file)]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    (kernels,) = disassemble([image])
    compared = 0
    for part in said.split("\n.text.")[1:]:
        name = part[: part.index(":")]
        line = None
        found = {i.address: i.line for i in kernels[name].instructions}
        for row in part.splitlines():
            if match := re.search(r'## File ".*", line (\d+)', row):
                line = int(match[1])
            elif match := re.match(r"\s*/\*([0-9a-f]{4,})\*/", row):
                assert found[int(match[1], 16)] == line, row
                compared += 1
    assert compared == sum(len(k.instructions) for k in kernels.values())


@pytest.mark.parametrize("arch", ARCHS)
def test_line_information_does_not_change_the_code(arch: str, cubins: dict[str, bytes]) -> None:
    plain, lined = read_cubin(cubins[arch]), read_cubin(with_lines(SOURCE, arch))
    assert {n: k.code for n, k in plain.kernels.items()} == {n: k.code for n, k in lined.kernels.items()}
    assert all(k.lines == () for k in plain.kernels.values())
    assert all(i.line is None for s in disassemble([cubins[arch]])[0].values() for i in s.instructions)


def test_a_store_lies_on_its_own_line_and_inlined_code_on_its_function() -> None:
    (kernels,) = disassemble([with_lines(INLINED, "sm_90")])
    code = kernels["k"].instructions
    assert {i.line for i in code if i.opcode == "STG"} == {7}
    assert {i.line for i in code if i.opcode in ("FADD", "FFMA")} == {3}


def test_code_of_another_file_has_no_line() -> None:
    text = '#line 40 "elsewhere.cuh"\n__device__ float f(float v) { return v * 3.0f; }\n#line 1 "kernel.cu"\n'
    (kernels,) = disassemble(
        [with_lines(text + 'extern "C" __global__ void k(float *x) { x[0] = f(x[1]); }', "sm_90")]
    )
    lines = {i.line for i in kernels["k"].instructions if i.opcode == "FMUL"}
    assert 40 not in lines
