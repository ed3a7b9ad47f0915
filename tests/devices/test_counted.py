"""Loops that count between constants."""

import pytest

from evolve.devices.counted import counted_loops
from tests.devices.test_chain import code


def loop(start: str, step: str, test: str, branch: str = "@P0 BRA 0x10") -> dict[int, int]:
    return counted_loops(code(start, "FADD R1, R1, R2", step, test, branch, "EXIT"))


@pytest.mark.parametrize(
    ("start", "step", "test", "trips"),
    [
        ("MOV R3, 0x8", "VIADD R3, R3, 0xffffffff", "ISETP.NE.AND P0, PT, R3, RZ, PT", 8),
        ("MOV R3, RZ", "IADD3 R3, R3, 0x4, RZ", "ISETP.NE.AND P0, PT, R3, 0x40, PT", 16),
        ("UMOV UR4, 0x400", "UIADD3 UR4, UR4, 0x800, URZ", "UISETP.NE.AND P0, UPT, UR4, 0x4400, UPT", 8),
        ("IMAD.MOV.U32 R3, RZ, RZ, 0x2", "IADD3 R3, R3, 0x3, RZ", "ISETP.LT.AND P0, PT, R3, 0xa, PT", 3),
        ("HFMA2.MMA R3, -RZ, RZ, 0, 0", "IADD3 R3, R3, 0x1, RZ", "ISETP.GE.AND P0, PT, R3, 0x5, PT", 1),
    ],
)
def test_constants_tell_the_trips(start: str, step: str, test: str, trips: int) -> None:
    assert loop(start, step, test) == {0: trips}


def test_a_negated_branch_leaves_when_the_test_holds() -> None:
    got = loop("MOV R3, RZ", "VIADD R3, R3, 0x1", "ISETP.GE.AND P0, PT, R3, 0x7, PT", "@!P0 BRA 0x10")
    assert got == {0: 7}


def test_a_test_before_the_step_sees_the_old_value() -> None:
    sass = code(
        "MOV R3, RZ",
        "FADD R1, R1, R2",
        "ISETP.LT.AND P0, PT, R3, 0x4, PT",
        "VIADD R3, R3, 0x1",
        "@P0 BRA 0x10",
        "EXIT",
    )
    assert counted_loops(sass) == {0: 5}


def test_a_predicate_copied_between_files_is_followed() -> None:
    sass = code(
        "UMOV UR7, URZ",
        "FADD R1, R1, R2",
        "UIADD3 UR7, UR7, 0x1, URZ",
        "UISETP.NE.AND UP0, UPT, UR7, 0x9, UPT",
        "PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0",
        "@P0 BRA 0x10",
        "EXIT",
    )
    assert counted_loops(sass) == {0: 9}


@pytest.mark.parametrize(
    ("start", "step", "test"),
    [
        ("LDC R3, c[0x0][0x210]", "VIADD R3, R3, 0xffffffff", "ISETP.NE.AND P0, PT, R3, RZ, PT"),
        ("MOV R3, RZ", "IADD3 R3, R3, R9, RZ", "ISETP.NE.AND P0, PT, R3, 0x40, PT"),
        ("MOV R3, RZ", "VIADD R3, R3, 0x1", "ISETP.NE.AND P0, PT, R3, R8, PT"),
        ("@P3 MOV R3, RZ", "VIADD R3, R3, 0x1", "ISETP.NE.AND P0, PT, R3, 0x8, PT"),
        ("MOV R3, RZ", "@P2 VIADD R3, R3, 0x1", "ISETP.NE.AND P0, PT, R3, 0x8, PT"),
        ("MOV R3, RZ", "VIADD R3, R3, 0x1", "FSETP.NEU.AND P0, PT, R3, RZ, PT"),
    ],
)
def test_anything_else_is_left_alone(start: str, step: str, test: str) -> None:
    assert loop(start, step, test) == {}
