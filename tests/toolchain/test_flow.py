"""Blocks and loops of small graphs written by hand, and of random ones against a slow definition."""

from __future__ import annotations

import random

import pytest

from evolve.toolchain.flow import Block, Loop, find_blocks
from evolve.toolchain.instructions import Instruction, Mix

STEP = 16


def program(*lines: str) -> list[Instruction]:
    """`FADD`, `BRA 3`, `@P0 BRA 3`, `CALL 7`, `EXIT`: targets are line numbers, from 0."""
    code = []
    for index, line in enumerate(lines):
        words = line.split()
        predicate = words.pop(0) if words[0].startswith("@") else None
        opcode, *modifiers = words.pop(0).split(".")
        target = int(words[-1]) * STEP if words and opcode in ("BRA", "CALL", "BSSY") else None
        code.append(Instruction(index * STEP, opcode, tuple(modifiers), predicate, (), target))
    return code


def loops_of(*lines: str) -> list[tuple[int, int, int, int | None]]:
    _, loops = find_blocks(program(*lines))
    return [(loop.start // STEP, loop.end // STEP, loop.depth, loop.parent) for loop in loops]


def test_straight_code_is_one_block() -> None:
    blocks, loops = find_blocks(program("FADD", "FMUL", "EXIT", "BRA 3", "NOP"))
    assert blocks == (Block(0, 2, (), None, False),)
    assert loops == ()
    assert find_blocks([]) == ((), ())


def test_a_conditional_exit_goes_on() -> None:
    blocks, _ = find_blocks(program("@P0 EXIT", "FADD", "EXIT"))
    assert [b.successors for b in blocks] == [(1,), ()]


def test_a_diamond_has_no_loop() -> None:
    blocks, loops = find_blocks(program("@P0 BRA 3", "FADD", "BRA 4", "FMUL", "EXIT"))
    assert [b.successors for b in blocks] == [(2, 1), (3,), (3,), ()]
    assert loops == ()


def test_a_loop_tested_at_its_end_and_one_tested_at_its_head() -> None:
    assert loops_of("FADD", "FMUL", "@P0 BRA 1", "EXIT") == [(1, 3, 1, None)]
    assert loops_of("FADD", "@P0 BRA 4", "FMUL", "BRA 1", "EXIT") == [(1, 4, 1, None)]


def test_nests_siblings_and_mixes() -> None:
    code = program(
        "FADD", "FMUL", "FFMA", "@P0 BRA 2", "FFMA", "@P1 BRA 4", "@P2 BRA 1", "LDG", "@P3 BRA 7", "EXIT"
    )
    _, loops = find_blocks(code)
    assert [(loop.start // STEP, loop.depth, loop.parent) for loop in loops] == [
        (1, 1, None),
        (2, 2, 0),
        (4, 2, 0),
        (7, 1, None),
    ]
    assert loops[0].mix == Mix({"fp32_mul": 1, "branch": 1})
    assert loops[1].mix == loops[2].mix == Mix({"fp32_fma": 1, "branch": 1})
    assert loops[3].mix == Mix({"ldg_32": 1, "branch": 1})


def test_two_ways_back_to_one_head_are_one_loop() -> None:
    assert loops_of("FADD", "@P0 BRA 0", "FMUL", "@P1 BRA 0", "EXIT") == [(0, 4, 1, None)]


def test_a_cycle_with_two_entries_is_no_natural_loop() -> None:
    assert loops_of("@P0 BRA 2", "FADD", "FMUL", "@P1 BRA 1", "EXIT") == []


def test_a_subroutine_is_cold_and_may_have_a_loop_of_its_own() -> None:
    code = program("FADD", "CALL.REL 4", "FMUL", "EXIT", "MUFU", "@P0 BRA 4", "RET")
    blocks, loops = find_blocks(code)
    assert [(b.first, b.cold) for b in blocks] == [(0, False), (2, False), (4, True), (6, True)]
    assert [(loop.start // STEP, loop.depth) for loop in loops] == [(4, 1)]


def test_a_divergence_hand_off_is_cold() -> None:
    blocks, _ = find_blocks(program("BRA.DIV 3", "SHFL", "EXIT", "WARPSYNC", "BRA 1"))
    assert [(b.first, b.cold) for b in blocks] == [(0, False), (1, False), (3, True)]


def test_a_hand_off_is_no_other_entry_of_the_loop_that_it_comes_back_to() -> None:
    nest = ("FADD", "BRA.DIV 8", "SHFL", "FMUL", "@P1 BRA 3", "BAR", "@P0 BRA 0", "EXIT", "WARPSYNC", "BRA 3")
    assert loops_of(*nest) == [(0, 7, 1, None), (3, 5, 2, 0)]
    blocks, loops = find_blocks(program(*nest))
    assert [b.cold for b in blocks] == [False] * (len(blocks) - 1) + [True]
    assert len(blocks) - 1 not in loops[0].blocks and loops[0].mix["bar"] == 1


def test_a_jump_table_leads_to_what_nothing_else_leads_to() -> None:
    code = program("FADD", "BRX", "FMUL", "EXIT", "FFMA", "EXIT", "BRA 6", "NOP", "NOP")
    blocks, loops = find_blocks(code)
    assert [b.first for b in blocks] == [0, 2, 4]
    assert blocks[0].successors == (1, 2)
    assert loops == ()


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_against_the_definition(seed: int) -> None:
    dice = random.Random(seed)
    size = dice.randint(3, 14)
    lines = []
    for _ in range(size):
        guard = dice.choice(["@P0 ", "@P0 ", ""])
        lines.append(dice.choice(["FADD", f"{guard}BRA {dice.randrange(size)}", f"{guard}EXIT"]))
    code = program(*lines, "EXIT")
    blocks, loops = find_blocks(code)
    check_partition(code, blocks)
    expected = natural_loops(blocks)
    assert {header(blocks, code, loop): set(loop.blocks) for loop in loops} == expected
    for index, loop in enumerate(loops):
        around = [
            set(o.blocks) for i, o in enumerate(loops) if i != index and set(loop.blocks) < set(o.blocks)
        ]
        assert loop.depth == 1 + len(around)
        if loop.parent is not None:
            assert set(loops[loop.parent].blocks) == min(around, key=len)


def header(blocks: tuple[Block, ...], code: list[Instruction], loop: Loop) -> int:
    return next(i for i, b in enumerate(blocks) if code[b.first].address == loop.start)


def check_partition(code: list[Instruction], blocks: tuple[Block, ...]) -> None:
    covered = [i for b in blocks for i in range(b.first, b.last + 1)]
    assert covered == sorted(set(covered))
    for block in blocks:
        assert not any(i.ends_block for i in code[block.first : block.last])


def natural_loops(blocks: tuple[Block, ...]) -> dict[int, set[int]]:
    """By the definition: `d` dominates `b` when removing `d` cuts `b` from the entry."""

    def reach(start: int, without: int | None, edges: list[tuple[int, ...]]) -> set[int]:
        seen: set[int] = set()
        waiting = [start] if start != without else []
        while waiting:
            block = waiting.pop()
            if block not in seen and block != without:
                seen.add(block)
                waiting.extend(edges[block])
        return seen

    forward = [b.successors for b in blocks]
    backward = [tuple(i for i, b in enumerate(blocks) if j in b.successors) for j in range(len(blocks))]
    found: dict[int, set[int]] = {}
    for source, block in enumerate(blocks):
        for target in block.successors:
            if source == target or source not in reach(0, target, forward):
                body = {target} | (reach(source, target, backward) if source != target else set())
                found.setdefault(target, set()).update(body)
    return found
