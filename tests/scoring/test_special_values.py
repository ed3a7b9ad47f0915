"""NaNs, infinities and zeros of either sign, where comparisons decide and numerics are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.stmt import Reduce, Store
from evolve.ir.visit import leaves
from evolve.legality.verdict import Limits
from evolve.scoring.estimated import EstimatedScorer, Executed
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.workload.model import FAMILIES, SPECIALS

F = np.float32
Step = Callable[[F, F], F]
FORMS: dict[str, tuple[str, Step]] = {
    "greater": ("m = v > m ? v : m;", lambda m, v: v if v > m else m),
    "at_least": ("m = v >= m ? v : m;", lambda m, v: v if v >= m else m),
    "less": ("m = v < m ? v : m;", lambda m, v: v if v < m else m),
    "at_most": ("m = v <= m ? v : m;", lambda m, v: v if v <= m else m),
    "mine_greater": ("m = m > v ? m : v;", lambda m, v: m if m > v else v),
    "mine_at_most": ("m = m <= v ? m : v;", lambda m, v: m if m <= v else v),
    "turned": ("m = m < v ? v : m;", lambda m, v: v if m < v else m),
    "if_greater": ("if (v > m) m = v;", lambda m, v: v if v > m else m),
    "if_less": ("if (m >= v) { m = v; }", lambda m, v: v if m >= v else m),
    "unless": ("if (!(v <= m)) m = v;", lambda m, v: m if v <= m else v),
    "fmaxf": ("m = fmaxf(m, v);", lambda m, v: extreme(m, v, largest=True)),
    "fminf": ("m = fminf(v, m);", lambda m, v: extreme(m, v, largest=False)),
}
EACH: dict[str, Callable[[F], F]] = {
    "v < 0.0f ? -v : v": lambda v: F(-v) if v < 0 else v,
    "v > 0.0f ? v : 0.0f": lambda v: v if v > 0 else F(0),
    "fmaxf(v, 0.0f)": lambda v: extreme(v, F(0), largest=True),
    "v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v": lambda v: F(0) if v < 0 else F(1) if v > 1 else v,
    "fminf(fmaxf(v, -1.0f), 1.0f)": lambda v: extreme(extreme(v, F(-1), largest=True), F(1), largest=False),
}
ROWS, COLS = 96, 7
TEXT = """
__global__ void pick(const float *x, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        %s
    }
}
"""
LAUNCHED = "split(r, 32)\nbind(r.o, grid.x)\nbind(r.i, thread.x)"


def extreme(a: F, b: F, *, largest: bool) -> F:
    """What CUDA's fmaxf and fminf give: the other operand for a NaN; +0 is greater than -0."""
    if np.isnan(a):
        return b
    if np.isnan(b):
        return a
    if a == b:
        return b if np.signbit(a) == largest else a
    return a if (a > b) == largest else b


def looped(form: str) -> str:
    """A row's `form` of all its elements, beginning with the first."""
    return f"""float m = x[r * cols];
        for (int c = 1; c < cols; c++) {{
            float v = x[r * cols + c];
            {form}
        }}
        y[r] = m;"""


def inputs() -> NDArray[np.float32]:
    special = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, np.nan], F)
    x = np.random.default_rng(3).choice(special, (ROWS, COLS))
    x[0], x[1], x[2, 0] = np.nan, [0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0], np.nan
    return x


