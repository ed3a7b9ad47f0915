"""Disassembles cubins: what the GPU will execute, as instructions, blocks and loops.

nvdisasm takes about a third of a second to start and next to nothing per instruction, so the code of all
kernels of a batch is laid end to end and disassembled as one raw binary by one process per architecture.
Branch targets are relative, so they come out right; names behind relocations do not matter here.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from evolve.ir.errors import EvolveError
from evolve.toolchain.cubin import Cubin, KernelResources, read_cubin
from evolve.toolchain.flow import Block, Loop, find_blocks
from evolve.toolchain.instructions import Instruction, Mix
from evolve.toolchain.tools import find_tool

_TIMEOUT_S = 120.0
_INSTRUCTION_BYTES = 16
_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
_WORDS = re.compile(r"^(?P<predicate>@\S+\s+)?(?P<mnemonic>[A-Z][\w.]*)(?:\s+(?P<operands>.*))?$")
_TARGET = re.compile(r"^0x[0-9a-f]+$")
_TARGETED = {"BRA", "CALL", "BSSY"}
_THROUGH_REGISTER = {"RET", "BRX", "BRXU", "JMX", "JMXU"}


@dataclass(frozen=True)
class Sass:
    """The machine code of one kernel. `sm` is the target as a number, 90 for `sm_90`.

    All counts are static: an instruction counts once however often it runs, and a guarded one counts although
    its predicate may be off. Slow paths that are entered by calls are in `cold`, not in `mix`.
    """

    kernel: str
    sm: int
    instructions: tuple[Instruction, ...] = field(repr=False)

    @cached_property
    def _flow(self) -> tuple[tuple[Block, ...], tuple[Loop, ...]]:
        return find_blocks(self.instructions)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The reachable basic blocks, by address."""
        return self._flow[0]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops as they stand in the code, an outer one before those inside it."""
        return self._flow[1]

    @cached_property
    def mix(self) -> Mix:
        """Every reachable instruction once, without the cold ones and the padding."""
        return self._count(lambda block: not block.cold)

    @cached_property
    def cold(self) -> Mix:
        """What only calls and divergence hand-offs reach."""
        return self._count(lambda block: block.cold)

    @cached_property
    def straight(self) -> Mix:
        """The part of `mix` that is in no loop."""
        return self._count(lambda block: not block.cold and block.loop is None)

    @property
    def spills(self) -> int:
        """Instructions that touch local memory, cold ones too."""
        return int(sum(m.count(stem) for m in (self.mix, self.cold) for stem in ("ldl", "stl")))

    def weigh(self, trips: Mapping[int, float]) -> Mix:
        """Instructions executed per thread when loop `i` runs `trips[i]` iterations each time it is entered.

        A loop that `trips` does not name runs once. Both arms of a branch count.
        """
        total = self.straight
        times: list[float] = []
        for index, loop in enumerate(self.loops):
            outer = 1.0 if loop.parent is None else times[loop.parent]
            times.append(outer * trips.get(index, 1.0))
            if not all(self.blocks[b].cold for b in loop.blocks):
                total = total + loop.mix * times[index]
        return total

    def _count(self, wanted: _BlockTest) -> Mix:
        return Mix.of(i for b in self.blocks if wanted(b) for i in self.instructions[b.first : b.last + 1])


_BlockTest = Callable[[Block], bool]


def disassemble(cubins: Sequence[bytes]) -> list[dict[str, Sass]]:
    """For each image, its kernels' machine code by (mangled) name.

    One nvdisasm process for each architecture among `cubins`, whatever their number. Raises EvolveError
    `bad-cubin` for an image that cannot be read, `no-tool` without nvdisasm, `nvdisasm-failed` when it does
    not decode the code.
    """
    return decode([read_cubin(image) for image in cubins])


def decode(images: Sequence[Cubin]) -> list[dict[str, Sass]]:
    """As `disassemble`, of images that were read before."""
    decoded: dict[tuple[int, str], Sass] = {}
    for sm in sorted({image.sm for image in images}):
        decoded.update(_disassemble_all(sm, images))
    return [{name: decoded[index, name] for name in image.kernels} for index, image in enumerate(images)]


def _disassemble_all(sm: int, images: Sequence[Cubin]) -> dict[tuple[int, str], Sass]:
    places: list[tuple[int, str, int, int]] = []
    raw = bytearray()
    for index, image in enumerate(images):
        if image.sm != sm:
            continue
        for name, kernel in image.kernels.items():
            places.append((index, name, len(raw), len(kernel.code)))
            raw += kernel.code
    listing = _parse(_run_nvdisasm(bytes(raw), sm)) if raw else {}
    found = {}
    for index, name, start, size in places:
        addresses = range(start, start + size, _INSTRUCTION_BYTES)
        missing = next((a for a in addresses if a not in listing), None)
        if missing is not None:
            raise EvolveError(
                "nvdisasm-failed", f"nvdisasm left out the instruction at byte {missing - start} of {name}"
            )
        lines = _line_of_each(images[index].kernels[name])
        moved = (_moved(listing[a], start, line) for a, line in zip(addresses, lines, strict=True))
        found[index, name] = Sass(name, sm, tuple(moved))
    return found


def _line_of_each(kernel: KernelResources) -> list[int | None]:
    """The line of each of a kernel's instructions."""
    steps = dict(kernel.lines)
    found: list[int | None] = []
    line = 0
    for address in range(0, len(kernel.code), _INSTRUCTION_BYTES):
        line = steps.get(address, line)
        found.append(line or None)
    return found


