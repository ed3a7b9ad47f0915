"""Who wrote what is read: isl's search, and the short way for buffers that are written once, agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl
import pytest

from evolve.compiler.compile import finish
from evolve.ir.expr import Expr, add, floordiv, sub, var
from evolve.ir.poly import IslObject, context, limited, sizes_of
from evolve.ir.stmt import Block, For, Origin, Store
from evolve.legality import flow as flows
from evolve.legality.flow import Flow, Reader, injective_per_reader
from evolve.legality.instances import ModelError
from evolve.legality.last_writers import reaching
from evolve.legality.memory import forget
from evolve.legality.model import Model
from evolve.legality.prove import prove
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.kernels_ir import ld, loop
from tests.legality import test_online_conditions as online


def flow_of(k: object) -> Flow:
    return Flow(Model(k, sizes_of(k, k.assumptions)), 10_000_000)  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize("name", sorted(scheduled.SCHEDULED))
def test_the_short_way_agrees_with_the_search(name: str) -> None:
    flow = flow_of(scheduled.SCHEDULED[name]())
    compared = 0
    for st in flow.model.statements:
        for r in st.reads:
            writers = flow._writers.get(r.load.buffer)
            sink = flow.model.read(st, r)
            reader = Reader(st.frame, r.instances, flow.model.padded(st.time, (0,)))
            short = flow._before(r.load.buffer, sink, reader)
            if short is None or not writers:
                continue
            long = flow._search(writers, r.load.buffer, sink, reader)
            assert short.base.is_equal(long.base)
            assert short.initial.is_equal(long.initial)
            compared += 1
    assert compared or name not in ("transpose_tiled", "transpose_float4", "matmul_tiled", "softmax_block")


def test_stores_into_different_halves_are_single_writes() -> None:
    """Of a loop and its remainder; not of two loops over the same."""
    n = var("n")

    def stores(first: Expr, offset: Expr) -> Flow:
        def part(name: str, extent: Expr, at: Expr) -> For:
            return loop(name, extent, Store("c", (at,), ld("a", at), Origin("S0", (at,))))

        k = lifted.vecadd()
        body = Block((part("i", first, var("i")), part("j", sub(n, first), add(var("j"), offset))))
        return flow_of(replace(k, body=body))

    half = floordiv(n, 2)
    flow = stores(half, half)
    writes = flow._single_writes("c")
    assert writes is not None and len(writes) == 2
    assert flow.final("c").initial.is_empty()
    assert stores(half, sub(half, 1))._single_writes("c") is None


def test_final_contents_agree_with_the_search() -> None:
    flow = flow_of(scheduled.transpose_tiled())
    short = flow.final("y")
    assert flow._single_writes("y") is not None
    flow._singles["y"] = None
    long = flow.final("y")
    assert short.base.is_equal(long.base) and short.initial.is_equal(long.initial)


def test_reads_of_an_accumulator() -> None:
    """The base is the start value, and all contributions so far are seen: softmax's sum in its store."""
    flow = flow_of(lifted.softmax())
    store = flow.model.statements[-1]
    (total,) = (r for r in store.reads if r.load.buffer == "s")
    value = flow.last(store, total)
    names = [s.name for s in flow.model.statements]
    reached: set[str] = set()
    value.adds.range().foreach_set(lambda x: reached.add(x.get_tuple_name()))
    assert reached == {names[3]}
    adds = (
        isl.Map.from_union_map(value.adds).reset_tuple_id(isl.dim_type.in_).reset_tuple_id(isl.dim_type.out)
    )
    every = "[rows, cols] -> { [r, c] -> [r, k] : 0 <= r < rows and 0 <= c < cols and 0 <= k < cols }"
    assert adds.is_equal(isl.Map.read_from_str(context(), every))
    base = isl.Map.from_union_map(value.base)
    assert base.get_tuple_name(isl.dim_type.out) == names[2] and base.is_single_valued()
    assert value.initial.is_empty()


