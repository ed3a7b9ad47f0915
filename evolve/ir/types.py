"""Scalar types, memory spaces, loop kinds and reduction monoids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class DType(Enum):
    """A scalar type. The value is its short name, used in files and printed IR."""

    BOOL = "bool"
    U8 = "u8"
    """Bytes in memory: they are read, and made into nothing else than themselves."""
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    F32 = "f32"
    F64 = "f64"
    BF16 = "bf16"
    """Single precision with 8 bits of significand, in memory only: cast to it to store, from it to use."""
    INDEX = "index"
    """A mathematical integer: loop variables, sizes, subscripts. Code generation picks its width."""

    @property
    def size(self) -> int:
        """Bytes in memory. INDEX is never stored and raises KeyError."""
        return _SIZE[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.F32, DType.F64, DType.BF16)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer type or BOOL. Raises KeyError for the others."""
        return _LIMITS[self]

    @property
    def c_name(self) -> str:
        """The CUDA C++ spelling. INDEX has none and raises KeyError."""
        return _C_NAME[self]


_SIZE = {
    DType.BOOL: 1,
    DType.U8: 1,
    DType.I32: 4,
    DType.U32: 4,
    DType.I64: 8,
    DType.U64: 8,
    DType.F32: 4,
    DType.F64: 8,
    DType.BF16: 2,
}
_LIMITS = {
    DType.BOOL: (0, 1),
    DType.U8: (0, 2**8 - 1),
    DType.I32: (-(2**31), 2**31 - 1),
    DType.U32: (0, 2**32 - 1),
    DType.I64: (-(2**63), 2**63 - 1),
    DType.U64: (0, 2**64 - 1),
}
_C_NAME = {
    DType.BOOL: "bool",
    DType.U8: "unsigned char",
    DType.I32: "int",
    DType.U32: "unsigned int",
    DType.I64: "long long",
    DType.U64: "unsigned long long",
    DType.F32: "float",
    DType.F64: "double",
    DType.BF16: "unsigned short",
}


class Space(Enum):
    """Where a buffer lives."""

    GLOBAL = "global"
    SHARED = "shared"
    REGISTER = "register"


class Cache(Enum):
    """What is asked of the caches for an array: where it goes and how soon it may be given up.

    It changes no value but one: READ_ONLY lets a load see what was there when the kernel began. What is asked
    of L2 alone is a `Priority`.
    """

    DEFAULT = "default"
    READ_ONLY = "read_only"
    """Through the path for data that nobody writes while the kernel runs (`__ldg`)."""
    STREAMING = "streaming"
    """Used once: the first to be given up (`__ldcs`, `__stcs`)."""
    L2 = "l2"
    """Kept in L2 only (`__ldcg`, `__stcg`)."""
    EVICT_FIRST = "evict_first"
    """The first that L1 gives up (`L1::evict_first`)."""
    EVICT_LAST = "evict_last"
    """The last that L1 gives up (`L1::evict_last`)."""
    NO_ALLOCATE = "no_allocate"
    """L1 keeps none of it (`L1::no_allocate`)."""


class Priority(Enum):
    """How soon L2 gives up what was loaded or stored (`createpolicy.fractional.L2`)."""

    NORMAL = "normal"
    EVICT_FIRST = "evict_first"
    EVICT_LAST = "evict_last"


class LoopKind(Enum):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Iterations are independent in the source (its threads); not yet bound to hardware."""
    UNROLL = "unroll"
    VECTOR = "vector"
    GRID_X = "grid.x"
    GRID_Y = "grid.y"
    GRID_Z = "grid.z"
    THREAD_X = "thread.x"
    THREAD_Y = "thread.y"
    THREAD_Z = "thread.z"
    COMBINE_WARP = "combine.warp"
    """A loop of one `Reduce` over per-thread partials, done by all lanes together with shuffles."""
    COMBINE_BLOCK = "combine.block"
    """The same over all threads of a block, through shuffles and shared memory."""
    SCAN_WARP = "scan.warp"
    """`before[t] = total; total += part[t]` for each lane t in turn, done by all lanes with shuffles."""
    SCAN_BLOCK = "scan.block"
    """The same over all threads of a block, through shuffles and shared memory."""

    is_grid: bool
    is_thread: bool
    is_combine: bool
    """A loop over per-thread partials that all threads of a warp or block do together."""
    is_scan: bool
    """A combine loop that also leaves each thread what came before its partial."""
    meets_in_block: bool
    """A combine loop that all threads of the block take part in."""
    is_sequential: bool
    """Executed in order by one thread (vector lanes too, as far as meaning goes)."""

    def __init__(self, spelling: object) -> None:
        # Asked millions of times: plain attributes.
        family, _, of = str(spelling).partition(".")
        self.is_grid = family == "grid"
        self.is_thread = family == "thread"
        self.is_scan = family == "scan"
        self.is_combine = family in ("combine", "scan")
        self.meets_in_block = self.is_combine and of == "block"
        self.is_sequential = family in ("serial", "unroll", "vector")


@dataclass(frozen=True)
class Monoid:
    """An associative and commutative operation with an exact identity."""

    name: str

    def identity(self, dtype: DType) -> int | float:
        """The neutral element: combining with it changes nothing, bit for bit.

        Raises ValueError for a combination that has none.
        """
        if self.name == "sum":
            return -0.0 if dtype.is_float else 0
        if self.name == "prod":
            return 1.0 if dtype.is_float else 1
        if self.name in ("min", "max"):
            return _extreme(dtype, largest=self.name == "min")
        raise ValueError(f"no identity for {self.name} on {dtype.value}")

    def has_atomic(self, dtype: DType) -> bool:
        """Whether CUDA updates memory of that type with this operation in one instruction."""
        if self.name == "sum":
            return dtype in (DType.I32, DType.U32, DType.U64, DType.F32, DType.F64)
        return self.name in ("min", "max") and dtype in (DType.I32, DType.U32, DType.I64, DType.U64)


def _extreme(dtype: DType, *, largest: bool) -> int | float:
    if dtype.is_float:
        return math.inf if largest else -math.inf
    low, high = dtype.limits
    return high if largest else low


SUM = Monoid("sum")
PROD = Monoid("prod")
MIN = Monoid("min")
MAX = Monoid("max")
