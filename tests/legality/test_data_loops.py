"""Loop bounds and subscripts that are read from memory: what is proved of them and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.data import terms
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, add, floordiv, index, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import loads, map_expr, rewrite, substitute_block
from evolve.legality.prove import prove
from evolve.legality.verdict import Status, Verdict
from evolve.transforms.apply import apply_program

SPMV = """
__global__ void spmv(int rows, const int *rowptr, const int *col, const float *val, const float *x,
                     float *y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    for (int k = rowptr[r]; k < rowptr[r + 1]; k++) sum += val[k] * x[col[k]];
    y[r] = sum;
  }
}
"""
DOTS = """
__global__ void dots(const int *rowptr, const int *col, const float *a, const float *b, float *y, int rows,
                     int depth) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    for (int k = rowptr[r]; k < rowptr[r + 1]; k++) {
      float s = 0.0f;
      for (int d = 0; d < depth; d++) s += a[r * depth + d] * b[col[k] * depth + d];
      sum += s * s;
    }
    y[r] = sum;
  }
}
"""
GATHER = """
__global__ void gather(const float *x, const int *idx, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[idx[i]];
}
"""
TWO_LISTS = """
__global__ void both(const float *x, const float *z, const int *first, const int *other, float *y, float *w,
                     int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    y[r] = 0.0f;
    for (int k = first[r]; k < first[r + 1]; k++) y[r] += x[k];
    w[r] = z[other[r]] + x[other[r]] + other[r + 1];
  }
}
"""
BY_THREAD = "split(r, 64)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n"
BY_WARP = """
split(r, 4)
bind(r.o, grid.x)
bind(r.i, thread.y)
split(k, 32)
reorder([k.i, k.o])
warp_reduce(k.i)
"""
BY_BLOCK = "bind(r, grid.x)\nsplit(k, 64)\nreorder([k.i, k.o])\nblock_reduce(k.i)\n"
BY_WARP_TWICE = """
split(r, 4)
bind(r.o, grid.x)
bind(r.i, thread.y)
split(k, 32)
split(k.o, 2)
reorder([k.i, k.o.o, k.o.i])
warp_reduce(k.i)
unroll(k.o.i)
"""
PARTS = BY_THREAD + "split(k, 4)\n"

R = add(mul(var("r.o"), 64), var("r.i"))

Change = Callable[[Stmt], "Stmt | tuple[Stmt, ...] | None"]


def source(text: str) -> Kernel:
    return lift("kernel.cu", None, text).kernel


def scheduled(text: str, program: str) -> Kernel:
    return apply_program(source(text), parse(program)).kernel


def verdict(text: str, program: str, change: Change | None = None) -> Verdict:
    """Of the program's result with a change made to its statements, bottom-up."""
    kernel = scheduled(text, program)
    if change is not None:
        changed = rewrite(kernel.body, change)
        assert changed != kernel.body
        kernel = replace(kernel, body=changed)
    return prove(source(text), finish(kernel))


@pytest.mark.parametrize(
    "program", [BY_THREAD, BY_WARP, BY_WARP_TWICE, BY_BLOCK, PARTS, PARTS + "unroll(k.i)\n"]
)
def test_rows_are_proved_whoever_walks_them(program: str) -> None:
    found = verdict(SPMV, program)
    assert found.proved, found.diagnostics
    assert found.scope == "symbolic"


DOTS_BY = "split(d, {0})\nreorder([d.i, d.o])\nwarp_reduce(d.i)\n"
ROWS_OF_THREADS = "split(r, 4)\nbind(r.o, grid.x)\nbind(r.i, thread.y)\n"


@pytest.mark.parametrize("rows", ["bind(r, grid.x)\n", ROWS_OF_THREADS])
def test_a_warp_may_meet_once_for_each_entry_of_its_row(rows: str) -> None:
    """All of its lanes read the same two row pointers."""
    found = verdict(DOTS, rows + DOTS_BY.format(32))
    assert found.proved, found.diagnostics


def test_rows_that_share_a_warp_may_not() -> None:
    found = verdict(DOTS, ROWS_OF_THREADS + DOTS_BY.format(16))
    assert "E-BARRIER" in {d.code for d in found.diagnostics}
    assert any("depends on r.i" in d.message for d in found.diagnostics)


def test_a_block_may_not_as_its_barriers_have_no_number() -> None:
    text = DOTS_BY.format(64).replace("warp_reduce", "block_reduce")
    assert verdict(DOTS, f"bind(r, grid.x)\n{text}").status is Status.UNKNOWN


