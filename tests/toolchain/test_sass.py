"""Disassembly: the instructions are nvdisasm's own, the mix and the loops are the source's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import sass as sass_module
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble
from evolve.toolchain.tools import find_tool

from .conftest import ARCHS


@pytest.fixture(scope="module")
def code(cubins: dict[str, bytes]) -> dict[str, dict[str, Sass]]:
    return dict(zip(ARCHS, disassemble([cubins[a] for a in ARCHS]), strict=True))


def of(text: str, arch: str = "sm_90") -> Sass:
    result = compile_cuda(text, arch)
    assert result.cubin is not None, result.log
    (kernels,) = disassemble([result.cubin])
    (found,) = kernels.values()
    return found


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_instructions_agree_with_cuobjdump(
    arch: str, cubins: dict[str, bytes], code: dict[str, dict[str, Sass]], tmp_path: Path
) -> None:
    file = tmp_path / "image.cubin"
    file.write_bytes(cubins[arch])
    folder = find_tool("nvdisasm").parent
    call = [str(find_tool("cuobjdump")), "-sass", str(file)]
    said = subprocess.run(call, capture_output=True, text=True, check=True, env={"PATH": str(folder)}).stdout
    for part in said.split("Function : ")[1:]:
        name = part.split()[0]
        lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:(@\S+)\s+)?([A-Z][\w.]*)([^;]*);", part)
        expected = [(int(a, 16), p or None, m) for a, p, m, _ in lines]
        found = [
            (i.address, i.predicate, ".".join((i.opcode, *i.modifiers)))
            for i in code[arch][name].instructions
        ]
        assert found == expected
        jumps = {int(a, 16): int(o.split()[-1], 16) for a, _, m, o in lines if m.split(".")[0] == "BRA"}
        assert jumps == {i.address: i.target for i in code[arch][name].instructions if i.opcode == "BRA"}


@pytest.mark.parametrize("arch", ARCHS)
def test_mix_of_a_row_kernel(arch: str, code: dict[str, dict[str, Sass]]) -> None:
    mix = code[arch]["row"].mix
    assert (mix["ldg_128"], mix["stg_128"]) == (1, 1)
    assert mix.bytes("ldg") == 16
    assert mix["shfl"] == 5
    assert mix["bar"] == 1
    assert mix["mufu"] == 1
    assert mix["sts_32"] == 1
    assert mix.bytes("lds") == 16
    assert mix["fp32_add"] >= 8
    assert mix["fp32_mul"] >= 4
    assert mix["fp64"] == 0
    assert code[arch]["row"].spills == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_every_opcode_has_a_kind(arch: str, code: dict[str, dict[str, Sass]]) -> None:
    unknown = {i.opcode for s in code[arch].values() for i in s.instructions if i.kind == "other"}
    assert unknown == set()


def test_spills_doubles_bytes_and_conversions_are_seen(code: dict[str, dict[str, Sass]]) -> None:
    assert code["sm_90"]["spill"].mix.count("stl") >= 100
    assert code["sm_90"]["spill"].spills >= 100
    mix = code["sm_90"]["_Z7dynamicPdPhi"].mix
    assert mix["fp64"] == 1
    assert (mix["ldg_64"], mix["lds_64"], mix["sts_64"], mix["stg_64"]) == (2, 1, 1, 1)
    assert mix["stg_8"] == 1
    assert mix["conversion"] >= 1


@pytest.mark.parametrize("arch", ARCHS)
def test_loops_nest_as_in_the_source(arch: str, code: dict[str, dict[str, Sass]]) -> None:
    nest = code[arch]["nest"]
    outer = [i for i, loop in enumerate(nest.loops) if loop.depth == 1]
    inner = [loop for loop in nest.loops if loop.depth == 2]
    assert len(outer) == 2
    assert len(inner) == 1
    assert inner[0].mix["fp32_fma"] == 1
    assert inner[0].mix["ldg_32"] == 1
    first = nest.loops[inner[0].parent if inner[0].parent is not None else -1]
    assert first.depth == 1
    assert first.start <= inner[0].start < inner[0].end <= first.end
    assert first.mix["stg_32"] == 1
    assert first.mix["fp32_add"] == 1
    assert set(inner[0].blocks) < set(first.blocks)
    second = next(nest.loops[i] for i in outer if nest.loops[i] is not first)
    assert second.mix["stg_32"] == 1
    assert second.mix["mufu"] >= 2  # square root and reciprocal


def test_slow_paths_are_cold(code: dict[str, dict[str, Sass]]) -> None:
    nest = code["sm_90"]["nest"]
    assert nest.cold.total > 20  # the division's
    plain = of('extern "C" __global__ void k(float *x) { x[0] = __fdividef(x[1], x[2]); }')
    assert plain.cold.total == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_counts_add_up(arch: str, code: dict[str, dict[str, Sass]]) -> None:
    for kernel in code[arch].values():
        hot_loops = sum(
            loop.mix.total for loop in kernel.loops if not all(kernel.blocks[b].cold for b in loop.blocks)
        )
        assert kernel.straight.total + hot_loops == kernel.mix.total
        assert kernel.weigh({}) == kernel.mix
        reachable = sum(b.last - b.first + 1 for b in kernel.blocks)
        assert kernel.mix.total + kernel.cold.total == reachable
        assert reachable < len(kernel.instructions)  # the padding
        assert kernel.instructions[-1].opcode == "NOP"
        assert kernel.instructions[kernel.blocks[-1].last].opcode != "NOP"


def test_weighing_multiplies_down_the_nest(code: dict[str, dict[str, Sass]]) -> None:
    nest = code["sm_90"]["nest"]
    inner = next(i for i, loop in enumerate(nest.loops) if loop.depth == 2)
    outer = nest.loops[inner].parent
    assert outer is not None
    executed = nest.weigh({outer: 10, inner: 4.5})
    assert executed["fp32_fma"] >= 45
    assert executed["fp32_fma"] - nest.weigh({outer: 10, inner: 3.5})["fp32_fma"] == 10


def test_a_full_unroll_leaves_no_loop_and_a_partial_one_leaves_one() -> None:
    body = "float s = 0; %s for (int i = 0; i < 64; i++) s = fmaf(s, x[i], 1.0f); x[0] = s;"
    full = of('extern "C" __global__ void k(float *x) { ' + body % "\n#pragma unroll\n" + "}")
    assert full.loops == ()
    assert full.mix["fp32_fma"] == 64
    part = of('extern "C" __global__ void k(float *x) { ' + body % "\n#pragma unroll 8\n" + "}")
    assert len(part.loops) == 1
    assert part.loops[0].mix["fp32_fma"] == 8
    assert part.weigh({0: 8})["fp32_fma"] == 64


def test_a_batch_is_one_process_per_architecture(
    cubins: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = subprocess.run

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(args)
        return real(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", counted)
    found = disassemble([cubins["sm_90"], cubins["sm_80"], cubins["sm_90"], cubins["sm_90"]])
    assert len(calls) == 2
    assert found[0] == found[2] == found[3]
    assert found[1]["row"].sm == 80
    assert disassemble([]) == []


def test_position_in_the_batch_changes_nothing(cubins: dict[str, bytes]) -> None:
    other = compile_cuda('extern "C" __global__ void tiny(int *x) { x[0] = 1; }').cubin
    assert other is not None
    alone = disassemble([cubins["sm_90"]])[0]
    assert disassemble([other, cubins["sm_90"]])[1] == alone


def test_code_that_is_none_is_an_error(cubins: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvolveError) as caught:
        sass_module._parse("   /*0000*/   ??? what ;")
    assert caught.value.code == "nvdisasm-failed"
    monkeypatch.setattr(sass_module, "find_tool", lambda name: Path("/bin/false"))
    with pytest.raises(EvolveError) as caught:
        disassemble([cubins["sm_90"]])
    assert caught.value.code == "nvdisasm-failed"


def test_a_switch_by_jump_table_makes_no_loop_and_loses_no_arm() -> None:
    arms = "".join(f"case {n}: x[{n}] = x[{n} + 9] * {n}.5f + sqrtf(x[{n}]); break;" for n in range(12))
    kernel = of('extern "C" __global__ void k(float *x, int n) { switch (n) { ' + arms + "} }")
    assert kernel.loops == ()
    assert kernel.mix["stg_32"] + kernel.cold["stg_32"] >= 1
    stores = sum(i.opcode == "STG" for i in kernel.instructions)
    assert kernel.mix["stg_32"] == stores
