"""Values computed where they are needed instead of kept: what is right is proved, nearly right is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, add, compare, index, sub, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Barrier, Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import SUM, DType, LoopKind, Space
from evolve.ir.visit import loads, map_block_exprs, map_expr, rewrite, variables
from evolve.legality.prove import prove
from evolve.legality.verdict import Status, Verdict
from tests.kernels_ir import buf, checked, ld, origin
from tests.kernels_ir import loop as nested
from tests.legality.changed import Change, source, target, verdict

BLUR = """
__global__ void blur(const float *x, float *y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float h[34];
  for (int k = 0; k < 34; ++k)
    h[k] = 0.25f * x[r * 35 + k] + 0.75f * x[r * 35 + k + 1];
  for (int c = 0; c < 32; ++c)
    y[r * 32 + c] = 0.5f * h[c] + 0.5f * h[c + 2];
}
"""
SUMS = """
__global__ void sums(const float *x, float *y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float h[10];
  for (int k = 0; k < 10; ++k) {
    float s = 0.0f;
    for (int j = 0; j < n; ++j)
      s += x[(r * 10 + k) * n + j];
    h[k] = s;
  }
  for (int c = 0; c < 8; ++c)
    y[r * 8 + c] = h[c] * h[c + 2];
}
"""
MEAN = """
__global__ void centred(const float *x, float *y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < cols; ++c)
    sum += x[r * cols + c];
  float mean = sum / cols;
  for (int c = 0; c < cols; ++c)
    y[r * cols + c] = x[r * cols + c] - mean;
}
"""
TWICE = """
__global__ void twice(const float *x, float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float t[2];
  t[0] = x[i];
  t[1] = x[i] * 3.0f;
  y[i] = t[0];
  t[0] = x[i] * 2.0f;
  z[i] = t[0] + t[1];
}
"""
SELECTED = """
__global__ void selected(const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float t[16];
  for (int k = 0; k < 16; ++k)
    t[k] = k < 8 ? x[r * 16 + k] : x[r * 16 + 15 - k];
  for (int c = 0; c < 16; ++c)
    y[r * 16 + c] = t[c] > 0.0f ? t[15 - c] : 0.0f;
}
"""
WINDOW = "split(c, 8)\nw = compute_at(h, at=c.o)\n"
THREADS = f"{WINDOW}bind(r, grid.x)\nbind(c.o, thread.x)\n"
SHARED = (
    "split(c, 8)\nw = compute_at(h, at=c.o, scope=shared)\nbind(r, grid.x)\n"
    "bind(w.0, thread.x)\nbind(c.i, thread.x)\n"
)
BLOCKS = (
    "split(c, 8)\nbind(r, grid.y)\nw = compute_at(h, at=c.o, scope=shared)\nbind(c.o, grid.x)\n"
    "bind(w.0, thread.x)\nbind(c.i, thread.x)\n"
)
EACH = "split(c, 4)\nw = compute_at(h, at=c.o)\n"


def codes(found: Verdict) -> set[str]:
    assert found.status is not Status.PROVED
    return {d.code for d in found.diagnostics}


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (BLUR, "inline(h)"),
        (BLUR, "split(k, 2)\ninline(h)\nsplit(c, 8)\nbind(c.o, thread.x)"),
        (BLUR, WINDOW),
        (BLUR, THREADS),
        (BLUR, SHARED),
        (BLUR, BLOCKS),
        (BLUR, "split(k, 17)\nsplit(c, 5)\ncompute_at(h, at=c.o)"),
        (SUMS, EACH),
        (SUMS, f"{EACH}bind(r, grid.x)\nbind(c.o, thread.x)"),
        (MEAN, "inline(mean)"),
        (MEAN, "compute_at(mean, at=c_2)"),
        (MEAN, "inline(mean)\ncompute_at(sum, at=c_2)"),
        (SELECTED, "inline(t)"),
    ],
)
def test_is_proved(text: str, program: str) -> None:
    found = verdict(text, program)
    assert found.status is Status.PROVED, found.diagnostics


def loop(name: str, extent: int) -> Change:
    """A loop made longer or shorter."""
    return lambda s: replace(s, extent=index(extent)) if isinstance(s, For) and s.var == name else None


def value(buffer: str, f: Callable[[Expr], Expr]) -> Change:
    """What is stored or added into a buffer, each part changed."""

    def change(s: Stmt) -> Stmt | None:
        if isinstance(s, Store | Reduce) and s.buffer == buffer:
            return replace(s, value=map_expr(s.value, f))
        return None

    return change


def mirrored(buffer: str, last: Expr | int) -> Callable[[Expr], Expr]:
    """Loads of a buffer, the last subscript counted from the end."""

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == buffer:
            return replace(e, indices=(*e.indices[:-1], sub(last, e.indices[-1])))
        return e

    return one


def shifted(buffer: str, by: int) -> Callable[[Expr], Expr]:
    """Loads of a buffer, the last subscript moved."""

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == buffer:
            return replace(e, indices=(*e.indices[:-1], add(e.indices[-1], by)))
        return e

    return one


def other_weight(e: Expr) -> Expr:
    return replace(e, value=0.125) if isinstance(e, Const) and e.value == 0.25 else e


def other_row(e: Expr) -> Expr:
    return (
        replace(e, indices=(e.indices[0], sub(9, e.indices[1]), e.indices[2])) if isinstance(e, Load) else e
    )


def shorter(name: str) -> Change:
    """A loop without its last iteration."""
    return lambda s: replace(s, extent=sub(s.extent, 1)) if isinstance(s, For) and s.var == name else None


def swapped(e: Expr) -> Expr:
    minus = isinstance(e, Binary) and e.op is BinaryOp.SUB and e.dtype.is_float
    return replace(e, lhs=e.rhs, rhs=e.lhs) if minus and isinstance(e, Binary) else e


def without(what: Callable[[Stmt], bool]) -> Change:
    return lambda s: () if what(s) else None


def unrolled_once(right: bool) -> Change:
    """h[k] from h[k - 2], the step between computed again, of x[k - 1] or, wrong, of x[k] once more."""

    def of(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or "k.main" not in variables(s.value):
            return None
        last = leaves_of(s.value, "h")[0]
        before = replace(last, indices=(sub(last.indices[0], index(1)),))
        again = map_expr(s.value, lambda e: before if e == last else e)
        if right:
            given = leaves_of(s.value, "x")[0]
            earlier = replace(given, indices=(given.indices[0], sub(given.indices[1], index(1))))
            again = map_expr(again, lambda e: earlier if e == given else e)
        return replace(s, value=map_expr(s.value, lambda e: again if e == last else e))

    return of


def leaves_of(e: Expr, buffer: str) -> list[Load]:
    return [x for x in loads(e) if x.buffer == buffer]


RECURRENCE = """
__global__ void k(const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float h[16];
  h[0] = x[r * 16];
  for (int k = 1; k < 16; ++k) h[k] = x[r * 16 + k] + 2.0f * h[k - 1];
  for (int c = 0; c < 16; ++c) y[r * 16 + c] = h[c];
}
"""


@pytest.mark.parametrize("right", [True, False])
def test_a_step_computed_again_is_one_of_another_instance(right: bool) -> None:
    """Both steps are of one statement of the source: what the inner one reads is looked at too."""
    found = verdict(RECURRENCE, "peel(k, first=1)", unrolled_once(right))
    assert found.proved if right else codes(found) & {"E-FLOW", "E-EXPR"}


WRONG: dict[str, tuple[str, str, Change, str]] = {
    "window one short": (BLUR, WINDOW, loop("w.0", 9), "E-UNINIT"),
    "window one long": (BLUR, WINDOW, loop("w.0", 11), "E-BOUNDS"),
    "window not filled": (BLUR, WINDOW, without(lambda s: isinstance(s, For) and s.var == "w.0"), "E-EXPR"),
    "window filled from the end": (BLUR, WINDOW, value("w", mirrored("x", 34)), "E-FLOW"),
    "window read one further": (BLUR, WINDOW, value("y", shifted("w", -1)), "E-BOUNDS"),
    "window with another weight": (BLUR, WINDOW, value("w", other_weight), "E-EXPR"),
    "another weight in place": (BLUR, "inline(h)", value("y", other_weight), "E-EXPR"),
    "another element in place": (BLUR, "inline(h)", value("y", mirrored("x", 34)), "E-FLOW"),
    "the mean taken off the other way": (MEAN, "inline(mean)", value("y", swapped), "E-EXPR"),
    "a sum that goes on": (
        SUMS,
        EACH,
        without(lambda s: isinstance(s, Store) and s.buffer == "s"),
        "E-UNINIT",
    ),
    "the sum of another row": (SUMS, EACH, value("s", other_row), "E-FLOW"),
    "a sum of fewer": (SUMS, EACH, shorter("j"), "E-COVERAGE"),
    "threads meet in a window": (BLUR, SHARED, without(lambda s: isinstance(s, Barrier)), "E-RACE"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_refused(name: str) -> None:
    text, program, change, code = WRONG[name]
    assert code in codes(verdict(text, program, change))


def test_a_reduction_computed_again_is_not_added_to_the_one_before() -> None:
    """The sum declared and set once for all windows: the second window would add to the first."""
    made = target(SUMS, EACH)
    taken: list[Stmt] = []

    def once(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        starts = isinstance(s, Store) and s.buffer == "s"
        if starts or (isinstance(s, Alloc) and s.buffer.name == "s"):
            taken.append(s)
            return ()
        if isinstance(s, For) and s.var == "c.o":
            start = next(x for x in taken if isinstance(x, Store))
            first = replace(start, origin=replace(start.origin, instance=(var("r"), index(0))))  # type: ignore[arg-type]
            return (*(x for x in taken if isinstance(x, Alloc)), first, s)
        return None

    wrong = replace(made, body=rewrite(made.body, once))
    assert codes(prove(source(SUMS), wrong)) & {"E-FLOW", "E-REDUCTION"}


def test_a_window_kept_for_the_next_iteration_is_not_filled_again() -> None:
    """Filled in the first iteration only, and read in all: what the others read is not what they need."""
    made = target(BLUR, WINDOW)

    def first_only(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or s.var != "c.o":
            return None
        alloc, fill, *rest = s.body.stmts
        assert isinstance(alloc, Alloc) and isinstance(fill, For)
        return Block((alloc, map_stmt(fill, lambda e: _zero(e, "c.o")), replace(s, body=Block(tuple(rest)))))

    assert "E-FLOW" in codes(prove(source(BLUR), replace(made, body=rewrite(made.body, first_only))))


def map_stmt(s: For, f: Callable[[Expr], Expr]) -> For:
    (out,) = map_block_exprs(Block((s,)), lambda e: map_expr(e, f)).stmts
    assert isinstance(out, For)
    return out


def _zero(e: Expr, name: str) -> Expr:
    return index(0) if e == var(name) else e


def test_what_everybody_sees_is_stored_once() -> None:
    """Each thread stores its part of y; by all threads of another axis too it would be stored twice."""
    made = target(BLUR, THREADS)

    def again(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.var == "c.o":
            return For("again", index(2), LoopKind.THREAD_Y, Block((s,)))
        return None

    assert codes(prove(source(BLUR), replace(made, body=rewrite(made.body, again)))) >= {"E-DUPLICATE"}


def test_stores_of_different_values_into_one_element_are_refused() -> None:
    """Windows of threads that overlap in memory that all see: each element has two authors."""
    made = target(BLUR, THREADS)

    def global_window(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, Alloc) and s.buffer.name == "w":
            return ()
        return None

    (alloc,) = (x for x in _allocs(made.body) if x.buffer.name == "w")
    scratch = Alloc(replace(alloc.buffer, space=Space.GLOBAL))
    body = Block((scratch, *rewrite(made.body, global_window).stmts))
    assert "E-RACE" in codes(prove(source(BLUR), replace(made, body=body)))


def _allocs(body: Block) -> list[Alloc]:
    found: list[Alloc] = []
    rewrite(body, lambda s: found.append(s) if isinstance(s, Alloc) else None)  # type: ignore[func-returns-value]
    return found


def test_the_store_that_a_read_finds_is_the_last_one() -> None:
    """Of two stores into one element, each expression is right for the readers after its store only."""
    made = source(TWICE)
    values: dict[int, Expr] = {}

    def known(s: Stmt) -> None:
        if isinstance(s, Store) and s.buffer == "t":
            values[len(values)] = s.value

    rewrite(made.body, known)
    for first, second, fine in ((0, 2, True), (0, 0, False), (2, 2, False), (1, 2, False)):

        def put(s: Stmt, first: int = first, second: int = second) -> Stmt | tuple[Stmt, ...] | None:
            if isinstance(s, Alloc) or (isinstance(s, Store) and s.buffer == "t"):
                return ()
            if isinstance(s, Store) and s.buffer == "y":
                return replace(s, value=values[first])
            if isinstance(s, Store):
                assert isinstance(s.value, Binary)
                return replace(s, value=replace(s.value, lhs=values[second], rhs=values[1]))
            return None

        found = prove(made, finish(replace(made, body=rewrite(made.body, put))))
        assert (found.status is Status.PROVED) == fine, (first, second, found.diagnostics)
        if not fine:
            assert "E-EXPR" in codes(found)


def test_a_store_that_is_needed_may_not_be_missing() -> None:
    found = verdict(MEAN, "split(c, 4)", without(lambda s: isinstance(s, Store) and s.buffer == "mean"))
    assert codes(found) == {"E-EXPR"}, "nothing says what is read there"


def test_contributions_may_not_be_missing_even_where_nobody_else_sees_them() -> None:
    assert "E-COVERAGE" in codes(verdict(MEAN, "inline(mean)", shorter("c")))


def test_a_sum_that_nobody_reads_any_more_still_has_a_start() -> None:
    kept = verdict(MEAN, "inline(mean)\ncompute_at(sum, at=c_2)")
    assert kept.status is Status.PROVED
    made = target(MEAN, "inline(mean)")

    def unread(e: Expr) -> Expr:
        return Load("other", (), e.dtype) if isinstance(e, Load) and e.buffer == "sum" else e

    def again(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        """All of the sum computed twice; what is read is the second."""
        if isinstance(s, Alloc) and s.buffer.name == "sum":
            return (s, Alloc(replace(s.buffer, name="other")))
        if isinstance(s, Store) and s.buffer == "sum":
            return (s, replace(s, buffer="other"))
        if isinstance(s, Reduce) and s.buffer == "sum":
            return (s, replace(s, buffer="other"))
        return value("y", unread)(s)

    twice = replace(made, body=rewrite(made.body, again))
    assert prove(source(MEAN), twice).status is Status.PROVED
    started = without(lambda s: isinstance(s, Store) and s.buffer == "sum")
    assert "E-UNINIT" in codes(prove(source(MEAN), replace(twice, body=rewrite(twice.body, started))))


def test_a_sum_is_no_expression() -> None:
    """Its contributions in place of its value: the mean of one element."""
    made = target(MEAN, "inline(mean)")

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "sum":
            return Load("x", (var("r"), var("c_2")), e.dtype)
        return e

    wrong = replace(made, body=rewrite(made.body, value("y", one)))
    assert "E-EXPR" in codes(prove(source(MEAN), wrong))


def of_rows(*body: Stmt) -> Kernel:
    """A thread for each row of x, which is stored into y in the end."""
    rows, cols = var("rows"), var("cols")
    arrays, nest = (buf("x", rows, cols), buf("y", rows)), nested("r", rows, *body, kind=LoopKind.PARALLEL)
    sizes = (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True))
    return checked(Kernel("of_rows", ("x", "y", "rows", "cols"), arrays, sizes, Block((nest,))))


def with_result(k: Kernel, value: Expr) -> Kernel:
    """Another value stored into y, everything else as it is."""

    def one(s: Stmt) -> Stmt | None:
        return replace(s, value=value) if isinstance(s, Store) and s.buffer == "y" else None

    return finish(replace(k, body=rewrite(k.body, one)))


def test_what_was_added_since_belongs_to_a_value() -> None:
    """The store that is found is not all of it, whoever else adds the rest."""
    first, second = (ld("x", var("r"), index(c)) for c in (0, 1))
    k = of_rows(
        Alloc(buf("t", space=Space.REGISTER)),
        Store("t", (), first, origin("S0", "r")),
        Reduce("t", (), SUM, second, origin("S1", "r")),
        Store("y", (var("r"),), ld("t"), origin("S2", "r")),
    )
    assert prove(k, finish(k)).proved
    assert codes(prove(k, with_result(k, first))) == {"E-EXPR"}


def test_a_value_handed_on_without_end_is_not_followed() -> None:
    """Two registers take turns in keeping it, as often as a size says: right, and more than is looked for."""
    first = ld("x", var("r"), index(0))
    k = of_rows(
        *(Alloc(buf(name, space=Space.REGISTER)) for name in "tu"),
        Store("u", (), first, origin("S0", "r")),
        nested(
            "k",
            var("cols"),
            Store("t", (), ld("u"), origin("S1", "r", "k")),
            Store("u", (), ld("t"), origin("S2", "r", "k")),
        ),
        Store("y", (var("r"),), ld("u"), origin("S3", "r")),
    )
    assert prove(k, finish(k)).proved
    assert codes(prove(k, with_result(k, first))) == {"E-EXPR"}


def test_what_may_be_read_before_it_is_stored_is_no_expression() -> None:
    """The first row has no value there: nothing says what the source stores for it."""
    first = ld("x", var("r"), index(0))
    k = of_rows(
        Alloc(buf("t", space=Space.REGISTER)),
        If(compare(BinaryOp.GT, var("r"), 0), Block((Store("t", (), first, origin("S0", "r")),))),
        Store("y", (var("r"),), ld("t"), origin("S1", "r")),
    )
    assert codes(prove(k, with_result(k, first))) == {"E-EXPR"}
