"""Contributions to cells that memory names, and updates that threads make at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.ir.expr import Cast, Const, Expr, Load, add, index, mod, sub, var
from evolve.ir.stmt import Alloc, Barrier, Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import MAX, DType, LoopKind, Space
from evolve.ir.visit import leaves, map_expr, rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests.legality.changed import Change, source, target, verdict

HISTOGRAM = """
__global__ void histogram(const int *x, int hist[64], int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&hist[x[i]], 1);
}
"""
WEIGHTED = """
__global__ void weighted(const int *x, const float *w, float hist[64], int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&hist[x[i]], w[i]);
}
"""
ACCUMULATE = """
__global__ void accumulate(const float *x, float *y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < cols) for (int r = 0; r < rows; r++) y[c] += x[r * cols + c];
}
"""
PLAIN = "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
PRIVATE = """
block, e = split(i, 4096)
bind(block, grid.x)
round, e = split(e, 64)
bind(e, thread.x)
h = privatize(hist, at=block)
bind(h.init.0, thread.x)
bind(h.all.0, thread.x)
"""
COPIES = """
block, e = split(i, 4096)
bind(block, grid.x)
round, e = split(e, 256)
warp, lane = split(e, 32)
h = privatize(hist, at=block, copies=lane)
bind(lane, thread.x)
bind(warp, thread.y)
split(h.init.0, 8)
bind(h.init.0.i, thread.y)
bind(h.init.copy, thread.x)
split(h.all.0, 8)
bind(h.all.0.i, thread.y)
warp_reduce(h.all.copy)
"""
TOGETHER = f"{PRIVATE}aggregate(h, warp)\naggregate(hist, warp)\n"
VECTOR = """
specialize(n % 4 == 0)
block, e = split(i, 4096)
bind(block, grid.x)
round, e = split(e, 256)
t, e = split(e, 4)
h = privatize(hist, at=block)
bind(t, thread.x)
vectorize(e, 4)
bind(h.init.0, thread.x)
bind(h.all.0, thread.x)
"""
ROWS = """
atomic(y)
reorder([r, c])
split(r, 4)
bind(r.o, grid.y)
split(c, 64)
reorder([c.o, r.i])
bind(c.o, grid.x)
bind(c.i, thread.x)
"""


def into(buffer: str, **changes: object) -> Change:
    """Reductions into a buffer with other fields."""

    def change(s: Stmt) -> Stmt | None:
        return replace(s, **changes) if isinstance(s, Reduce) and s.buffer == buffer else None  # type: ignore[arg-type]

    return change


def somewhere_else(move: Callable[[Expr], Expr], buffer: str) -> Change:
    """The first subscript of contributions to a buffer changed."""

    def change(s: Stmt) -> Stmt | None:
        if isinstance(s, Reduce) and s.buffer == buffer and s.origin is not None:
            return replace(s, indices=(move(s.indices[0]), *s.indices[1:]))
        return None

    return change


def loop_changed(name: str, extent: int) -> Change:
    return lambda s: replace(s, extent=index(extent)) if isinstance(s, For) and s.var == name else None


def next_element(e: Expr) -> Expr:
    """x[i + 1] for x[i], the last element for itself."""

    def one(x: Expr) -> Expr:
        return replace(x, indices=(mod(add(x.indices[0], 1), 4096),)) if isinstance(x, Load) else x

    return map_expr(e, one)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (HISTOGRAM, PLAIN),
        (HISTOGRAM, PRIVATE),
        (HISTOGRAM, COPIES),
        (HISTOGRAM, VECTOR),
        (HISTOGRAM, TOGETHER),
        (WEIGHTED, TOGETHER),
        (WEIGHTED, PLAIN),
        (WEIGHTED, PRIVATE),
        (WEIGHTED, COPIES),
        (ACCUMULATE, ROWS),
    ],
    ids=[
        "plain",
        "private",
        "copies",
        "vector",
        "together",
        "weighted-together",
        "weighted",
        "weighted-private",
        "weighted-copies",
        "rows",
    ],
)
def test_is_proved(text: str, program: str) -> None:
    found = verdict(text, program)
    assert found.status is Status.PROVED, found.diagnostics


WRONG: dict[str, tuple[str, Change, str]] = {
    "threads add at once": (PLAIN, into("hist", atomic=False), "E-RACE"),
    "threads of a block add at once to its copy": (PRIVATE, into("h", atomic=False), "E-RACE"),
    "blocks merge at once": (PRIVATE, into("hist", atomic=False), "E-RACE"),
    "warps add at once to a copy of theirs": (COPIES, into("h", atomic=False), "E-RACE"),
    "another monoid": (PLAIN, into("hist", monoid=MAX), "E-EXPR"),
    "merged with another monoid": (PRIVATE, into("hist", monoid=MAX), "E-REDUCTION"),
    "two for one": (PLAIN, into("hist", value=Const(2, DType.I32)), "E-EXPR"),
    "the next bin": (PLAIN, somewhere_else(lambda e: mod(add(e, 1), 64), "hist"), "E-REDUCTION"),
    "the mirrored bin": (PRIVATE, somewhere_else(lambda e: sub(63, e), "h"), "E-REDUCTION"),
    "one bin for all": (PRIVATE, somewhere_else(lambda e: index(0), "h"), "E-COVERAGE"),
    "another element's bin": (PLAIN, somewhere_else(next_element, "hist"), "E-COVERAGE"),
    "bins that are not merged": (PRIVATE, loop_changed("h.all.0", 63), "E-REDUCTION"),
    "bins that are not set": (PRIVATE, loop_changed("h.init.0", 63), "E-REDUCTION"),
    "copies that are not merged": (COPIES, loop_changed("h.all.0.o", 7), "E-REDUCTION"),
    "lanes put other things together": (TOGETHER, into("h", value=Const(2, DType.I32)), "E-EXPR"),
    "lanes put another's bin together": (
        TOGETHER,
        somewhere_else(lambda e: mod(add(e, 1), 64), "h"),
        "E-REDUCTION",
    ),
    "lanes take the greatest": (TOGETHER, into("h", monoid=MAX), "E-EXPR"),
    "rounds left out": (PRIVATE, loop_changed("round", 63), "E-COVERAGE"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_refused(name: str) -> None:
    program, change, code = WRONG[name]
    found = verdict(HISTOGRAM, program, change)
    assert found.status is not Status.PROVED
    assert code in [d.code for d in found.diagnostics], found.diagnostics


def test_a_copy_must_start_neutral() -> None:
    def change(s: Stmt) -> Stmt | None:
        return replace(s, value=Const(1, DType.I32)) if isinstance(s, Store) and s.buffer == "h" else None

    assert [d.code for d in verdict(HISTOGRAM, PRIVATE, change).diagnostics] == ["E-REDUCTION"]


def test_a_cell_merged_twice_is_refused() -> None:
    def change(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, s) if isinstance(s, Reduce) and s.buffer == "hist" else None

    assert "E-REDUCTION" in [d.code for d in verdict(HISTOGRAM, PRIVATE, change).diagnostics]


@pytest.mark.parametrize("number", [0, 1])
def test_both_barriers_are_needed(number: int) -> None:
    made = target(HISTOGRAM, PRIVATE)
    seen = [0]

    def change(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Barrier):
            return None
        seen[0] += 1
        return () if seen[0] - 1 == number else None

    found = prove(source(HISTOGRAM), replace(made, body=rewrite(made.body, change)))
    assert seen[0] == 2
    assert {d.code for d in found.diagnostics} == {"E-RACE"}


def test_a_copy_of_the_whole_grid_is_refused() -> None:
    """Each block merges what it gathered in the rounds before as well, when the copy is set once only."""
    text = PRIVATE.replace("at=block", "at=round")
    assert verdict(HISTOGRAM, text).status is Status.PROVED
    made = target(HISTOGRAM, text)
    alloc: list[Stmt] = []

    def out(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, Alloc) and s.buffer.space is Space.SHARED:
            alloc.append(s)
            return ()
        if isinstance(s, For) and s.var == "round":
            (init,) = (x for x in s.body.stmts if isinstance(x, For) and x.var == "h.init.0")
            rest = Block(tuple(x for x in s.body.stmts if x is not init))
            return (*alloc, init, Barrier(), replace(s, body=rest))
        return None

    found = prove(source(HISTOGRAM), replace(made, body=rewrite(made.body, out)))
    assert "E-REDUCTION" in [d.code for d in found.diagnostics], found.diagnostics


def test_a_cell_that_others_update_is_not_read() -> None:
    """A thread that reads a bin while others add to it sees any of many values."""
    made = target(HISTOGRAM, PLAIN)
    peek = Alloc(replace(made.buffers[1], name="seen", extents=(), space=Space.REGISTER))
    load = Load("hist", (index(0),), DType.I32)

    def change(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, peek, Store("seen", (), load)) if isinstance(s, Reduce) else None

    found = prove(source(HISTOGRAM), replace(made, body=rewrite(made.body, change)))
    assert "E-RACE" in [d.code for d in found.diagnostics]


def test_the_bin_must_be_read_from_what_nobody_writes() -> None:
    """A copy of x in registers may be the same, but is not followed into subscripts."""
    made = target(HISTOGRAM, PLAIN)
    copy = Alloc(replace(made.buffers[0], name="kept", extents=(), space=Space.REGISTER))

    def change(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Reduce):
            return None
        (term,) = s.indices
        assert isinstance(term, Cast)
        kept = Cast(Load("kept", (), DType.I32), DType.INDEX)
        return (copy, Store("kept", (), term.arg), replace(s, indices=(kept,)))

    found = prove(source(HISTOGRAM), replace(made, body=rewrite(made.body, change)))
    assert found.status is Status.UNKNOWN


def test_rows_over_blocks_need_atomics() -> None:
    found = verdict(ACCUMULATE, ROWS, into("y", atomic=False))
    assert {d.code for d in found.diagnostics} == {"E-RACE"}


@pytest.mark.parametrize(
    "body",
    [
        "atomicAdd(&y[0], 1); z[i] = y[0];",
        "atomicAdd(&y[x[i]], 1); atomicMax(&y[x[i]], 3);",
        "atomicAdd(&y[0], 1); if (i == 0) y[0] = 3;",
        "atomicAdd(&y[0], 1); y[0] += 1;",
        "atomicAdd(&z[i], y[0]); atomicAdd(&y[0], 1);",
    ],
)
def test_a_source_whose_updates_meet_other_accesses_has_no_meaning(body: str) -> None:
    text = f"""
    __global__ void k(const int *x, int y[8], int *z, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) {{ {body} }}
    }}"""
    found = verdict(text, PLAIN)
    assert [d.code for d in found.diagnostics] == ["E-SOURCE-RACE"]


def test_the_lifted_contribution_is_one_atomic_update() -> None:
    ((leaf, site),) = leaves(source(HISTOGRAM).body)
    assert isinstance(leaf, Reduce)
    assert leaf.atomic
    assert [x.kind for x in site.loops] == [LoopKind.PARALLEL]
    assert not any(isinstance(x, If) for x in site.path)
    assert var("i") == leaf.indices[0].arg.indices[0]  # type: ignore[union-attr]
