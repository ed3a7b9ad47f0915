"""Subscripts that a kernel asks for their sign may be missing: the premise does not say that none is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.features.extract import extract
from evolve.frontend.lift import Lifted
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Load, Select, index
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Alloc, Block, Buffer, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import rewrite
from evolve.legality.prove import prove
from evolve.scoring.estimated import EstimatedScorer, Executed
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.workload.infer import infer
from evolve.workload.structure import structure
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]
TEXT = """
__global__ void k(const float *w, const int *idx, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int t = idx[i];
        %s
    }
}
"""
ANY, NONE, MISSING = -(2**31), 0, -1
FORMS = {
    "y[i] = t >= 0 ? w[t] : 0.0f;": ANY,
    "y[i] = 0 <= t ? w[t] : 0.0f;": ANY,
    "y[i] = t < 0 ? 1.0f : w[t];": ANY,
    "y[i] = !(t < 0) ? w[t] : 0.0f;": ANY,
    "y[i] = t > -1 ? w[t] : (float)t;": ANY,
    "float v = 0.0f; if (t >= 0 && n > 3) v = w[t]; y[i] = v;": ANY,
    "float v = 2.0f; if (t < 0 || n < 3) v = 1.0f; else v = w[t]; y[i] = v;": ANY,
    "float s = 0.0f; for (int d = 0; d < 4; d++) if (idx[i] >= 0) s += w[idx[i] * 4 + d]; y[i] = s;": ANY,
    "y[i] = t != -1 ? w[t] : 0.0f;": MISSING,
    "y[i] = t == -1 ? 5.0f : w[t] * w[t];": MISSING,
    "y[i] = w[t];": NONE,
    "y[i] = (t >= 0 ? w[t] : 0.0f) + w[t];": NONE,
    "y[i] = t >= 0 ? 0.0f : w[t];": NONE,
    "y[i] = t >= -1 ? w[t] : 0.0f;": NONE,
    "y[i] = t != -2 ? w[t] : 0.0f;": NONE,
    "y[i] = t >= 0 || n > 5 ? w[t] : 0.0f;": NONE,
    "y[i] = t > n ? w[t] : 0.0f;": NONE,
    "y[i] = idx[n - 1] >= 0 ? w[t] : 0.0f;": NONE,
}


ENDS = {
    "y[i] = t < n ? w[t] : 0.0f;": ("n", "n"),
    "y[i] = t >= 0 && t <= n - 1 ? w[t] : 0.0f;": ("n", "n"),
    "y[i] = t < 0 || t >= 50 ? 0.0f : w[t];": ("50", "50"),
    "y[i] = 49 >= t ? w[t] : 0.0f;": ("50", "50"),
    "for (int d = 0; d < 4; d++) y[i * 4 + d] = t < n ? w[t * 4 + d] : 0.0f;": ("n * 4", "n"),
    "y[i] = t < n ? w[t] + w[2 * n - 1] : 0.0f;": None,
    "y[i] = t < n ? w[t] + w[n - 1] : 0.0f;": ("n", "n"),
    "y[i] = (t < n ? w[t] : 0.0f) + w[t];": None,
    "y[i] = t < n || t > 7 ? w[t] : 0.0f;": None,
    "y[i] = t < n - 9 ? w[t] : 0.0f;": None,
    "y[i] = t < i ? w[t] : 0.0f;": None,
}


@pytest.mark.parametrize("statement", ENDS)
def test_what_is_asked_to_lie_below_an_end_may_be_beyond_it(statement: str, lift_text: Lift) -> None:
    lifted = lift_text(TEXT % statement)
    (premise,) = lifted.kernel.contents
    expected = ENDS[statement]
    if expected is None:
        assert premise.end is None and premise.high != index(2**31)
        return
    assert premise.end is not None and premise.high == index(2**31)
    assert (print_expr(lifted.kernel.buffer("w").extents[0]), print_expr(premise.end)) == expected
    assert any("only those from 0, below" in n for n in lifted.notes)
    workload = infer(lifted)
    drawn = [structure(workload, s)["idx"].max() - evaluate(premise.end, s) for s in workload.check]
    assert max(drawn) == 0, "the first beyond the end is drawn"
    assert assert_same(lifted) > 3


@pytest.mark.parametrize("statement", FORMS)
def test_a_premise_says_no_more_than_the_text_needs(statement: str, lift_text: Lift) -> None:
    lifted = lift_text(TEXT % statement)
    (premise,) = lifted.kernel.contents
    assert premise.low == index(FORMS[statement])
    (note,) = (n for n in lifted.notes if n.startswith("idx holds"))
    assert {ANY: "of any sign", MISSING: "from -1", NONE: "from 0"}[FORMS[statement]] in note
    workload = infer(lifted)
    for sizes in (*workload.check, workload.timed[0] | {"n": 4096}):
        drawn = structure(workload, sizes)["idx"]
        assert drawn.min(initial=0) in (-1, 0) and (drawn < 0).any() <= (FORMS[statement] < 0)
    assert 1 / 16 < (drawn < 0).mean() < 1 / 4 or FORMS[statement] == NONE
    assert (drawn[drawn >= 0] > 0).any()


def test_the_lifted_kernel_is_the_text_where_subscripts_are_missing(lift_text: Lift) -> None:
    lines = list(FORMS)
    for line in (lines[0], lines[7], lines[9]):
        assert assert_same(lift_text(TEXT % line)) > 3


def ahead(kernel: Kernel) -> Kernel:
    """The kernel with its read of w before the question."""
    copy = Buffer("b", DType.F32, (), Space.REGISTER)

    def one(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or not isinstance(s.value, Select):
            return None
        chosen = replace(s, value=replace(s.value, then=Load("b", (), DType.F32)))
        return Block((Alloc(copy), Store("b", (), s.value.then), chosen))

    return replace(kernel, body=rewrite(kernel.body, one))


def test_what_reads_ahead_of_the_question_is_refused(lift_text: Lift) -> None:
    kernel = lift_text(TEXT % "y[i] = t >= 0 ? w[t] : 0.0f;").kernel

    refused = prove(kernel, finish(ahead(kernel)))
    assert not refused.proved and "E-BOUNDS" in {d.code for d in refused.diagnostics}


def test_programs_are_executed_with_subscripts_missing() -> None:
    text = TEXT % "y[i] = t < 0 ? 7.0f : w[t];"
    of = open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm"))
    program = "split(i, 128)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\nstage(idx, at=i.i, scope=register)"
    done = of.compile(parse(program))
    assert done.verdict == "PROVED"
    few = replace(of.task, workload=replace(of.task.workload, families=("normal",)))
    assert isinstance(EstimatedScorer(few).begin(done.payload), Executed)


def test_what_is_missing_is_not_counted_as_traffic(lift_text: Lift) -> None:
    lifted = lift_text(TEXT % "y[i] = t >= 0 ? w[t] : 0.0f;")
    at = {"n": 64, "w_size": 8}
    idx = np.full(64, -1, np.int32)
    assert _elements(lifted.kernel, at, idx) == 0
    idx[5], idx[6], idx[9] = 3, 3, 0
    assert _elements(lifted.kernel, at, idx) == 2
    beyond = lift_text(TEXT % "y[i] = t < 9 ? w[t] : 0.0f;").kernel
    idx[7], idx[8] = 8, 9
    assert _elements(beyond, {"n": 64}, idx) == 3


def _elements(kernel: Kernel, at: dict[str, int], idx: np.ndarray) -> float:
    """Distinct elements of w that are read."""
    (found,) = (b for b in extract(kernel, at, {"idx": idx}).buffers if b.buffer == "w")
    return found.read_elements
