"""A lone warp's time: what depends waits, what does not overlaps."""

from __future__ import annotations

import pytest

from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, _parse, disassemble
from evolve.toolchain.schedule import (
    Latencies,
    loads_in_flight,
    region_clocks,
    registers,
    warp_clocks,
)

SLOW = Latencies(global_load=800)


def of(text: str) -> Sass:
    result = compile_cuda(text)
    assert result.cubin is not None, result.log
    (found,) = disassemble([result.cubin])[0].values()
    return found


def instructions(*lines: str) -> list:  # type: ignore[type-arg]
    listing = "\n".join(f"  /*{16 * i:04x}*/   {line} ;" for i, line in enumerate(lines))
    return list(_parse(listing).values())


@pytest.mark.parametrize(
    ("line", "written", "read"),
    [
        ("FFMA R0, R1, R2, R3", "R0", "R1 R2 R3"),
        ("FADD R5, -R5, |R6|", "R5", "R5 R6"),
        ("LDG.E.128 R4, desc[UR4][R2.64+0x10]", "R4 R5 R6 R7", "UR4 R2 R3"),
        ("LDG.E.64 R4, [R2.64]", "R4 R5", "R2 R3"),
        ("STG.E.128 desc[UR4][R8.64], R4", "", "UR4 R8 R9 R4 R5 R6 R7"),
        ("STS [R1+0x4], R9", "", "R1 R9"),
        ("@!P1 LDS.64 R2, [R4+UR6]", "R2 R3", "P1 R4 UR6"),
        ("ISETP.GE.AND P0, PT, R1, R2, PT", "P0", "R1 R2"),
        ("ISETP.GE.U32.AND.EX P3, PT, R7, UR5, PT, P2", "P3", "R7 UR5 P2"),
        ("FSETP.GT.AND P1, P2, R1, R2, P4", "P1 P2", "R1 R2 P4"),
        ("IADD3 R10, P0, R11, UR6, RZ", "R10 P0", "R11 UR6"),
        ("IADD3.X R10, R11, UR6, RZ, P0, !PT", "R10", "R11 UR6 P0"),
        ("IMAD.WIDE R2, R11, 0x8, R6", "R2 R3", "R11 R6"),
        ("SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "R5", "R4"),
        ("DFMA R4, R2, R6, 1", "R4 R5", "R2 R3 R6 R7"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R3, desc[UR4][R4.64], R5", "R3", "UR4 R4 R5 R5"),
        ("RED.E.ADD.STRONG.GPU desc[UR4][R4.64], R6", "", "UR4 R4 R5 R6"),
        ("SEL R0, R1, R2, !P0", "R0", "R1 R2 P0"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("@P0 EXIT", "", "P0"),
        ("S2R R0, SR_TID.X", "R0", ""),
        ("MOV R0, c[0x0][0x210]", "R0", ""),
        ("UIADD3 UR4, UR5, 0x1, URZ", "UR4", "UR5"),
        ("HFMA2.MMA R5, -RZ, RZ, 2, 0", "R5", ""),
    ],
)
def test_what_an_instruction_writes_and_reads(line: str, written: str, read: str) -> None:
    (instruction,) = instructions(line)
    names = [{f"{kind}{number}" for kind, number in side} for side in registers(instruction)]
    assert names == [set(written.split()), set(read.split())]


def test_a_chain_waits_and_independent_work_does_not() -> None:
    chain = instructions(*["FFMA R0, R0, R1, R2"] * 50)
    free = instructions(*[f"FFMA R{n}, R1, R2, R3" for n in range(10, 60)])
    assert region_clocks(chain, SLOW) == 49 * SLOW.arithmetic + 1
    assert region_clocks(free, SLOW) == 50
    assert region_clocks(chain, SLOW, repeated=True) == 50 * SLOW.arithmetic


def test_loads_before_their_uses_overlap() -> None:
    together = instructions(
        "LDG.E R1, [R8.64]", "LDG.E R2, [R8.64+0x4]", "FADD R5, R1, R5", "FADD R5, R2, R5"
    )
    apart = instructions("LDG.E R1, [R8.64]", "FADD R5, R1, R5", "LDG.E R2, [R8.64+0x4]", "FADD R5, R2, R5")
    assert 800 < region_clocks(together, SLOW, repeated=True) < 820
    assert 1600 < region_clocks(apart, SLOW, repeated=True) < 1620


def test_a_load_used_an_iteration_later_hides_behind_it() -> None:
    pipelined = instructions("FADD R5, R1, R5", "LDG.E R1, [R8.64]", *["MUFU.EX2 R6, R6"] * 60)
    assert region_clocks(pipelined, SLOW, repeated=True) < 60 * SLOW.special + 10


def test_draining_counts_the_last_result() -> None:
    code = instructions("LDG.E R1, [R8.64]")
    assert region_clocks(code, SLOW) == 1
    assert region_clocks(code, SLOW, drain=True) == 800


def test_a_pointer_chase_has_one_load_in_flight_and_a_sum_as_many_as_it_unrolls() -> None:
    chase = of(
        'extern "C" __global__ void k(int *x, int n) { int p = 0;\n#pragma unroll 1\n'
        "for (int i = 0; i < n; i++) p = x[p]; x[0] = p; }"
    )
    assert loads_in_flight(chase, 0, SLOW) == pytest.approx(1, abs=0.02)
    total = of(
        'extern "C" __global__ void k(const float *x, float *y, int n) { float s = 0;\n#pragma unroll 8\n'
        "for (int i = 0; i < 1024; i++) s += x[i]; y[0] = s; }"
    )
    assert loads_in_flight(total, 0, SLOW) == pytest.approx(8, rel=0.1)
    assert loads_in_flight(total, None, SLOW) == 0


def test_stores_that_may_alias_serialise_the_loads() -> None:
    body = "(%s x, float *%s y) { for (int i = 0; i < 1024; i++) y[i] = x[i] * 2.0f; }"
    may = of('extern "C" __global__ void k' + body % ("float *", ""))
    cannot = of('extern "C" __global__ void k' + body % ("const float *__restrict__", "__restrict__"))
    (a,), (b,) = may.loops, cannot.loops
    assert a.mix["ldg_32"] == b.mix["ldg_32"] > 1
    assert loads_in_flight(may, 0, SLOW) < 1.1
    assert loads_in_flight(cannot, 0, SLOW) > 2


def test_a_warp_takes_its_loops_times_their_trips() -> None:
    kernel = of(
        'extern "C" __global__ void k(int *x, int n) { int p = 0;\n#pragma unroll 1\n'
        "for (int i = 0; i < n; i++) p = x[p]; x[0] = p; }"
    )
    times = [warp_clocks(kernel, {0: n}, SLOW) for n in (0, 10, 20)]
    assert 8000 < times[1] < 8400
    assert times[2] - times[1] == pytest.approx(8000, rel=0.02)
    assert times[0] < 100
