"""Which registers an instruction reads and writes: who must wait for whom."""

from __future__ import annotations

import functools
import re

from evolve.toolchain.instructions import Instruction

_REGISTER = re.compile(r"(?<![\w.])(desc\[)?(U?)(R|P)(\d+)(\.64|\.U32)?")
_PREDICATE = re.compile(r"^!?U?P(\d|T)$")
_STORES = ("stg_", "sts_", "stl_")
_LOADS = ("ldg_", "lds_", "ldl_")
_NO_RESULT = {"branch", "bar", "fence", "nop", "bulk_copy"}
_REDUCTIONS = {"RED", "REDG", "REDS", "REDAS"}
_PREDICATE_RESULTS = {"FCHK", "PLOP3", "UPLOP3", "R2P"}
_CARRY_RESULTS = {"IADD3", "UIADD3", "IMAD", "UIMAD", "LEA", "ULEA", "VIADD"}


@functools.lru_cache(maxsize=65536)
def registers(instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """What an instruction reads and what it writes, as `R4`, `UR4`, `P0`, `UP0`.

    Vectors and pairs are spelled out: a 16-byte load to R4 writes R4 to R7. Reads include the guard. RZ and
    PT, which never change, are left out.
    """
    read: set[str] = set(_names(instruction.predicate or "", 1))
    written: set[str] = set()
    results = _result_count(instruction)
    for position, operand in enumerate(instruction.operands):
        if position < results:
            written.update(_names(operand, _result_width(instruction)))
        else:
            width = _address_width(instruction) if "[" in operand else _source_width(instruction)
            read.update(_names(operand, width))
    return frozenset(read), frozenset(written)


def _result_count(instruction: Instruction) -> int:
    """How many of the leading operands are results: predicates, then one register, then carries."""
    kind, opcode, operands = instruction.kind, instruction.opcode, instruction.operands
    if opcode == "B2R":
        return len(operands)
    if kind in _NO_RESULT or kind.startswith((*_STORES, "ldgsts")) or opcode in _REDUCTIONS:
        return 0
    count = 0
    while count < len(operands) and _PREDICATE.match(operands[count]):
        count += 1
    if "SETP" in opcode or opcode in _PREDICATE_RESULTS:
        return min(count, 2)
    if count < len(operands) and "[" not in operands[count]:
        count += 1
    if opcode in _CARRY_RESULTS:
        while count < len(operands) and _PREDICATE.match(operands[count]):
            count += 1
    return count


def _result_width(instruction: Instruction) -> int:
    kind, modifiers = instruction.kind, instruction.modifiers
    if kind.startswith(_LOADS):
        return max(1, instruction.width // 32)
    if kind == "conversion":
        return _conversion_widths(instruction)[0]
    if kind == "tensor":
        return 4
    if kind == "fp64" or "WIDE" in modifiers or "64" in modifiers:
        return 2
    return 2 if instruction.opcode == "CS2R" and "32" not in modifiers else 1


def _source_width(instruction: Instruction) -> int:
    kind = instruction.kind
    if kind.startswith(_STORES):
        return max(1, instruction.width // 32)
    if kind == "conversion":
        return _conversion_widths(instruction)[1]
    return 2 if kind == "fp64" else 1


def _address_width(instruction: Instruction) -> int:
    """A 64-bit address is a pair. Turing writes it without `.64`; `.E` is what says so on every part."""
    # One of the two addresses of an asynchronous copy is in shared memory; Turing has no such copy.
    return 2 if "E" in instruction.modifiers and instruction.opcode != "LDGSTS" else 1


def _conversion_widths(instruction: Instruction) -> tuple[int, int]:
    """Registers of a conversion's result and source. The mnemonic names the types that are not the default
    (32-bit), the result's before the source's."""
    types = [m for m in instruction.modifiers if re.fullmatch(r"[FSU]\d+", m)]
    from_float, to_float = instruction.opcode[0] == "F", instruction.opcode.endswith("F")
    wide = [name for name in types if name.endswith("64")]
    if not wide:
        return 1, 1
    if len(types) == 2:
        return (2 if types[0].endswith("64") else 1), (2 if types[1].endswith("64") else 1)
    # A single type is the side of its own class: the float in F2I.F64, the integer in F2I.S64.
    if from_float and to_float:
        return 2, 2
    is_source = (wide[0][0] == "F") == from_float
    return (1, 2) if is_source else (2, 1)


def _names(text: str, width: int) -> list[str]:
    """The registers that a piece of an instruction mentions; predicates are never vectors."""
    found = []
    for descriptor, uniform, letter, number, suffix in _REGISTER.findall(text.lstrip("@")):
        if letter == "P" or suffix == ".U32":
            span = 1
        else:
            span = max(width, 2 if suffix or descriptor else 1)
        found += [f"{uniform}{letter}{int(number) + step}" for step in range(span)]
    return found
