"""What we read from a cubin is what cuobjdump prints; a damaged image is refused, never misread."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.elf import open_elf
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.tools import find_tool

from .conftest import ARCHS

_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")


@pytest.mark.parametrize("arch", ARCHS)
def test_resources_agree_with_cuobjdump(arch: str, cubins: dict[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "image.cubin"
    file.write_bytes(cubins[arch])
    call = [str(find_tool("cuobjdump")), "-res-usage", str(file)]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    expected = {m[1]: (int(m[2]), int(m[3]), int(m[4])) for m in _USAGE.finditer(said)}
    image = read_cubin(cubins[arch])
    assert f"sm_{image.sm}" == arch
    assert set(expected) == set(image.kernels)
    # cuobjdump counts the system's kilobyte from 9.0 on; a kernel of no shared memory has no section.
    for name, kernel in image.kernels.items():
        registers, stack, shared = expected[name]
        assert (kernel.registers, kernel.stack_bytes) == (registers, stack)
        assert kernel.shared_bytes == (shared - 1024 if image.sm >= 90 and shared else shared)


def test_the_figures_are_the_sources(cubins: dict[str, bytes]) -> None:
    kernels = read_cubin(cubins["sm_90"]).kernels
    assert set(kernels) == {"row", "nest", "spill", "_Z7dynamicPdPhi"}
    assert kernels["row"].shared_bytes == 128
    assert kernels["row"].max_threads == 256
    assert kernels["row"].stack_bytes == 0
    assert kernels["row"].param_bytes == 20
    assert kernels["nest"].max_threads is None
    assert kernels["spill"].stack_bytes == 400
    assert kernels["_Z7dynamicPdPhi"].shared_bytes == 0
    assert all(len(k.code) % 128 == 0 and k.code for k in kernels.values())


def test_launch_bounds_hold_registers_down() -> None:
    loop = "\n#pragma unroll\nfor (int i = 0; i < 64; i++) "
    other = "a[(i * 37 + 5) % 64]"
    body = f"{{ float a[64]; {loop} a[i] = x[i]; __syncthreads(); {loop} x[i * 7] = a[i] - {other}; }}"
    free = compile_cuda(f'extern "C" __global__ void k(float *x) {body}').cubin
    tight = compile_cuda(f'extern "C" __global__ void __launch_bounds__(1024, 2) k(float *x) {body}').cubin
    assert free is not None
    assert tight is not None
    assert read_cubin(free).kernels["k"].registers > 64
    assert read_cubin(tight).kernels["k"].registers <= 32
    assert read_cubin(tight).kernels["k"].stack_bytes > 0


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"MZ" + bytes(200), bytes(4096)])
def test_what_is_no_cubin_is_refused(image: bytes) -> None:
    with pytest.raises(EvolveError) as caught:
        read_cubin(image)
    assert caught.value.code == "bad-cubin"


def test_a_host_object_is_no_cubin() -> None:
    header = bytearray(b"\x7fELF\x02\x01\x01" + bytes(57))
    header[18] = 62
    with pytest.raises(EvolveError, match="machine type is 62"):
        read_cubin(bytes(header))


def test_every_cut_is_refused_or_read_whole(cubins: dict[str, bytes]) -> None:
    whole = cubins["sm_90"]
    expected = read_cubin(whole)
    for length in range(0, len(whole), 97):
        try:
            assert read_cubin(whole[:length]) == expected
        except EvolveError as error:
            assert error.code == "bad-cubin"


def test_random_damage_never_escapes_as_another_error(cubins: dict[str, bytes]) -> None:
    dice = random.Random(7)
    for _ in range(400):
        image = bytearray(cubins["sm_90"])
        for _ in range(dice.randint(1, 8)):
            image[dice.randrange(len(image))] = dice.randrange(256)
        try:
            read_cubin(bytes(image))
        except EvolveError as error:
            assert error.code == "bad-cubin"


def test_a_truncated_line_table_is_refused() -> None:
    image = compile_cuda('extern "C" __global__ void k(float *x) { x[0] = 1; }', options=["-lineinfo"]).cubin
    assert image is not None
    elf = open_elf(image, 190)
    table = elf.section(".debug_line")
    assert table is not None
    for version in (0, 1, 5, 77):
        bad = bytearray(image)
        bad[table.offset + 4] = version
        with pytest.raises(EvolveError, match="line table has version"):
            read_cubin(bytes(bad))