def test_double_counting_is_seen_per_reader() -> None:
    def m(text: str) -> object:
        return isl.UnionMap.read_from_str(context(), text)

    onward = m("{ K[t, u] -> X[u] : 0 <= t, u < 4 }")
    each_its_own = m("{ R[t] -> K[t, u] : 0 <= t, u < 4 }")
    both = m("{ R[t] -> K[s, u] : 0 <= t, u < 4 and 0 <= s < 2 }")
    with limited():
        assert injective_per_reader(each_its_own, onward)
        assert not injective_per_reader(both, onward)
    two_kinds = m("{ R[t] -> K[t, u] : 0 <= t, u < 4; R[t] -> L[t] : 0 <= t < 4 }")
    also = m("{ K[t, u] -> X[u] : 0 <= t, u < 4; L[t] -> X[3] : 0 <= t < 4 }")
    assert not injective_per_reader(two_kinds, also)
    assert injective_per_reader(
        two_kinds, m("{ K[t, u] -> X[u] : 0 <= t, u < 4; L[t] -> X[4] : 0 <= t < 4 }")
    )


def test_an_update_in_place_reads_the_old_value() -> None:
    flow = flow_of(lifted.saxpy_in_place())
    (st,) = flow.model.statements
    value = flow.last(st, st.reads[1])
    assert value.base.is_equal(value.initial)
    assert not value.base.is_empty()


# ---- flows are total


@pytest.fixture
def afresh() -> Iterator[None]:
    """What is found here is remembered of nothing and for nobody."""
    forget()
    yield
    forget()


def losing(monkeypatch: pytest.MonkeyPatch, cell: str, *readers: str) -> list[str]:
    """A search that finds neither a writer nor its absence for those of these that read this buffer, all if
    none are named; who has been lost."""
    lost: list[str] = []

    def search(sink: IslObject, *rest: IslObject) -> tuple[IslObject, IslObject]:
        found, none = reaching(sink, *rest)
        (m,) = maps(sink)
        reader, buffer = (m.get_tuple_name(x) for x in (isl.dim_type.in_, isl.dim_type.out))
        if buffer != cell or (readers and reader not in readers):
            return found, none
        lost.append(reader)
        one = isl.UnionSet.from_set(sink.domain().sample_point().to_set())
        return found.subtract_domain(one), none.subtract_domain(one)

    monkeypatch.setattr(flows, "reaching", search)
    return lost


def maps(relation: IslObject) -> list[IslObject]:
    out: list[IslObject] = []
    relation.foreach_map(out.append)
    return out


LOST = {
    "on both sides": ("peak", "?#S9", "?#T14"),
    "in the source": ("peak", "?#S9"),
    "in the target": ("peak", "?#T14"),
    "who reads an exponential": ("e", "?#T10"),
    "who goes on with a sum": ("sum", "?#T10"),
}
"""What is read, and who of those that read it are lost: an instance of each. The last one only updates it."""


@pytest.mark.parametrize("lost", LOST)
def test_a_program_of_which_the_search_loses_a_reader_is_not_proved(
    lost: str, afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, *readers = LOST[lost]
    did = losing(monkeypatch, cell, *readers)
    verdict = prove(online.source(), finish(online.target()))
    assert did and set(did) <= set(readers)
    assert verdict.status.value == "unknown"
    said = f"isl's search does not say of each read of {cell} what it finds there"
    assert {(d.code, d.message) for d in verdict.diagnostics} == {("E-FLOW", said)}


def test_a_final_cell_of_which_the_search_says_nothing_is_not_taken_to_be_right(
    afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_of(scheduled.transpose_tiled())
    flow._singles["y"] = None
    lost = losing(monkeypatch, "y")
    with pytest.raises(ModelError, match="each read of y") as e:
        flow.final("y")
    assert lost == ["?!y"] and not e.value.refuted