def bits(a: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bit patterns, all NaNs alike."""
    return np.where(np.isnan(a), F(np.nan), a).astype(F).view(np.uint32)


def executed(body: str, program: str, outputs: int) -> NDArray[np.float32]:
    """What a proved program computes of `inputs`, numerics being exact."""
    found = lift("k.cu", None, TEXT % body, exact=True)
    source = Source(found.kernel, found.original, found.no_wrap)
    done = compile_program(source, parse(program), Limits(numerics="exact"))
    assert done.module is not None, done.verdict.diagnostics
    rendered = render(done.module)
    (one,) = rendered.variants[0].launches
    host = compile_host(rendered.text, [one.kernel])
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("rows", "i32", ROWS), ScalarArg("cols", "i32", COLS))
    arrays = {"x": inputs().reshape(-1), "y": np.zeros(outputs, F)}
    launch = ConcreteLaunch(one.kernel, args, (ROWS // 32, 1, 1), (32, 1, 1))
    ran = execute(host, [launch], arrays, {"y"}, ExecOptions())
    assert not ran.findings, ran.findings[0]
    return np.asarray(ran.outputs["y"])


def test_under_exact_every_form_is_what_the_text_says() -> None:
    """All of them in one kernel, by the proved and rendered program."""
    x, loops = inputs(), []
    wanted = np.zeros((len(FORMS), ROWS), F)
    for k, (form, step) in enumerate(FORMS.values()):
        loops.append("{" + looped(form).replace("y[r]", f"y[{k} * rows + r]") + "}")
        for r in range(ROWS):
            m = x[r, 0]
            for v in x[r, 1:]:
                m = step(m, v)
            wanted[k, r] = m
    got = executed("\n".join(loops), LAUNCHED, wanted.size).reshape(wanted.shape)
    for k, name in enumerate(FORMS):
        np.testing.assert_array_equal(bits(got[k]), bits(wanted[k]), name)


def test_what_is_picked_of_one_value_is_what_the_text_says() -> None:
    x = inputs()[:, 0]
    body = "float v = x[r * 7];" + "".join(f"y[{k} * rows + r] = {e};" for k, e in enumerate(EACH))
    got = executed(body, LAUNCHED, len(EACH) * ROWS).reshape(len(EACH), ROWS)
    for k, (text, f) in enumerate(EACH.items()):
        np.testing.assert_array_equal(bits(got[k]), bits(np.array([f(v) for v in x], F)), text)


@pytest.mark.parametrize("name", FORMS)
def test_a_picked_maximum_is_one_under_the_other_contracts_and_says_so(name: str) -> None:
    text = TEXT % looped(FORMS[name][0])
    loose, exact = lift("k.cu", None, text), lift("k.cu", None, text, exact=True)
    said = [n for n in loose.notes if "no NaN is compared there" in n]
    reduced = [any(isinstance(x, Reduce) for x, _ in leaves(k.kernel.body)) for k in (loose, exact)]
    if name in ("fmaxf", "fminf"):
        assert reduced == [True, True] and not said
    elif name == "unless":
        # It takes a NaN: no maximum does.
        assert reduced == [False, False] and not said
    else:
        assert reduced == [True, False] and len(said) == 1
        assert ("minimum" in said[0]) == (name in ("less", "at_most", "if_less", "mine_at_most"))
    assert not any("no NaN" in n for n in exact.notes)


@cache
def problem(numerics: str, form: str = "greater") -> KernelProblem:
    text = TEXT % looped(FORMS[form][0])
    return open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm", numerics=numerics))


def test_a_fused_product_and_sum_stays_one_rounding() -> None:
    """As `s += v * v` it would be two, and is, under the other contracts."""
    text = TEXT % looped("m = fmaf(v, v, m);")
    kernels = [lift("k.cu", None, text, exact=e).kernel for e in (True, False)]
    assert [any(isinstance(x, Reduce) for x, _ in leaves(k.body)) for k in kernels] == [False, True]
    of = open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm", numerics="exact"))
    done = of.compile(parse(LAUNCHED))
    assert done.verdict == "PROVED"
    few = replace(of.task, workload=replace(of.task.workload, families=("normal",)))
    assert isinstance(EstimatedScorer(few).begin(done.payload), Executed)


@pytest.mark.parametrize("form", ["m = v > m ? v : m;", "m = fmaf(v, v, m);"])
def test_what_was_lifted_for_another_contract_is_no_source_of_exact_proofs(form: str) -> None:
    text = TEXT % looped(form)
    for exact in (False, True):
        found = lift("k.cu", None, text, exact=exact)
        source = Source(found.kernel, found.original, found.no_wrap)
        done = compile_program(source, parse(LAUNCHED), Limits(numerics="exact"))
        assert (done.module is not None) == exact
        assert exact or done.verdict.diagnostics[0].code == "E-NUMERICS"
        assert compile_program(source, parse(LAUNCHED), Limits()).module is not None


def test_integers_are_picked_like_maxima() -> None:
    text = (TEXT % looped("m = v > m ? v : m;")).replace("float", "int")
    kernel = lift("k.cu", None, text, exact=True).kernel
    assert any(isinstance(x, Reduce) for x, _ in leaves(kernel.body))


def test_the_contract_decides_how_a_kernel_is_lifted_and_checked() -> None:
    exact, loose = problem("exact"), problem("reassociate")
    assert exact.task.workload.families == (*FAMILIES, SPECIALS)
    assert loose.task.workload.families == FAMILIES
    assert all(isinstance(x, Store) for x, _ in leaves(exact.task.source.kernel.body))
    assert any("no NaN is compared there" in a for a in loose.assumptions)
    assert not any("no NaN" in a for a in exact.assumptions)
    plain = TEXT % "y[r] = 2.0f * x[r * cols];"
    request = ProblemRequest("k.cu", plain, device="sim:h200-sxm", numerics="exact")
    assert open_problem(request).task.workload.families == FAMILIES


def test_its_own_list_of_families_stays_a_workload_s() -> None:
    text = TEXT % looped(FORMS["greater"][0])
    toml = 'numerics = "exact"\nfamilies = ["ones"]\n'
    request = ProblemRequest("k.cu", text, workload_text=toml, device="sim:h200-sxm")
    assert open_problem(request).task.workload.families == ("ones",)


def test_a_maximum_in_the_place_of_a_comparison_is_found_by_execution() -> None:
    """The prover's answer aside: fmaxf instead of a comparison gives other bits for NaNs only."""
    of, program = problem("exact"), parse(LAUNCHED)
    wrong = problem("reassociate").compile(program)
    assert wrong.verdict == "PROVED"
    few = replace(of.task, workload=replace(of.task.workload, families=("normal", SPECIALS)))
    found = EstimatedScorer(few).begin(wrong.payload)
    assert not isinstance(found, Executed) and "specials inputs" in found.message, found
    blind = replace(few, workload=replace(few.workload, families=("normal",)))
    assert isinstance(EstimatedScorer(blind).begin(wrong.payload), Executed)


def test_partial_maxima_begin_at_infinity_and_so_a_first_element_may_not_be_a_nan() -> None:
    text = TEXT % looped(FORMS["fmaxf"][0])
    program = "bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)"

    def verdict(kernel: str, numerics: str) -> tuple[str, set[str]]:
        request = ProblemRequest("k.cu", kernel, device="sim:h200-sxm", numerics=numerics)
        done = open_problem(request).compile(parse(program))
        return done.verdict, {d["code"] for d in done.diagnostics}

    assert verdict(text, "reassociate") == ("PROVED", set())
    assert verdict(text, "exact") == ("REFUTED", {"E-ORDER"})
    for first in ("-INFINITY", "-1e30f", "(float)rows"):
        assert verdict(text.replace("m = x[r * cols];", f"m = {first};"), "exact") == ("PROVED", set()), first
    for first in ("y[r]", "sqrtf(-2.0f)"):
        assert verdict(text.replace("m = x[r * cols];", f"m = {first};"), "exact")[0] != "PROVED", first
    request = ProblemRequest("k.cu", text, device="sim:h200-sxm", numerics="exact")
    in_turns = "bind(r, grid.x)\nsplit(c, 32)\nreorder([c.i, c.o])"
    assert open_problem(request).compile(parse(in_turns)).verdict == "PROVED"
