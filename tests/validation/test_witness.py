"""What is computed is refuted by numbers only; without them nothing is known."""

from __future__ import annotations

import pytest

from evolve.validation.context import Context
from evolve.validation.formula import Every, Formula, at_least, below, equal, negation
from evolve.validation.polynomial import (
    Atom,
    Poly,
    atom,
    constant,
    exclusive_or,
    extreme,
    floor,
    truncated,
    variable,
)
from evolve.validation.verdict import DifferenceError, TextStatus, UnreadError
from evolve.validation.witness import unequal, witness
from tests.validation.suite import made
from tests.validation.test_planted import EDITS, edited

A, T, N, M = map(variable, ("i.1", "thread.x", "n", "m"))
RANGES = {"i.1": (0, None), "thread.x": (0, 31), "n": (1, None), "m": (1, None)}


def element(at: Poly) -> Poly:
    return atom(Atom("read", "p", (at,)))


def context(*facts: Formula, ordered: bool = False) -> Context:
    reads = {"p": (constant(0), N)}
    return Context(RANGES, reads=reads, ordered={"p": M} if ordered else {}).given(*facts)


def test_small_sizes_come_first() -> None:
    found = witness(
        context(below(A, N), equal(N, floor(N, constant(4), RANGES).scale(4))), at_least(A, T.plus(2))
    )
    assert found is not None
    n, i, t = (found.values[x] for x in ("n", "i.1", "thread.x"))
    assert n % 4 == 0 and t + 2 <= i < n <= 16


def test_products_are_those_of_their_factors() -> None:
    found = witness(context(below(A, N * M), at_least(A, constant(1000))), equal(A, T * N))
    assert found is not None
    n, m, i, t = (found.values[x] for x in ("n", "m", "i.1", "thread.x"))
    assert 1000 <= i < n * m and i == t * n


def test_a_size_may_have_to_be_large() -> None:
    found = witness(context(at_least(constant(1000), M)), at_least(N * M, constant(2**31)))
    assert found is not None and found.values["n"] * found.values["m"] >= 2**31


def test_what_is_beyond_isl_is_computed() -> None:
    p, q = exclusive_or(A, T, RANGES), extreme("max", A * T, N, RANGES)
    found = witness(context(below(A, constant(64))), Every((below(p, A + T), equal(q, constant(100)))))
    assert found is not None
    i, t, n = (found.values[x] for x in ("i.1", "thread.x", "n"))
    assert i ^ t < i + t and max(i * t, n) == 100


def test_quotients_round_as_in_c() -> None:
    p = truncated(T.plus(-20), constant(8))
    found = witness(context(), Every((equal(p, constant(-1)), below(T, constant(10)))))
    assert found is not None and 5 <= found.values["thread.x"] <= 9
    assert witness(context(), equal(p, constant(-3))) is None


@pytest.mark.parametrize(
    "impossible",
    [
        equal(A * A, constant(3)),
        negation(equal(floor(A * A + A, constant(2), RANGES).scale(2), A * A + A)),
        below(element(A), constant(0)),
        at_least(element(A), N),
        Every((equal(A, T), negation(equal(element(A), element(T))))),
    ],
)
def test_nothing_is_found_where_nothing_is(impossible: Formula) -> None:
    assert witness(context(below(A, constant(100))), impossible) is None


@pytest.mark.parametrize(
    "disorder",
    [
        Every((below(A, T), at_least(M, T), below(element(T), element(A)))),
        negation(equal(element(constant(0)), constant(0))),
        negation(equal(element(M), N.plus(-1))),
        Every((at_least(T, M.plus(1)), at_least(element(T), constant(0)))),
    ],
)
def test_an_array_in_order_is_in_order(disorder: Formula) -> None:
    assert witness(context(), disorder) is not None
    assert witness(context(ordered=True), disorder) is None


def test_a_question_of_data_has_no_numbers() -> None:
    found = unequal(context(), A * A + A, floor(A * A + A, constant(2), RANGES).scale(2), "a is not b", 7)
    assert isinstance(found, UnreadError) and found.line == 7
    assert found.reason == "cannot be shown equal: a is not b"
    other = unequal(context(), A.plus(1), A, "a is not b", 7)
    assert isinstance(other, DifferenceError) and other.reason.startswith("a is not b, at i = ")


ELEMENT = "alpha * x[i + i_oi * 256"
BODY = "y[i + i_oi * 256] ="


@pytest.mark.parametrize(
    ("old", "right", "wrong"),
    [
        (ELEMENT, f"{ELEMENT} + (tx * tx + tx) % 2", f"{ELEMENT} + tx * tx % 2"),
        (BODY, f"if ((tx * tx + tx) % 2 == 0) {BODY}", f"if ((tx * tx + tx) % 3 == 0) {BODY}"),
        ("i_oi < 4", "i_oi < 4 + (tx * tx + tx) % 2", "i_oi < 4 + (tx * tx + tx) % 3"),
    ],
)
def test_a_right_text_that_cannot_be_proved_is_not_refuted(old: str, right: str, wrong: str) -> None:
    text = made("saxpy").rendered.text
    assert old in text
    unknown = made("saxpy").read_back(text.replace(old, right, 1))
    assert unknown.status is TextStatus.UNKNOWN and "cannot be shown equal" in unknown.reason, str(unknown)
    refuted = made("saxpy").read_back(text.replace(old, wrong, 1))
    assert refuted.status is TextStatus.REFUTED and "thread.x = " in refuted.reason, str(refuted)


INDICES = (
    "index one too far",
    "index with another stride",
    "a lane twice",
    "another buffer version",
    "threads of another axis",
    "a bin for another value",
    "a swizzle that is another",
)


@pytest.mark.parametrize("what", INDICES)
def test_errors_of_an_index_are_refuted_by_numbers(what: str) -> None:
    (e,) = (x for x in EDITS if x.what == what)
    verdict = made(e.program).read_back(edited(e))
    assert verdict.status is TextStatus.REFUTED and "in the text" in verdict.reason, str(verdict)
