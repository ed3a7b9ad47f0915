"""One warp's walk through hand-written machine code."""

import pytest

from evolve.devices.chain import BARRIER_CLOCKS, Access, chain
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass


def code(*lines: str) -> Sass:
    """Lines such as `LDG.E R4, [R2]`, or `@P0 BRA 0x0`, one instruction each."""
    out = []
    for number, text in enumerate(lines):
        words = text.split()
        predicate = words.pop(0) if words[0].startswith("@") else None
        opcode, *modifiers = words[0].split(".")
        operands = tuple(x.strip() for x in " ".join(words[1:]).split(",") if x.strip())
        target = int(operands[-1], 16) if opcode == "BRA" else None
        out.append(Instruction(16 * number, opcode, tuple(modifiers), predicate, operands, target, 1))
    return Sass("k", 90, tuple(out))


def memory(_: Instruction) -> Access:
    return Access(hit=30, miss=500, misses=0, wavefronts=1)


def clocks(sass: Sass, trips: dict[int, float] | None = None) -> float:
    return chain(sass, trips or {}, memory).clocks


def test_independent_instructions_issue_every_clock() -> None:
    sass = code("FADD R1, R10, R11", "FADD R2, R10, R11", "FADD R3, R10, R11", "EXIT")
    assert clocks(sass) == 4


def test_a_dependent_instruction_waits_four_clocks() -> None:
    assert clocks(code("FADD R1, R10, R11", "FADD R2, R1, R11", "EXIT")) == 4 + 1 + 1


def test_loads_in_a_row_overlap_and_a_use_between_them_does_not() -> None:
    together = code("LDG.E R4, [R2]", "LDG.E R5, [R2]", "FADD R6, R4, R4", "FADD R7, R5, R5", "EXIT")
    apart = code("LDG.E R4, [R2]", "FADD R6, R4, R4", "LDG.E R5, [R2]", "FADD R7, R5, R5", "EXIT")
    assert clocks(apart) > clocks(together) + 25


def test_a_wide_load_fills_all_its_registers() -> None:
    first = code("LDG.E.128 R4, [R2]", "FADD R9, R4, R4", "EXIT")
    last = code("LDG.E.128 R4, [R2]", "FADD R9, R7, R7", "EXIT")
    beyond = code("LDG.E.128 R4, [R2]", "FADD R9, R8, R8", "EXIT")
    assert clocks(first) == clocks(last) > clocks(beyond)


def test_a_store_is_not_waited_for_but_its_data_is() -> None:
    assert clocks(code("STG.E [R2], R4", "EXIT")) == 2
    assert clocks(code("LDG.E R4, [R2]", "STG.E [R2], R4", "EXIT")) == 30 + 1 + 1


def test_waiting_for_memory_is_told_apart() -> None:
    got = chain(code("LDG.E R4, [R2]", "FADD R5, R4, R4", "FADD R6, R5, R5", "EXIT"), {}, memory)
    assert got.memory_clocks == 29 and got.clocks == 30 + 4 + 1 + 1


def test_waiting_for_spilled_registers_is_told_apart() -> None:
    got = chain(code("LDL R4, [R1]", "FADD R5, R4, R4", "EXIT"), {}, memory)
    assert (got.memory_clocks, got.local_clocks) == (0, 29)


def test_asynchronous_copies_are_waited_for_where_the_code_does() -> None:
    two = ("LDGSTS.E.128 [R8], [R2]", "LDGSTS.E.128 [R8+0x800], [R4]", "LDGDEPBAR")
    got = chain(code(*two, "FADD R5, R6, R6", "DEPBAR.LE SB0, 0x0", "EXIT"), {}, memory)
    without = chain(code(*two, "FADD R5, R6, R6", "DEPBAR.LE SB0, 0x1", "EXIT"), {}, memory)
    assert without.memory_clocks == 0 and without.clocks < 12
    # They are under way together; the wait ends with the second.
    assert 24 <= got.memory_clocks <= 30 and got.clocks <= 36


def test_a_barrier_takes_its_time() -> None:
    assert clocks(code("BAR.SYNC 0x0", "EXIT")) == 2 + BARRIER_CLOCKS


def test_a_loop_is_extrapolated_at_its_pace() -> None:
    loop = code("FADD R1, R1, R2", "ISETP.NE.AND P0, PT, R3, RZ, PT", "@P0 BRA 0x0", "EXIT")
    assert len(loop.loops) == 1
    few, many = clocks(loop, {0: 100}), clocks(loop, {0: 1100})
    pace = (many - few) / 1000
    # The branch waits four clocks for its predicate.
    assert pace == pytest.approx(6, abs=1)


def test_misses_take_turns() -> None:
    loop = code("LDG.E R4, [R2]", "FADD R5, R5, R4", "@P0 BRA 0x0", "EXIT")

    def some(misses: float) -> float:
        cost = Access(hit=30, miss=500, misses=misses, wavefronts=1)
        return chain(loop, {0: 1000}, lambda _: cost).clocks / 1000

    never, eighth, always = some(0), some(1 / 8), some(1)
    assert eighth == pytest.approx(never + (always - never) / 8, rel=0.05)


def test_wavefronts_queue_in_the_load_store_unit() -> None:
    sass = code("LDG.E R4, [R2]", "LDG.E R5, [R2]", "FADD R6, R4, R5", "EXIT")
    wide = Access(hit=30, miss=500, misses=0, wavefronts=32)
    assert chain(sass, {}, lambda _: wide).clocks >= 64 + 30


def test_waiting_between_barriers_is_told_apart() -> None:
    loop = ("LDG.E R4, [R2]", "FADD R5, R4, R4", "BAR.SYNC 0x0", "@P0 BRA 0x0", "EXIT")
    with_barrier = chain(code(*loop), {0: 10}, memory)
    assert with_barrier.synced_clocks == pytest.approx(10 * (29 + BARRIER_CLOCKS), rel=0.1)
    without = chain(code(*(x for x in loop if "BAR" not in x)), {0: 10}, memory)
    assert without.synced_clocks == 0 and without.memory_clocks > 250
    straight = chain(code(*loop[:3], "EXIT"), {}, memory)
    assert straight.synced_clocks == 0


@pytest.mark.parametrize(("share", "barrier", "waits"), [(0.25, False, 5), (0.25, True, 5), (0.5, True, 20)])
def test_a_block_behind_a_branch_takes_turns(share: float, barrier: bool, waits: int) -> None:
    """Except that all warps wait at a barrier for the half that takes it."""
    sass = code(
        "@P1 BRA 0x30",
        "LDG.E R4, [R2]",
        "FADD R5, R4, R4",
        "BAR.SYNC 0x0" if barrier else "NOP",
        "@P0 BRA 0x0",
        "EXIT",
    )
    blocks = [20.0 * share if sass.instructions[b.first].opcode == "LDG" else 20.0 for b in sass.blocks]
    got = chain(sass, {0: 20}, memory, blocks)
    assert got.memory_clocks == pytest.approx(29 * waits, abs=29)
