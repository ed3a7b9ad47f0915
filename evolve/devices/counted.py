"""Loops whose trip count stands in the machine code: from a constant, by a constant step, to a constant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evolve.toolchain.flow import Loop
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

_MOST = 1 << 20
_INDUCTION = re.compile(r"^U?R\d+$")
_PREDICATE = re.compile(r"^!?(U?P\d)$")
_TESTS = {
    "NE": lambda a, b: a != b,
    "EQ": lambda a, b: a == b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_STEPS = ("IADD3", "VIADD", "UIADD3", "IADD", "UIADD")
_MOVES = ("MOV", "UMOV", "MOV32I")


def counted_loops(sass: Sass) -> dict[int, int]:
    """Iterations per entry of the loops that count between constants; other loops are left out."""
    out = {}
    for index, loop in enumerate(sass.loops):
        trips = _trips(sass.instructions, loop)
        if trips is not None:
            out[index] = trips
    return out


def _trips(code: Sequence[Instruction], loop: Loop) -> int | None:
    inside = [i for i in code if loop.start <= i.address < loop.end]
    ends = [i for i in inside if i.opcode == "BRA" and i.target == loop.start]
    if len(ends) != 1 or ends[0].predicate is None:
        return None
    end = ends[0]
    assert end.predicate is not None
    wanted = not end.predicate.startswith("@!")
    test = _test_of(inside, end.predicate.lstrip("@!"), end.address)
    if test is None:
        return None
    compare, negated = test
    holds = next((_TESTS[m] for m in compare.modifiers if m in _TESTS), None)
    if holds is None or len(compare.operands) < 4 or "AND" not in compare.modifiers:
        return None
    register, limit = compare.operands[2].removesuffix(".reuse"), _number(compare.operands[3])
    if limit is None or not _INDUCTION.match(register) or compare.operands[-1] not in ("PT", "UPT"):
        return None
    steps = [i for i in inside if i.operands and i.operands[0] == register and i.opcode not in ("BRA",)]
    if len(steps) != 1:
        return None
    step, start = _step(steps[0], register), _start(code, register, loop)
    if step is None or start is None:
        return None
    value = start
    for trips in range(1, _MOST):
        before, value = value, value + step
        seen = value if steps[0].address < compare.address else before
        if (holds(seen, limit) != negated) != wanted:
            return trips
    return None


def _test_of(inside: Sequence[Instruction], predicate: str, end: int) -> tuple[Instruction, bool] | None:
    """The comparison that sets a predicate, through copies between predicate files."""
    negated = False
    for _ in range(3):
        sets = [i for i in inside if i.address < end and i.operands and predicate in i.operands[:2]]
        sets = [i for i in sets if "SETP" in i.opcode or "PLOP3" in i.opcode]
        if not sets or sets[-1].predicate is not None:
            return None
        last = sets[-1]
        if last.opcode in ("ISETP", "UISETP"):
            return (last, negated) if last.operands[0] == predicate else None
        # A copy of one predicate: all other inputs are true and the table is that of "and".
        inputs = [o for o in last.operands[2:-2] if o not in ("PT", "UPT")]
        found = _PREDICATE.match(inputs[0]) if len(inputs) == 1 else None
        if found is None or last.operands[-2] != "0x80":
            return None
        negated ^= inputs[0].startswith("!")
        predicate = found[1]
    return None


def _number(text: str) -> int | None:
    if text in ("RZ", "URZ"):
        return 0
    try:
        value = int(text, 0)
    except ValueError:
        return None
    return value - (1 << 32) if value >= 1 << 31 else value


def _step(instruction: Instruction, register: str) -> int | None:
    """What an addition adds to its own register."""
    if instruction.opcode not in _STEPS or instruction.predicate is not None or "X" in instruction.modifiers:
        return None
    parts = [o.removesuffix(".reuse") for o in instruction.operands[1:] if o not in ("RZ", "URZ")]
    if len(parts) != 2 or register not in parts:
        return None
    parts.remove(register)
    return _number(parts[0])


def _start(code: Sequence[Instruction], register: str, loop: Loop) -> int | None:
    """The constant last put into a register in front of a loop."""
    before = [i for i in code if i.address < loop.start and i.operands and i.operands[0] == register]
    if not before or before[-1].predicate is not None:
        return None
    last = before[-1]
    if last.opcode in _MOVES:
        return _number(last.operands[-1])
    if last.opcode == "IMAD" and last.operands[1:3] == ("RZ", "RZ"):
        return _number(last.operands[3])
    if last.opcode in ("CS2R", "HFMA2") and all(o in ("RZ", "-RZ", "SRZ", "0") for o in last.operands[1:]):
        return 0
    return None
