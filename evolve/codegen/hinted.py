"""Loads and stores that say to the caches how long to keep what they touch.

CUDA has functions for some of it (`__ldg`, `__ldcs`, `__stcg` ...); for the rest a macro of one PTX
instruction is written out, once for each type. L2's priority is a policy that the instruction takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolve.codegen.vectors import LANES, VECTOR_TYPES
from evolve.ir.stmt import Buffer
from evolve.ir.types import Cache, DType, Priority

LOADS = {Cache.READ_ONLY: "__ldg", Cache.STREAMING: "__ldcs", Cache.L2: "__ldcg"}
STORES = {Cache.STREAMING: "__stcs", Cache.L2: "__stcg"}

_OPERATORS = {Cache.STREAMING: ".cs", Cache.L2: ".cg"}
"""Cache operators, which stand before `.nc`; what is said to L1 otherwise stands behind it."""
_LEVEL_1 = (Cache.EVICT_FIRST, Cache.EVICT_LAST, Cache.NO_ALLOCATE)
_REGISTERS = {
    DType.F32: ("f", "float"),
    DType.F64: ("d", "double"),
    DType.I32: ("r", "int"),
    DType.U32: ("r", "unsigned int"),
    DType.I64: ("l", "long long"),
    DType.U64: ("l", "unsigned long long"),
    DType.U8: ("r", "unsigned int"),
    DType.BOOL: ("r", "unsigned int"),
}
"""The letter that asm has for a register, and the C type that it holds; bytes travel in whole registers."""
_PTX_TYPE = {DType.I32: "s32", DType.I64: "s64", DType.BOOL: "u8"}
_SAYS = {
    Cache.STREAMING: "used once",
    Cache.L2: "not in L1",
    Cache.EVICT_FIRST: "first out of L1",
    Cache.EVICT_LAST: "last out of L1",
    Cache.NO_ALLOCATE: "not kept in L1",
}
# NVRTC and nvcc have the instruction; for others, and on the host, the access is a plain one.
CONDITION = "defined(__CUDACC_RTC__) || defined(__NVCC__)"


@dataclass(frozen=True)
class Hinted:
    """A macro for accesses to an array of `dtype` elements, `lanes` at once.

    `constant`: a load from an array that the kernel does not write, so that no store has to wait for it.
    """

    dtype: DType
    lanes: int
    cache: Cache
    l2: Priority
    is_load: bool
    constant: bool = False

    @property
    def kind(self) -> str:
        """The CUDA type of what is accessed."""
        return self.dtype.c_name if self.lanes == 1 else VECTOR_TYPES[(self.dtype, self.lanes)]

    @property
    def name(self) -> str:
        """What the macro is called where that name is free."""
        words = ["load" if self.is_load else "store", *self.kind.split()]
        words += [self.cache.value] * (self.cache is not Cache.DEFAULT)
        words += ["l2", self.l2.value] if self.l2 is not Priority.NORMAL else []
        words += ["constant"] * self.constant
        return "_".join(words)

    def text(self, name: str) -> str:
        """The macro, and the plain access that it is where PTX is not understood.

        A macro's instructions are on the line that uses it; those of a function would be on the function's.
        """
        head, plain = "(address)", "(*(address))"
        if not self.is_load:
            head, plain = "(address, content)", "((void)(*(address) = (content)))"
        body = self._load() if self.is_load else self._store()
        lines = [
            f"// {'A load' if self.is_load else 'A store'}: {self._says()}.",
            f"#if {CONDITION}",
            " \\\n".join([f"#define {name}{head}", *(f"    {t}" for t in body)]),
            "#else",
            f"#define {name}{head} {plain}",
            "#endif",
        ]
        return "\n".join(lines) + "\n"

    def _says(self) -> str:
        said = [_SAYS[self.cache]] if self.cache in _SAYS else []
        if self.l2 is not Priority.NORMAL:
            said.append(f"{'first' if self.l2 is Priority.EVICT_FIRST else 'last'} out of L2")
        return ", ".join(said)

    def _load(self) -> list[str]:
        letter, holds = _REGISTERS[self.dtype]
        parts = LANES[: self.lanes]
        outputs = ", ".join(f'"={letter}"({p})' for p in parts)
        slots = self._braced([f"%{i}" for i in range(self.lanes)])
        made = f"({self.kind}){parts[0]}" if self.lanes == 1 else f"make_{self.kind}({', '.join(parts)})"
        return [
            # In parentheses: inside a subscript, two brackets would begin an attribute.
            f"([](const {self.kind}* at) {{",
            f"    {holds} {', '.join(parts)};",
            *(f"    {t}" for t in self._asm(f"{slots}, [%{self.lanes}]", f": {outputs} : {_address('at')}")),
            f"    return {made};",
            "}(address))",
        ]

    def _store(self) -> list[str]:
        letter, holds = _REGISTERS[self.dtype]
        values = ["value"] if self.lanes == 1 else [f"value.{p}" for p in LANES[: self.lanes]]
        inputs = ", ".join(f'"{letter}"(({holds}){v})' for v in values)
        slots = self._braced([f"%{i + 1}" for i in range(self.lanes)])
        return [
            f"[](void* at, {self.kind} value) {{",
            *(f"    {t}" for t in self._asm(f"[%0], {slots}", f":: {_address('at')}, {inputs}")),
            "}(address, content)",
        ]

    def _asm(self, arguments: str, operands: str) -> list[str]:
        """A statement that keeps its place among other accesses, unless it loads what nobody writes."""
        word = "asm" if self.constant else "asm volatile"
        operands += "" if self.constant else ' : "memory"'
        if self.l2 is Priority.NORMAL:
            return [f'{word}("{self._instruction()} {arguments};"', f"    {operands});"]
        return [
            f'{word}("{{ .reg .b64 policy;"',
            f'    " createpolicy.fractional.L2::{self.l2.value}.b64 policy, 1.0;"',
            f'    " {self._instruction()} {arguments}, policy; }}"',
            f"    {operands});",
        ]

    def _instruction(self) -> str:
        out = ("ld" if self.is_load else "st") + ".global" + _OPERATORS.get(self.cache, "")
        # As `const __restrict__` lets the compiler decide for plain loads.
        out += ".nc" if self.constant else ""
        out += f".L1::{self.cache.value}" if self.cache in _LEVEL_1 else ""
        out += ".L2::cache_hint" if self.l2 is not Priority.NORMAL else ""
        out += f".v{self.lanes}" if self.lanes > 1 else ""
        return f"{out}.{_PTX_TYPE.get(self.dtype, self.dtype.value)}"

    def _braced(self, slots: list[str]) -> str:
        return slots[0] if self.lanes == 1 else f"{{{', '.join(slots)}}}"


def _address(pointer: str) -> str:
    return f'"l"(__cvta_generic_to_global({pointer}))'


def is_plain(b: Buffer, lanes: int) -> bool:
    """Whether accesses of that width are like any others. Single bool are: no instruction has their type."""
    return (b.cache, b.l2) == (Cache.DEFAULT, Priority.NORMAL) or (b.dtype is DType.BOOL and lanes == 1)
