"""Instructions in macros: each that is rendered is known, and what is changed in one is seen."""

from __future__ import annotations

import itertools

import pytest

from evolve.codegen.asynchronous import ASYNCHRONOUS
from evolve.codegen.hinted import LOADS, STORES, Hinted
from evolve.codegen.prefetched import PREFETCH
from evolve.codegen.prelude import prelude
from evolve.codegen.vectors import VECTOR_TYPES
from evolve.ir.types import Cache, DType, Priority
from evolve.validation.instructions import check_directives
from evolve.validation.text import Function, Name, Pointer
from evolve.validation.verdict import DifferenceError, UnreadError

TYPES = sorted({(t, 1) for t, _ in VECTOR_TYPES if t is not DType.BOOL} | set(VECTOR_TYPES), key=str)
TYPES = [x for x in TYPES if x[0] is not DType.BF16]
LOAD = Hinted(DType.F32, 4, Cache.EVICT_LAST, Priority.EVICT_LAST, True)
STORE = Hinted(DType.F32, 2, Cache.NO_ALLOCATE, Priority.EVICT_FIRST, False)


def check(text: str, body: str = "f(const float* __restrict__ x, float* __restrict__ y) {}") -> None:
    lines = text.count("\n") + 2
    x, y = (Name(i, name, Pointer(DType.F32)) for i, name in enumerate("xy"))
    function = Function("f", (x, y), (), lines, body, readonly=frozenset({x.key}))
    check_directives(f"{text}\n{body}", [function])


@pytest.mark.parametrize("text", [ASYNCHRONOUS, PREFETCH, prelude("INFINITY"), prelude("NAN")])
def test_what_is_always_the_same_is_known(text: str) -> None:
    check(text)


def test_every_access_with_a_hint_is_known() -> None:
    number = 0
    for (dtype, lanes), cache, l2 in itertools.product(TYPES, Cache, Priority):
        for is_load, constant in ((True, False), (True, True), (False, False)):
            plain = LOADS if is_load else STORES
            if (cache is Cache.DEFAULT or cache in plain) and l2 is Priority.NORMAL:
                continue  # a function of CUDA, or no hint at all
            if cache is Cache.READ_ONLY:
                continue
            check(Hinted(dtype, lanes, cache, l2, is_load, constant).text("access"))
            number += 1
    assert number > 300


@pytest.mark.parametrize(
    ("access", "old", "new"),
    [
        (LOAD, ".v4", ".v2"),
        (LOAD, ".f32", ".s32"),
        (LOAD, "%1, %2", "%2, %1"),
        (LOAD, "(x, y, z, w)", "(x, y, w, z)"),
        (LOAD, "[%4]", "[%3]"),
        (LOAD, '"=f"(y)', '"=f"(z)'),
        (LOAD, "volatile", ""),
        (LOAD, "(*(address))", "(*(address + 1))"),
        (LOAD, "ld.global", "st.global"),
        (STORE, "value.x", "value.y"),
        (STORE, "st.global", "ld.global"),
        (STORE, "{%1, %2}", "{%2, %1}"),
        (STORE, ', policy; }"', '; }"'),
        (STORE, "= (content)", "+= (content)"),
    ],
)
def test_a_change_is_seen(access: Hinted, old: str, new: str) -> None:
    text = access.text("access")
    assert old in text
    check(text)
    with pytest.raises((DifferenceError, UnreadError)):
        check(text.replace(old, new, 1))


def test_a_load_of_what_nobody_writes_is_of_a_constant_array() -> None:
    text = Hinted(DType.F32, 1, Cache.EVICT_FIRST, Priority.NORMAL, True, True).text("access")
    head = "f(const float* __restrict__ x, float* __restrict__ y) {"
    check(text, f"{head} y[0] = access(&x[0]); }}")
    for wrong in ("access(&y[1])", "access(&z[1])", "access(x)"):
        with pytest.raises(DifferenceError):
            check(text, f"{head} y[0] = {wrong}; }}")
    with pytest.raises(UnreadError):
        check(
            f"{text}\nint also(const float* x) {{ return access(&x[0]); }}\n",
            f"{head} y[0] = access(&x[0]); }}",
        )


def test_other_directives_are_not_read() -> None:
    check("#pragma unroll")
    for text in ("#define float double", "#if 1\n#define x y\n#endif", "#ifdef x", "#include <x>", "#line 3"):
        with pytest.raises(UnreadError):
            check(text)
