"""One SASS instruction and what kind of work it is.

Kinds follow the hardware unit that executes an instruction, because a bound per unit is what they are counted
for. Memory kinds carry the width of one thread's access in bits: `ldg_128` is a 16-byte global load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Memory opcodes and the stem of their kind; every one of these takes a width suffix.
_SIZED = {
    "LDG": "ldg",
    "LD": "ldg",
    "STG": "stg",
    "ST": "stg",
    "LDS": "lds",
    "STS": "sts",
    "LDL": "ldl",
    "STL": "stl",
    "LDGSTS": "ldgsts",
    "LDSM": "lds",
    "STSM": "sts",
}

_KINDS = {
    "fp32_fma": "FFMA FFMA32I FFMA2",
    "fp32_add": "FADD FADD32I FADD2 FSWZADD",
    "fp32_mul": "FMUL FMUL32I FMUL2",
    "fp32_other": "FMNMX FMNMX3 FSEL FSET FSETP FCHK",
    "fp16": "HFMA2 HADD2 HMUL2 HMNMX2 HSET2 HSETP2 HADD2_32 HFMA2_MMA HFMA2_32I",
    "fp64": "DFMA DADD DMUL DMNMX DSET DSETP",
    "int": "IADD IADD3 IADD32I LEA LOP LOP3 LOP32I PLOP3 SHF SHL SHR ISETP ISET ISCADD IMNMX VIMNMX VIMNMX3 "
    "VIADD VIADDMNMX IABS SEL BMSK SGXT XMAD PRMT VABSDIFF VABSDIFF4 IDE FLO BREV POPC I2FP F2FP",
    "imad": "IMAD IMAD32I IMUL IDP IDP4A IMUL32I",
    "move": "MOV MOV32I MOVM P2R R2P CS2R CS2UR R2UR S2UR LEPC",
    "special_register": "S2R",
    "mufu": "MUFU",
    "conversion": "F2F F2I I2F I2I FRND",
    "constant": "LDC ULDC LDCU",
    "shfl": "SHFL",
    "vote": "VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "bar": "BAR B2R SYNCS USYNCS UCGABAR_ARV UCGABAR_WAIT",
    "fence": "DEPBAR LDGDEPBAR WARPSYNC ENDCOLLECTIVE MEMBAR ERRBAR CGAERRBAR CCTL CCTLL FENCE PMTRIG",
    "branch": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT KILL BSSY BSYNC BREAK BMOV YIELD BPT "
    "RPCMOV NANOSLEEP RTT",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS REDS",
    "tensor": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM",
    "bulk_copy": "UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF UTMACMDFLUSH UTMACCTL ACQBULK",
    "nop": "NOP",
}
_KIND_OF = {opcode: kind for kind, opcodes in _KINDS.items() for opcode in opcodes.split()}

# Bits that one thread gets of 1, 2 or 4 eight-by-eight matrices of 16-bit elements.
_MATRIX_WIDTHS = {"2": 64, "4": 128}

_WIDTHS = {"64": 64, "128": 128, "256": 256, "U8": 8, "S8": 8, "U16": 16, "S16": 16}

_TRANSFERS = {"BRA", "JMP", "CALL"}
_INDIRECT = {"BRX", "BRXU", "JMX", "JMXU"}


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `address` and `target` are bytes from the kernel's first instruction.

    `predicate` is the guard as written (`@!P0`), None without one; `modifiers` are the parts of the mnemonic
    after the opcode; `operands` are as written, without a branch's `target`; `line` is its line in
    the compiled text, when the cubin has line information.
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    predicate: str | None
    operands: tuple[str, ...]
    target: int | None = None
    line: int | None = None

    @property
    def kind(self) -> str:
        """The unit it keeps busy; `other` for an opcode that this table does not know."""
        stem = _SIZED.get(self.opcode)
        if stem is not None:
            return f"{stem}_{self.width}"
        kind = _KIND_OF.get(self.opcode)
        if kind is None and self.opcode.startswith("U"):
            return "uniform"
        return kind or "other"

    @property
    def width(self) -> int:
        """Bits that one thread moves with a load or store; 32 where the mnemonic does not say."""
        table = _MATRIX_WIDTHS if self.opcode in ("LDSM", "STSM") else _WIDTHS
        return next((table[m] for m in self.modifiers if m in table), 32)

    @property
    def is_indirect(self) -> bool:
        """A jump whose target is in a register."""
        return self.opcode in _INDIRECT

    @property
    def is_call(self) -> bool:
        """Enters a subroutine and comes back."""
        return self.opcode == "CALL"

    @property
    def is_conditional(self) -> bool:
        """May fall through to the next instruction although it transfers control."""
        if self.predicate not in (None, "@PT", "@UPT"):
            return True
        if "DIV" in self.modifiers or "CONV" in self.modifiers:
            return True
        return self.opcode == "BRA" and any(re.fullmatch(r"!?U?P\d", word) for word in self.operands)

    @property
    def ends_block(self) -> bool:
        """Control may go elsewhere than to the next instruction."""
        return self.opcode in _TRANSFERS or self.is_indirect or self.opcode in {"EXIT", "RET", "KILL"}


class Mix(Mapping[str, float]):
    """How many instructions of each kind, per thread (equally: warp instructions per warp).

    Missing kinds count 0. Mixes add, and scale by a trip count, which may be a fraction.
    """

    def __init__(self, counts: Mapping[str, float] | None = None) -> None:
        self._counts = {kind: n for kind, n in sorted((counts or {}).items()) if n}

    @classmethod
    def of(cls, instructions: Iterator[Instruction]) -> Mix:
        """Counts each instruction once."""
        counts: dict[str, float] = {}
        for instruction in instructions:
            counts[instruction.kind] = counts.get(instruction.kind, 0) + 1
        return cls(counts)

    def __getitem__(self, kind: str) -> float:
        return self._counts.get(kind, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __add__(self, other: Mix) -> Mix:
        return Mix({kind: self[kind] + other[kind] for kind in {*self, *other}})

    def __mul__(self, times: float) -> Mix:
        return Mix({kind: n * times for kind, n in self._counts.items()})

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"Mix({self._counts})"

    @property
    def total(self) -> float:
        """Issue slots: one per instruction."""
        return sum(self._counts.values())

    def bytes(self, stem: str) -> float:
        """Bytes that one thread moves with the kinds of a stem: `ldg`, `stg`, `lds`, `sts`, `ldl`, `stl`."""
        return sum(self[f"{stem}_{bits}"] * bits / 8 for bits in (8, 16, 32, 64, 128, 256))

    def count(self, stem: str) -> float:
        """Instructions of a stem, whatever their width."""
        return sum(self[f"{stem}_{bits}"] for bits in (8, 16, 32, 64, 128, 256))
