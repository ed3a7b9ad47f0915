"""Conditions about what a kernel's statements are, where data decides and where it does not.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.ir.data import with_known_ends
from evolve.ir.expr import BinaryOp, Cast, Const, Expr, Select, compare, index, var
from evolve.ir.kernel import Contents, Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import SUM, DType, LoopKind, Space
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin
from tests.legality.edits import codes
from tests.legality.test_finding import scheduled
from tests.transforms.fixtures import segments

N, AT, FIRST = var("n"), var("i"), index(0)


def of(*body: Stmt, size: Expr = N, bins: bool = False) -> Kernel:
    """A kernel that reads `size` elements of x and writes those of y; `bins` holds numbers below it."""
    arrays = (buf("x", size), buf("y", size), Buffer("bins", DType.I32, (size,), Space.GLOBAL))
    contents = (Contents("bins", FIRST, size),) if bins else ()
    scalars = (Scalar("n", DType.I32, True),)
    return checked(Kernel("of", ("x", "y", "bins", "n"), arrays, scalars, Block(body), contents=contents))


def element(array: str, at: Expr) -> Cast:
    return Cast(ld(array, at, dtype=DType.I32), DType.INDEX)


def test_a_loop_does_not_run_as_often_as_says_what_nobody_wrote() -> None:
    count = Buffer("count", DType.I32, (index(1),), Space.REGISTER)
    add = Reduce("y", (FIRST,), SUM, ld("x", FIRST), origin("S0", "k"))
    k = of(Alloc(count), loop("k", element("count", FIRST), add))
    assert codes(prove(k, k)) == {"E-DATA-LOOP"}


def test_partials_are_combined_where_it_is_known() -> None:
    """Two cells are told the same; memory names the one that is, and may name either."""
    cells = (FIRST, index(1))
    own = [Reduce("y", (at,), SUM, ld("x", FIRST), origin(f"S{n}")) for n, at in enumerate(cells)]
    source = of(*own, size=index(2), bins=True)
    parts: list[Stmt] = []
    for n, s in enumerate(own):
        parts += (Alloc(buf(f"part{n}", space=Space.REGISTER)), Store(f"part{n}", (), Const(-0.0, F32)))
        parts.append(replace(s, buffer=f"part{n}", indices=()))

    def target(*where: Expr) -> Kernel:
        end = (Reduce("y", (at,), SUM, ld(f"part{n}")) for n, at in enumerate(where))
        return of(*parts, *end, size=index(2), bins=True)

    assert prove(source, target(*cells)).proved
    assert "E-NONAFFINE" in codes(prove(source, target(element("bins", FIRST))))


def test_a_witness_names_a_thread_that_there_is() -> None:
    """What all threads of a block do alike is done by as many as it has."""
    source = of(loop("i", index(64), Store("y", (AT,), ld("x", AT), origin("S0", "i"))), size=index(64))
    (nest,) = source.body.stmts
    assert isinstance(nest, For)
    idle = (
        Alloc(buf("t", index(1), space=Space.SHARED)),
        Alloc(buf("r", space=Space.REGISTER)),
        Store("t", (FIRST,), ld("x", FIRST)),
        Store("r", (), ld("t", FIRST)),
    )
    target = of(*idle, replace(nest, kind=LoopKind.THREAD_X), size=index(64))
    (race,) = prove(source, target).diagnostics
    named = re.search(r"thread 0 writes t\[0\], which thread (\S+) reads", race.witness or "")
    assert race.code == "E-RACE" and named is not None
    assert 1 <= int(named[1]) < 64


@pytest.mark.parametrize("first", [True, False])
def test_a_side_that_is_not_taken_reads_nothing(first: bool) -> None:
    """Every thread names the cell of the first one, which alone reads it."""
    is_first, own = compare(BinaryOp.LT, AT, 1), compare(BinaryOp.GE, AT, 1)
    there, here = ld("y", FIRST), ld("x", AT)
    value = Select(is_first, there, here, F32) if first else Select(own, here, there, F32)
    body = Store("y", (AT,), value, origin("S0", "i"))
    source = of(loop("i", N, body, kind=LoopKind.PARALLEL))
    assert prove(source, finish(source)).proved


def test_what_is_read_on_one_side_and_again_is_there_for_both() -> None:
    kept = Alloc(buf("t", space=Space.REGISTER))
    own = Store("t", (), ld("x", AT), origin("S0", "i"))
    later = compare(BinaryOp.GE, AT, 1)
    value = op(BinaryOp.ADD, Select(later, ld("t"), Const(0.0, F32), F32), ld("t"))
    use = Store("y", (AT,), value, origin("S1", "i"))
    source = of(loop("i", N, kept, own, use))
    assert prove(source, source).proved
    some = of(loop("i", N, kept, If(later, Block((own,))), use))
    assert codes(prove(source, some)) == {"E-UNINIT"}


def test_what_is_searched_is_what_is_said_to_be_in_order() -> None:
    """Nothing is known of `start`, where the search is, though something of another array is."""
    source, target = segments(), with_known_ends(scheduled("balance(k, by=start)"))
    (known,) = source.contents
    idle = Buffer("idle", DType.I32, (), Space.REGISTER)
    read = (Alloc(idle), Store("idle", (), ld("other", FIRST, dtype=DType.I32)))
    beside = rewrite(target.body, lambda s: (*read, s) if isinstance(s, Reduce) else None)

    def codes_under(*contents: Contents) -> set[str]:
        more = replace(source.buffer("start"), name="other")

        def of_them(k: Kernel) -> Kernel:
            more_too = replace(k, params=("other", *k.params), buffers=(more, *k.buffers))
            return replace(more_too, contents=contents)

        return codes(prove(of_them(source), of_them(target)))

    some, other = replace(known, nondecreasing=False), replace(known, buffer="other")
    target = replace(target, body=beside)
    assert codes_under(known) == set()
    for contents in ((some,), (other, some)):
        assert codes_under(*contents) == {"E-DATA-LOOP"}
