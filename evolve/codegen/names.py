"""C identifiers for IR names: short, readable, unique, and clear of everything already taken."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

_RESERVED = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const consteval
constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
volatile wchar_t while xor xor_eq
threadIdx blockIdx blockDim gridDim warpSize dim3 main INFINITY NAN tx ty tz
float2 float4 double2 int2 int4 uint2 uint4 uchar2 uchar4
exp exp2 log log2 log1p expm1 sqrt rsqrt tanh erf sin cos pow fabs floor ceil fma fmax fmin abs min max
expf exp2f logf log2f log1pf expm1f sqrtf rsqrtf tanhf erff sinf cosf powf fabsf floorf ceilf fmaf fmaxf
fminf y0 y1 yn j0 j1 jn index signbit isnan isinf atomicAdd atomicMin atomicMax
"""

RESERVED = frozenset(_RESERVED.split())
"""Keywords, and names that a C++ compiler or the device runtime already gives a meaning."""


def identifiers(text: str) -> frozenset[str]:
    """Every identifier-like word in a piece of source."""
    return frozenset(_IDENTIFIER.findall(text))


class Names:
    """Hands out identifiers. The same IR name gets the same identifier each time."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken | RESERVED)
        self._given: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The identifier of an IR name: `c.o.i` becomes `c_oi`, or `c_o_i` where that is taken."""
        if name not in self._given:
            self._given[name] = self._first_free(_candidates(name))
        return self._given[name]

    def fresh(self, base: str) -> str:
        """A new identifier that stands for no IR name."""
        return self._first_free((base,))

    def alias(self, name: str, identifier: str) -> None:
        """Let an IR name stand for an existing identifier, such as a thread loop for `tx`."""
        self._given[name] = identifier

    def _first_free(self, candidates: tuple[str, ...]) -> str:
        for c in candidates:
            if c not in self._taken:
                self._taken.add(c)
                return c
        n = 2
        while f"{candidates[-1]}_{n}" in self._taken:
            n += 1
        name = f"{candidates[-1]}_{n}"
        self._taken.add(name)
        return name


def _candidates(name: str) -> tuple[str, ...]:
    root, *parts = name.split(".")
    plain = re.sub(r"\W", "_", name)
    if not re.match(r"[A-Za-z_]", plain):
        plain = f"v{plain}"
    if parts and all(len(p) == 1 and p.isalnum() for p in parts) and root.isidentifier():
        return (f"{root}_{''.join(parts)}", plain)
    return (plain,)