def _moved(instruction: Instruction, start: int, line: int | None) -> Instruction:
    target = instruction.target
    return replace(
        instruction,
        address=instruction.address - start,
        target=None if target is None else target - start,
        line=line,
    )


def _run_nvdisasm(raw: bytes, sm: int) -> str:
    # The "a" variant of a target decodes the base target's instructions and its own.
    target = f"SM{sm}a" if sm >= 90 else f"SM{sm}"
    with tempfile.TemporaryDirectory(prefix="evolve-sass-") as folder:
        file = Path(folder) / "code.bin"
        file.write_bytes(raw)
        call = [str(find_tool("nvdisasm")), "--no-dataflow", "--binary", target, str(file)]
        try:
            done = subprocess.run(
                call,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EvolveError("nvdisasm-failed", f"nvdisasm did not run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise EvolveError("nvdisasm-failed", f"nvdisasm failed: {said[-1] if said else done.returncode}")
    return done.stdout


def _parse(text: str) -> dict[int, Instruction]:
    found = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        address = int(match[1], 16)
        words = _WORDS.match(match[2])
        if words is None:
            raise EvolveError("nvdisasm-failed", f"unexpected line from nvdisasm: {line.strip()!r}")
        opcode, *modifiers = words["mnemonic"].split(".")
        operands = tuple(word.strip() for word in (words["operands"] or "").split(",") if word.strip())
        target = _target(opcode, modifiers, operands)
        found[address] = Instruction(
            address=address,
            opcode=opcode,
            modifiers=tuple(modifiers),
            predicate=(words["predicate"] or "").strip() or None,
            operands=_position_free(opcode, operands if target is None else operands[:-1]),
            target=target,
        )
    return found


def _position_free(opcode: str, operands: tuple[str, ...]) -> tuple[str, ...]:
    """Drops the address that nvdisasm prints behind the register of a return or a jump through it."""
    return tuple(word.split()[0] for word in operands) if opcode in _THROUGH_REGISTER else operands


def _target(opcode: str, modifiers: Sequence[str], operands: tuple[str, ...]) -> int | None:
    # An absolute call's address is filled in by the loader and means nothing here.
    if opcode not in _TARGETED or "ABS" in modifiers or not operands or not _TARGET.match(operands[-1]):
        return None
    return int(operands[-1], 16)
