"""The parts of code generation, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.codegen.ctext import literal
from evolve.codegen.names import Names
from evolve.codegen.sizes import INT_MAX, Magnitudes
from evolve.ir.affine import Ranges
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import BinaryOp, Expr, add, ceildiv, compare, floordiv, index, mod, mul, var
from evolve.ir.lanes import divisor, is_wide, lane_guard
from evolve.ir.types import DType

SIZES = Ranges({"n": (1, None), "m": (1, None)}, {"n": 4})


class TestNames:
    def test_dots_become_short_suffixes(self) -> None:
        names = Names()
        assert [names.of(n) for n in ("c", "c.o.i", "i.i.o.0", "xr.1")] == ["c", "c_oi", "i_io0", "xr_1"]
        assert names.of("c.o.i") == "c_oi"

    def test_clashes_get_another_name(self) -> None:
        names = Names(frozenset({"x"}))
        assert names.of("x") == "x_2"
        assert names.of("c_oi") == "c_oi"
        assert names.of("c.o.i") == "c_o_i"
        assert names.fresh("c_o_i") == "c_o_i_2"

    @pytest.mark.parametrize("word", ["float", "threadIdx", "tx", "expf", "INFINITY", "template"])
    def test_words_with_a_meaning_are_not_given(self, word: str) -> None:
        assert Names().of(word) == f"{word}_2"


class TestLiterals:
    @pytest.mark.parametrize(
        ("value", "dtype", "text"),
        [
            (0.0, DType.F32, "0.0f"),
            (-0.0, DType.F32, "-0.0f"),
            (0.20000000298023224, DType.F32, "0.2f"),
            (0.2, DType.F64, "0.2"),
            (1e-5, DType.F32, "1e-05f"),
            (float("-inf"), DType.F32, "-INFINITY"),
            (3.4028234663852886e38, DType.F32, "3.4028235e+38f"),
            (3, DType.I32, "3"),
            (3, DType.U32, "3u"),
            (-(2**31), DType.I32, "(-2147483647 - 1)"),
            (True, DType.BOOL, "true"),
        ],
    )
    def test_spelling(self, value: float, dtype: DType, text: str) -> None:
        assert literal(value, dtype) == text

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False))
    def test_binary32_values_survive(self, value: float) -> None:
        text = literal(value, DType.F32)
        with np.errstate(all="ignore"):
            assert np.float32(float(text.removesuffix("f"))) == np.float32(value)


class TestMagnitudes:
    @given(st.integers(1, 10**6), st.integers(1, 10**6))
    def test_guards_are_sound_and_tight(self, n: int, m: int) -> None:
        """With the guards met every index fits an int; the largest that fits is not refused by much."""
        loops = {"i": ceildiv(var("n"), 32), "k": index(32), "j": var("m")}
        i = add(mul(var("i"), 32), var("k"))
        sizes = Magnitudes(SIZES, ["n", "m"])
        sizes.require(add(mul(i, var("m")), var("j")), loops)
        largest = (((n + 31) // 32) * 32 - 1) * m + m - 1
        fits = all(evaluate(g, {"n": n, "m": m}) for g in sizes.guards())
        assert not fits or largest <= INT_MAX
        assert fits or largest + 32 * m > INT_MAX

    def test_int_sizes_need_no_guard_and_others_do(self) -> None:
        for ints, count in ((["n"], 0), ([], 1)):
            sizes = Magnitudes(SIZES, ints)
            sizes.require(var("n"), {})
            sizes.require(var("i"), {"i": var("n")})
            assert len(sizes.guards()) == count

    def test_intermediate_values_count(self) -> None:
        sizes = Magnitudes(SIZES, ["n", "m"])
        sizes.require(floordiv(mul(var("n"), 1024), 1024), {})
        (guard,) = sizes.guards()
        assert evaluate(guard, {"n": 2**21 - 1}) and not evaluate(guard, {"n": 2**21})

    def test_dominated_guards_are_dropped(self) -> None:
        sizes = Magnitudes(SIZES, ["n", "m"])
        for e in (mul(var("n"), var("m")), var("m"), add(mul(var("n"), var("m")), -1), mul(var("m"), 2)):
            sizes.require(e, {})
        assert len(sizes.guards()) == 2


class TestVectors:
    lane = Ranges({**SIZES.bounds, "v": (0, 3), "t": (0, 255), "r": (0, None)}, {"n": 4})

    @pytest.mark.parametrize(
        ("offset", "wide"),
        [
            (add(mul(var("t"), 4), var("v")), True),
            (add(mul(var("t"), 2), var("v")), False),
            (add(mul(var("t"), 4), mul(var("v"), 2)), False),
            (add(add(mul(var("t"), 4), var("v")), 1), False),
            (add(add(mul(var("t"), 4), var("v")), 8), True),
            (add(mul(var("r"), var("n")), var("v")), True),
            (add(mul(var("r"), var("m")), var("v")), False),
            (add(mul(add(var("r"), var("v")), var("n")), var("v")), False),
            (mul(var("t"), 4), False),
            (add(mul(var("r"), 33), var("v")), False),
        ],
    )
    def test_alignment(self, offset: Expr, wide: bool) -> None:
        assert is_wide(offset, "v", 4, self.lane) is wide

    @given(st.integers(1, 6), st.integers(-3, 9), st.integers(0, 3), st.integers(1, 12))
    def test_divisors(self, a: int, b: int, t: int, n: int) -> None:
        known = Ranges({}, {"n": 4})
        for e in (
            add(mul(var("t"), a), b),
            mul(var("n"), a),
            floordiv(mul(var("n"), a), 4),
            mod(var("t"), 3),
        ):
            d = divisor(e, known)
            value = int(evaluate(e, {"t": t, "n": 4 * n}))
            assert value == 0 if d == 0 else value % d == 0

    @given(
        st.sampled_from([BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE]),
        st.sampled_from([-2, -1, 1, 2]),
        st.sampled_from([0, 1, 3, 4]),
        st.integers(0, 8),
        st.sampled_from(["n", "m"]),
        st.booleans(),
    )
    def test_lane_guards(self, op: BinaryOp, c: int, shift: int, t: int, size: str, swap: bool) -> None:
        """`full` implies the condition in every lane; an exact one is the condition in every lane."""
        left, right = add(add(mul(var("t"), 4), mul(var("v"), c)), shift), var(size)
        cond = compare(op, right, left) if swap else compare(op, left, right)
        guard = lane_guard(cond, "v", 4, self.lane)
        assert guard is not None
        for n in range(4, 40, 4 if size == "n" else 1):
            lanes = [bool(evaluate(cond, {"t": t, "v": v, size: n})) for v in range(4)]
            full = bool(evaluate(guard.full, {"t": t, size: n}))
            assert not full or all(lanes)
            if guard.exact:
                assert lanes == [full] * 4
