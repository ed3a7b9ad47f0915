"""The compiled microbenchmarks are what they claim to be: nothing was optimised away or added."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from evolve.devices.calibration.benches import HOPS, LOOPS, STREAMS, Loop, Stream
from evolve.devices.calibration.take import build
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.flow import Loop as CodeLoop
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.nvrtc import supported_archs
from evolve.toolchain.sass import Sass, disassemble

ARCHS = [a for a in ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120") if a in supported_archs()]

OPCODES = {
    "fma_f32": "FFMA",
    "fma_f64": "DFMA",
    "int_mad": "IMAD",
    "int_add": "IADD3",
    "ex2_f32": "MUFU",
    "shared_read": "LDS",
    "mma_f16": "HMMA",
    "l2_read": "LDG",
}
OTHERS_PER_HUNDRED = {"shared_read": 250, "l2_read": 900}
"""Instructions besides the measured ones, for 100 of these: a 16-byte load has its four words used, in time
that it leaves free. A warp's load takes four clocks of shared memory's port, and eight of L2's, in which an
SM issues 32 instructions. L2's addresses are random, see the kernel. All others: three per cent."""


@cache
def code(arch: str) -> dict[str, Sass]:
    number = arch.removeprefix("sm_")
    cubins = list(build(arch, (int(number[:-1]), int(number[-1]))).values())
    found = {name: sass for kernels in disassemble(cubins) for name, sass in kernels.items()}
    assert not any(sass.spills for sass in found.values())
    return found


def inside(sass: Sass, loop: CodeLoop) -> list[Instruction]:
    return [i for i in sass.instructions if loop.start <= i.address < loop.end]


def needs(arch: str, kernel: str) -> None:
    if kernel == "mma_f16" and arch == "sm_75":
        pytest.skip("no such instruction before 8.0")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("bench", LOOPS, ids=lambda bench: bench.kernel)
def test_a_loop_has_the_instructions_it_counts_and_few_others(arch: str, bench: Loop) -> None:
    needs(arch, bench.kernel)
    sass = code(arch)[bench.kernel]
    (loop,) = sass.loops
    body = inside(sass, loop)
    counted = [i for i in body if i.opcode == OPCODES[bench.kernel] and i.kind == bench.kind]
    # The counter of the loop is an IADD3 too.
    spare = 1 if bench.kernel == "int_add" else 0
    assert bench.instructions <= len(counted) <= bench.instructions + spare
    allowed = OTHERS_PER_HUNDRED.get(bench.kernel, 3) * bench.instructions / 100
    assert len(body) - len(counted) <= max(allowed, 8)
    before, after = (i.address for i in sass.instructions if "SR_CLOCKLO" in i.operands)
    assert before < loop.start and loop.end <= after
    assert all(i.predicate is None for i in counted), "a guarded instruction may not run"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kernel", ["fma_f32", "fma_f64", "int_mad"])
def test_chains_are_eight_and_each_instruction_needs_the_one_before(arch: str, kernel: str) -> None:
    sass = code(arch)[kernel]
    (loop,) = sass.loops
    body = [i for i in inside(sass, loop) if i.opcode == OPCODES[kernel]]
    depth: dict[str, int] = {}
    for instruction in body:
        into, chained = (word.split(".")[0] for word in instruction.operands[:2])
        depth[into] = depth.get(chained, 0) + 1
    assert max(depth.values()) == len(body) / 8
    assert sum(d == len(body) / 8 for d in depth.values()) == 8


@pytest.mark.parametrize("arch", ARCHS)
def test_matrix_work_is_fp16_with_fp32_sums(arch: str) -> None:
    needs(arch, "mma_f16")
    sass = code(arch)["mma_f16"]
    (loop,) = sass.loops
    tensor = [i for i in inside(sass, loop) if i.kind == "tensor"]
    assert all(i.modifiers[:2] == ("16816", "F32") for i in tensor)


@pytest.mark.parametrize("arch", ARCHS)
def test_l2_reads_pass_l1_by(arch: str) -> None:
    sass = code(arch)["l2_read"]
    loads = [i for i in sass.instructions if i.opcode == "LDG"]
    assert len(loads) == 8 and all(i.modifiers[-2:] == ("STRONG", "GPU") and i.width == 128 for i in loads)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("bench", STREAMS, ids=lambda bench: bench.kernel)
def test_a_stream_has_its_accesses_and_no_loop(arch: str, bench: Stream) -> None:
    mix = code(arch)[bench.kernel].mix
    width = 8 * bench.element_bytes
    assert not code(arch)[bench.kernel].loops
    assert mix[f"ldg_{width}"] == mix.count("ldg") == bench.loads * bench.per_thread
    assert mix[f"stg_{width}"] == bench.stores * bench.per_thread
    if bench.stores:
        assert mix.count("stg") == bench.stores * bench.per_thread
    else:
        # The use that never happens: without it there would be no loads.
        stores = [i for i in code(arch)[bench.kernel].instructions if i.opcode == "STG"]
        assert len(stores) == 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("kernel", "opcode"), [("chase_l1", "LDG"), ("chase_l2", "LDG"), ("chase_shared", "LDS")]
)
def test_a_chase_is_loads_from_what_the_load_before_gave(arch: str, kernel: str, opcode: str) -> None:
    sass = code(arch)[kernel]
    bodies = [inside(sass, loop) for loop in sass.loops]
    chases = [b for b in bodies if sum(i.opcode == opcode for i in b) == HOPS and len(b) <= HOPS + 4]
    assert len(chases) == 2  # the warm rounds and the timed ones
    for body in chases:
        loads = [i for i in body if i.opcode == opcode]
        for one, following in pairwise(loads):
            register = one.operands[0].split(".")[0]
            address = "".join(following.operands[1:])
            assert f"[{register}]" in address or f"[{register}." in address
    (_, timed) = (loop for loop in sass.loops if inside(sass, loop) in chases)
    before, after = (i.address for i in sass.instructions if "SR_CLOCKLO" in i.operands)
    assert before < timed.start and timed.end <= after
    assert not any(i.opcode == opcode for i in sass.instructions if before < i.address < timed.start)


@pytest.mark.parametrize("arch", ARCHS)
def test_l1_keeps_what_a_chase_in_l1_reads_and_nothing_of_one_in_l2(arch: str) -> None:
    """A plain load may be served by L1, one that is coherent in the whole GPU may not."""
    strong = {
        kernel: {"STRONG" in i.modifiers for i in code(arch)[kernel].instructions if i.kind == "ldg_64"}
        for kernel in ("chase_l1", "chase_l2")
    }
    assert strong == {"chase_l1": {False}, "chase_l2": {True}}


@pytest.mark.parametrize("arch", ARCHS)
def test_one_block_of_every_kernel_fits_an_sm(arch: str) -> None:
    number = arch.removeprefix("sm_")
    for image in build(arch, (int(number[:-1]), int(number[-1]))).values():
        for kernel in read_cubin(image).kernels.values():
            assert kernel.registers <= 64 and kernel.shared_bytes <= 16384 and not kernel.stack_bytes