def test_the_premises_are_in_the_certificate() -> None:
    assumptions = verdict(SPMV, BY_THREAD).assumptions
    assert (
        "rowptr holds integers from 0, below col_size + 1, none less than the one before, "
        "0 the first and col_size the last"
    ) in assumptions
    assert "col holds integers from 0, below x_size" in assumptions


ENDS = "the input has rowptr[0] == 0 and rowptr[rows] == col_size"


def test_what_only_the_program_needs_of_row_pointers_is_a_premise() -> None:
    """The kernel computes rows of a larger matrix too, of which the first pointer is not 0."""
    assert not verdict(SPMV, BY_THREAD).premises
    assert verdict(SPMV, "balance(k, by=rowptr)\n").premises == (ENDS,)


@pytest.mark.parametrize("read", ["rowptr[0]", "rowptr[rows]"])
def test_what_a_kernel_reads_at_the_ends_is_a_premise(read: str) -> None:
    text = SPMV.replace("y[r] = sum;", f"y[r] = sum + z[{read}];").replace(
        "float *y", "const float *z, float *y"
    )
    assert text != SPMV
    assert verdict(text, BY_THREAD).premises == (ENDS,)


def test_a_gather_is_proved() -> None:
    assert verdict(GATHER, "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n").proved
    assert verdict(
        GATHER,
        "specialize(n % 4 == 0)\nsplit(i, 64)\nbind(i.o, grid.x)\nsplit(i.i, 4)\nbind(i.i.o, thread.x)\n"
        "vectorize(i.i.i, 4)\n",
    ).proved


def below(e: Expr, n: Expr) -> Expr:
    return Binary(BinaryOp.LT, e, n, DType.BOOL)


def element(array: str, at: Expr) -> Cast:
    return Cast(Load(array, (at,), DType.I32), DType.INDEX)


def only(kind: type, change: Callable[..., Stmt | tuple[Stmt, ...]]) -> Change:
    return lambda s: change(s) if isinstance(s, kind) else None


def contribution(change: Callable[[Reduce], Stmt | tuple[Stmt, ...]]) -> Change:
    """A change to the statement that adds a product."""
    return lambda s: change(s) if isinstance(s, Reduce) and s.origin is not None else None


def some_columns(s: Stmt) -> If:
    """Under a condition on data that the source does not look at."""
    return If(below(element("col", index(0)), index(5)), Block((s,)))


def no_tail(s: For) -> For:
    """The last, partial part of a row left out."""
    whole = map_expr(
        s.extent,
        lambda e: (
            floordiv(add(e.lhs, -3), e.rhs) if isinstance(e, Binary) and e.op is BinaryOp.FLOORDIV else e
        ),
    )
    return replace(s, extent=whole)


def elsewhere(array: str, at: Expr) -> Callable[[Expr], Expr]:
    """Reads of an array made to one element."""
    return lambda e: map_expr(
        e, lambda x: replace(x, indices=(at,)) if isinstance(x, Load) and x.buffer == array else x
    )


def first_row(s: Stmt) -> Stmt | None:
    """The loop over a row runs as long as the first row is."""
    if not isinstance(s, For) or not any(terms(s.extent)):
        return None
    return replace(s, extent=add(element("rowptr", index(1)), mul(element("rowptr", index(0)), -1)))


def data_loop(s: Stmt) -> bool:
    return isinstance(s, For) and any(terms(s.extent))


def data_guard(s: Stmt) -> bool:
    return isinstance(s, If) and any(terms(s.cond))


