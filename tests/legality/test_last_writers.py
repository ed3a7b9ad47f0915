"""Who wrote last, also where isl's search answers nothing, beside all pairs in order."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from evolve.ir.poly import IslLimitError, IslObject, context
from evolve.legality import flow, last_writers
from evolve.legality.last_writers import empty, reaching
from evolve.legality.memory import forget
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits
from tests.illegal.adversary import SLOW, family, original


def read(text: str) -> IslObject:
    return isl.UnionMap.read_from_str(context(), text)


def maps(text: str) -> list[IslObject]:
    out: list[IslObject] = []
    read(text).foreach_map(out.append)
    return out


ROWS = "[n] -> { R[a, b, c] -> y[1 + 32a + 160b + c] : 0 <= a <= 4 and b >= 0 and 0 <= c <= 30 and c < n }"
FIRSTS = "[n] -> { W[a, b] -> y[32a + 160b] : 0 <= a <= 4 and b >= 0 and 160b < n - 32a }"
ORDER = "{ R[a, b, c] -> [1, c]; W[a, b] -> [0, 0] }"


def test_isl_forgets_a_reader_that_no_writer_reaches() -> None:
    """If this fails, isl has been mended, and `last_writers` may be simpler."""
    info = isl.UnionAccessInfo.from_sink(read(ROWS)).set_must_source(read(FIRSTS))
    flow = info.set_schedule_map(read(ORDER)).compute_flow()
    assert flow.get_may_dependence().is_empty() and flow.get_may_no_source().is_empty()


def test_a_reader_that_no_writer_reaches_finds_what_was_there() -> None:
    found, none = reaching(read(ROWS), read(FIRSTS), empty(), maps(ORDER))
    assert found.is_empty()
    assert none.is_equal(read(ROWS))


def test_it_finds_what_was_there_though_it_is_updated_in_between() -> None:
    """isl finds the updates, and neither a store nor that there is none."""
    updates = (
        "[n] -> { U[a, b, c] -> y[1 + 32a + 160b + c] : 0 <= a <= 4 and b >= 0 and 0 <= c <= 30 and c < n }"
    )
    order = "{ R[a, b, c] -> [1, a, b, c, 1]; U[a, b, c] -> [1, a, b, c, 0]; W[a, b] -> [0, 0, 0, 0, 0] }"
    found, none = reaching(read(ROWS), read(FIRSTS), read(updates), maps(order))
    assert found.domain().is_equal(read(ROWS).domain())
    assert none.is_equal(read(ROWS))


CASES = {
    "the latest of several stores": (
        "{ R[i] -> y[i] : 0 <= i < 6 }",
        "{ S[i] -> y[i] : 0 <= i < 4; T[i] -> y[i] : 2 <= i < 5 }",
        "{ }",
        "{ R[i] -> [2, i]; S[i] -> [0, i]; T[i] -> [1, i] }",
    ),
    "updates since the latest store": (
        "{ R[i] -> y[0] : 0 <= i < 5 }",
        "{ S[i] -> y[0] : 0 <= i < 5 and i mod 2 = 0 }",
        "{ U[i, k] -> y[0] : 0 <= i < 5 and 0 <= k < 2 }",
        "{ R[i] -> [i, 2, 0]; S[i] -> [i, 0, 0]; U[i, k] -> [i, 1, k] }",
    ),
    "updates of what nobody stored": (
        "{ R[i] -> y[i] : 0 <= i < 4 }",
        "{ S[i] -> y[i] : 0 <= i < 2 }",
        "{ U[i] -> y[i] : 1 <= i < 4 }",
        "{ R[i] -> [2]; S[i] -> [0]; U[i] -> [1] }",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_comparing_times_agrees_with_the_search(case: str) -> None:
    sink, must, may, order = CASES[case]
    found, none = reaching(read(sink), read(must), read(may), maps(order))
    latest, neither = last_writers._latest(read(sink), read(must), read(may), read(order))
    assert latest.is_equal(found) and neither.is_equal(none)
    assert not found.is_empty()


def test_where_no_latest_time_is_found_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of readers with stores before them; they do not find what was there."""
    sink, store = read("{ R[i] -> y[i] : 0 <= i < 4 }"), read("{ S[i] -> y[i] : 0 <= i < 2 }")
    when, rest = read("{ R[i] -> [1]; S[i] -> [0] }"), read("{ R[i] -> y[i] : 2 <= i < 4 }")
    found, none = last_writers._latest(sink, store, empty(), when)
    assert found.is_equal(read("{ R[i] -> S[i] : 0 <= i < 2 }")) and none.is_equal(rest)
    monkeypatch.setattr(isl.UnionMap, "lexmax", lambda m: m.subtract(m))
    found, none = last_writers._latest(sink, store, empty(), when)
    assert found.is_empty() and none.is_equal(rest)


def test_the_search_agrees_with_comparing_times_on_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several writers come at the same time, which is a race if it matters, the search names one."""
    asked = 0
    forget()  # what other tests have asked is not asked again

    def both(sink: IslObject, must: IslObject, may: IslObject, schedule: list[IslObject]) -> object:
        nonlocal asked
        found, none = reaching(sink, must, may, schedule)
        when = empty()
        for m in schedule:
            when = when.union(isl.UnionMap.from_map(m))
        try:
            latest, neither = last_writers._latest(sink, must, may, when)
        except IslLimitError:
            return found, none
        asked += 1
        assert found.is_subset(latest) and found.domain().is_equal(latest.domain())
        assert none.is_equal(neither)
        return found, none

    monkeypatch.setattr(flow, "reaching", both)
    for seed in range(24):
        for case in family(random.Random(f"last writers {seed}"), damaged=1):
            if case.kernel_name not in SLOW:
                prove(original(case.kernel_name), case.kernel, Limits(numerics=case.contract))
    assert asked > 50
