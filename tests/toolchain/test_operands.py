"""Reads and writes of instructions as nvdisasm spells them."""

from __future__ import annotations

import pytest

from evolve.toolchain.operands import registers
from evolve.toolchain.sass import _parse, disassemble

from .conftest import ARCHS


@pytest.mark.parametrize(
    ("line", "written", "read"),
    [
        ("FFMA R0, R1, R2, R3", "R0", "R1 R2 R3"),
        ("FADD R5, -R5, |R6|", "R5", "R5 R6"),
        ("LDG.E.128 R4, desc[UR4][R2.64+0x10]", "R4 R5 R6 R7", "UR4 UR5 R2 R3"),
        ("LDG.E.64 R4, [R2.64]", "R4 R5", "R2 R3"),
        ("STG.E.128 desc[UR4][R8.64], R4", "", "UR4 UR5 R8 R9 R4 R5 R6 R7"),
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
        ("ATOMG.E.ADD.STRONG.GPU PT, R3, desc[UR4][R4.64], R5", "R3", "UR4 UR5 R4 R5 R5"),
        ("RED.E.ADD.STRONG.GPU desc[UR4][R4.64], R6", "", "UR4 UR5 R4 R5 R6"),
        ("SEL R0, R1, R2, !P0", "R0", "R1 R2 P0"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("B2R.RESULT RZ, P2", "P2", ""),
        ("@P0 EXIT", "", "P0"),
        ("S2R R0, SR_TID.X", "R0", ""),
        ("MOV R0, c[0x0][0x210]", "R0", ""),
        ("UIADD3 UR4, UR5, 0x1, URZ", "UR4", "UR5"),
        ("IADD3.X R3, P1, R5, R6, RZ, P0, !PT", "R3 P1", "R5 R6 P0"),
        ("FCHK P0, R1, R2", "P0", "R1 R2"),
        ("F2I.F64.TRUNC R15, R8", "R15", "R8 R9"),
        ("F2I.S64.TRUNC R4, R8", "R4 R5", "R8"),
        ("I2F.F64 R4, R8", "R4 R5", "R8"),
        ("I2F.F64.S64 R4, R8", "R4 R5", "R8 R9"),
        ("I2F.U64.RP R4, R8", "R4", "R8 R9"),
        ("F2F.F32.F64 R4, R8", "R4", "R8 R9"),
        ("F2F.F64.F32 R4, R8", "R4 R5", "R8"),
        ("STG.E.U8.SYS [R10], R9", "", "R10 R11 R9"),
        ("LDG.E R3, desc[UR4][R2.U32+UR6]", "R3", "UR4 UR5 R2 UR6 UR7"),
        ("CS2R R2, SR_CLOCKLO", "R2 R3", ""),
        ("LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]", "", "R5 UR4 UR5 R2 R3"),
        ("HFMA2.MMA R5, -RZ, RZ, 2, 0", "R5", ""),
    ],
)
def test_what_an_instruction_writes_and_reads(line: str, written: str, read: str) -> None:
    (instruction,) = _parse(f"   /*0000*/   {line} ;").values()
    assert registers(instruction) == (frozenset(read.split()), frozenset(written.split()))


@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_is_read_that_nothing_writes(arch: str, cubins: dict[str, bytes]) -> None:
    for kernel in disassemble([cubins[arch]])[0].values():
        used = [registers(instruction) for instruction in kernel.instructions]
        read = frozenset().union(*(r for r, _ in used))
        written = frozenset().union(*(w for _, w in used))
        assert read - written == set()
        # The stack pointer is set up whether or not there is a stack; loads in pairs may waste a half.
        dead = {name for name in written - read - {"R1"} if name.startswith(("R", "UR"))}
        assert len(dead) <= 2, (kernel.kernel, dead)