WRONG: dict[str, tuple[str, str, Change, str, Status]] = {
    "contributions under another condition on data": (
        SPMV, BY_THREAD, contribution(some_columns), "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "partials combined under a condition on data": (
        SPMV, BY_WARP,
        lambda s: some_columns(s) if isinstance(s, For) and s.kind.is_combine else None,
        "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "a result stored under a condition on data": (
        SPMV, BY_THREAD,
        lambda s: some_columns(s) if isinstance(s, Store) and s.buffer == "y" else None,
        "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "a gather under a condition on what it reads": (
        GATHER, "bind(i, grid.x)\n",
        only(Store, lambda s: If(below(element("idx", var("i")), index(5)), Block((s,)))),
        "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "the guard of the last part dropped": (
        SPMV, PARTS, lambda s: s.body.stmts if data_guard(s) else None, "E-COVERAGE", Status.REFUTED,
    ),
    "the last part dropped": (
        SPMV, PARTS, lambda s: no_tail(s) if isinstance(s, For) and any(terms(s.extent)) else None,
        "E-COVERAGE", Status.REFUTED,
    ),
    "one element too few": (
        SPMV, BY_THREAD,
        lambda s: replace(s, extent=add(s.extent, -1)) if data_loop(s) else None,
        "E-COVERAGE", Status.REFUTED,
    ),
    "as many as in another row": (SPMV, BY_THREAD, first_row, "E-COVERAGE", Status.UNKNOWN),
    "the first number of the row again and again": (
        SPMV, BY_THREAD,
        contribution(lambda s: replace(s, value=elsewhere("val", element("rowptr", R))(s.value))),
        "E-FLOW", Status.REFUTED,
    ),
    "the number after": (
        SPMV, BY_THREAD,
        contribution(lambda s: replace(s, value=elsewhere("val", element("rowptr", add(R, 1)))(s.value))),
        "E-BOUNDS", Status.REFUTED,
    ),
    "contributions twice": (
        SPMV, BY_BLOCK, contribution(lambda s: (s, s)), "E-REDUCTION", Status.REFUTED,
    ),
    "a sum that starts anew in each part": (
        SPMV, PARTS,
        lambda s: (
            replace(s, body=Block((Store("sum", (), Const(0.0, DType.F32)), *s.body.stmts)))
            if isinstance(s, For) and s.var == "k.i" else None
        ),
        "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "parts of a row by threads that all add to the sum": (
        SPMV, "bind(r, grid.x)\nsplit(k, 4)\nreorder([k.i, k.o])\n",
        lambda s: replace(s, kind=LoopKind.THREAD_X) if isinstance(s, For) and s.var == "k.i" else None,
        "E-REDUCTION", Status.REFUTED,
    ),
    "another element gathered": (
        GATHER, "bind(i, grid.x)\n",
        only(Store, lambda s: replace(s, value=elsewhere("idx", index(0))(s.value))),
        "E-FLOW", Status.REFUTED,
    ),
    "gathered from one further": (
        GATHER, "bind(i, grid.x)\n",
        only(Store, lambda s: replace(s, value=elsewhere("x", add(element("idx", var("i")), 1))(s.value))),
        "E-EXPR", Status.REFUTED,
    ),
    "gathered without the list": (
        GATHER, "bind(i, grid.x)\n",
        only(Store, lambda s: replace(s, value=elsewhere("x", var("i"))(s.value))),
        "E-EXPR", Status.REFUTED,
    ),
    "as many as another list says": (
        TWO_LISTS, "bind(r, grid.x)\n",
        lambda s: (
            replace(s, extent=map_expr(s.extent, lambda e: (
                replace(e, buffer="other") if isinstance(e, Load) else e
            ))) if data_loop(s) else None
        ),
        "E-COVERAGE", Status.UNKNOWN,
    ),
    "gathered from another array": (
        TWO_LISTS, "bind(r, grid.x)\n",
        only(Store, lambda s: replace(s, value=map_expr(s.value, lambda e: (
            replace(e, buffer="x") if isinstance(e, Load) and e.buffer == "z" else e
        )))),
        "E-EXPR", Status.REFUTED,
    ),
    "a grid as long as data says": (
        SPMV, "",
        lambda s: (
            replace(s, kind=LoopKind.GRID_X, extent=add(element("rowptr", index(1)), var("rows")))
            if isinstance(s, For) and s.var == "r" else None
        ),
        "E-DATA-LOOP", Status.UNKNOWN,
    ),
    "a grid as long as data says, which premises know": (
        SPMV, "",
        lambda s: (
            replace(s, kind=LoopKind.GRID_X, extent=add(element("rowptr", index(0)), var("rows")))
            if isinstance(s, For) and s.var == "r" else None
        ),
        "E-GRID", Status.REFUTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proved(name: str) -> None:
    text, program, change, code, status = WRONG[name]
    found = verdict(text, program, change)
    assert found.status is status, found.diagnostics
    assert code in {d.code for d in found.diagnostics}


def test_bounds_are_not_read_for_rows_that_do_not_exist() -> None:
    """The guard of the last rows inside the loop over the row: too late for its bounds."""

    def inwards(s: Stmt) -> Stmt | None:
        if not isinstance(s, If) or any(terms(s.cond)):
            return None

        def late(x: Stmt) -> Stmt | None:
            if isinstance(x, For):
                return replace(x, body=Block((If(s.cond, x.body),)))
            return If(s.cond, Block((x,))) if isinstance(x, Store) else None

        return rewrite(s.body, late)

    found = verdict(SPMV, BY_THREAD, inwards)
    assert found.status is Status.REFUTED
    assert {d.code for d in found.diagnostics} == {"E-BOUNDS"}
    assert "read to know how often" in found.diagnostics[0].message


def test_barriers_in_a_loop_over_a_row_are_not_accepted() -> None:
    kernel = finish(scheduled(SPMV, BY_WARP))

    def waiting(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and any(terms(s.extent)):
            return replace(s, body=Block((Barrier(), *s.body.stmts)))
        return None

    assert not prove(source(SPMV), replace(kernel, body=rewrite(kernel.body, waiting))).proved


def test_other_premises_are_another_kernel() -> None:
    kernel = finish(scheduled(SPMV, BY_THREAD))
    fewer = replace(kernel, contents=kernel.contents[:1])
    found = prove(source(SPMV), fewer)
    assert [d.code for d in found.diagnostics] == ["E-SIGNATURE"]


@pytest.mark.parametrize("scope", ["register", "shared"])
def test_row_pointers_are_not_staged_under_the_loop_that_reads_them(scope: str) -> None:
    with pytest.raises(RefusedError) as caught:
        scheduled(SPMV, f"bind(r, grid.x)\nstage(rowptr, at=r, scope={scope})\n")
    assert caught.value.diagnostic.code == "E-WINDOW"


@pytest.mark.parametrize("space", [Space.REGISTER, Space.SHARED])
def test_copies_of_row_pointers_are_not_followed(space: Space) -> None:
    """What a copy holds is not what memory holds: the prover knows of no stores behind loop bounds."""

    def copied(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or s.var != "r":
            return None
        copies = tuple(
            Store("ends", (index(i),), Load("rowptr", (add(var("r"), i),), DType.I32)) for i in (0, 1)
        )
        here = Alloc(Buffer("ends", DType.I32, (index(2),), space))

        def from_copy(e: Expr) -> Expr:
            if isinstance(e, Load) and e.buffer == "rowptr":
                return Load("ends", (index(0 if e.indices == (var("r"),) else 1),), DType.I32)
            return e

        def bounded(x: Stmt) -> Stmt | None:
            return replace(x, extent=map_expr(x.extent, from_copy)) if data_loop(x) else None

        return replace(s, body=Block((here, *copies, *rewrite(s.body, bounded).stmts)))

    found = verdict(SPMV, "bind(r, grid.x)\n", copied)
    assert found.status is Status.UNKNOWN
    assert [d.code for d in found.diagnostics] == ["E-DATA-LOOP"]


def test_row_pointers_that_are_written_say_nothing() -> None:
    kernel = replace(source(SPMV), contents=())
    spoiled = Store("rowptr", (index(0),), Const(0, DType.I32))

    def also(s: Stmt) -> Stmt | None:
        return (
            replace(s, body=Block((spoiled, *s.body.stmts))) if isinstance(s, For) and s.var == "r" else None
        )

    writes = replace(kernel, body=rewrite(kernel.body, also))
    found = prove(kernel, finish(writes))
    assert found.status is Status.UNKNOWN
    assert "may change" in found.diagnostics[0].message


def test_what_is_read_anew_is_in_bounds_by_the_premise() -> None:
    """A number kept in a register first: the source makes no such copy, so its bounds need the premise."""

    def kept(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if not isinstance(s, Reduce) or s.origin is None:
            return None
        (number,) = [x for x in loads(s.value) if x.buffer == "val"]
        here = Load("number", (), DType.F32)
        later = replace(s, value=map_expr(s.value, lambda e: here if e == number else e))
        return Alloc(Buffer("number", DType.F32, (), Space.REGISTER)), Store("number", (), number), later

    assert verdict(SPMV, BY_THREAD, kept).proved
    known, kernel = source(SPMV), scheduled(SPMV, BY_THREAD)
    kernel = replace(kernel, body=rewrite(kernel.body, kept), contents=())
    found = prove(replace(known, contents=()), finish(kernel))
    assert [d.code for d in found.diagnostics] == ["E-BOUNDS"]


def test_an_instance_that_is_read_from_memory_pairs_the_right_reads() -> None:
    """The loop run backwards: the instance claimed reads rowptr, and those reads are not the source's own."""
    good = finish(apply_program(source(SPMV), parse(BY_THREAD)).kernel)

    def backwards(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.var == "k":
            last = sub(sub(s.extent, 1), var("k"))
            return replace(s, body=substitute_block(s.body, {"k": last}))
        return None

    target = replace(good, body=rewrite(good.body, backwards))
    assert prove(source(SPMV), target).proved

    def other_factor(e: Expr) -> Expr:
        return replace(e, buffer="x") if isinstance(e, Load) and e.buffer == "val" else e

    wrong = replace(target, body=rewrite(target.body, lambda s: _with_value(s, other_factor)))
    assert wrong != target
    assert prove(source(SPMV), wrong).status is not Status.PROVED


def _with_value(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt | None:
    return replace(s, value=map_expr(s.value, f)) if isinstance(s, Reduce) else None
