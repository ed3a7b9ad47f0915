"""Every illegal program is refused for its reason, and is wrong indeed when forced past the refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.codegen.module import render_kernel
from evolve.compiler.compile import compile_program
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.verify import MalformedKernelError
from evolve.legality.verdict import Limits, Status
from evolve.target.limits import occupancy
from evolve.target.profile import load_profile
from tests.illegal.forcing import force, forgiving
from tests.illegal.lifted import TEN, source, workload
from tests.illegal.programs import Illegal, programs
from tests.illegal.running import Outcome, run_kernel

PROGRAMS = programs()
SHOWN = [p for p in PROGRAMS if p.shown_by]
NOT_SHOWN = [p for p in PROGRAMS if p.not_shown]

NOTHING_TO_RUN = (AttributeError, KeyError, TypeError, ValueError, StopIteration, MalformedKernelError)
"""How a transform ends that goes on where it has nothing to go on with."""


def named(p: Illegal) -> str:
    return p.id


def forced(p: Illegal, cache: Path) -> Outcome:
    """The program run with refusals passed over. Raises what stops it from becoming a kernel."""
    src = source(p.kernel)
    with forgiving(p.passed_over):
        kernel = force(src.kernel, parse(p.text))
        if "too-large" in p.shown_by:
            (launch,) = render_kernel(kernel)[1].launches
            held = occupancy(load_profile("h200-sxm"), 32, launch.shared_bytes, launch.threads or 1)
            return Outcome(frozenset((held.limiter,)), f"{launch.shared_bytes} bytes of shared memory")
        return run_kernel(src, kernel, workload(p.kernel, p.sizes), cache)


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 40
    assert {p.kernel for p in PROGRAMS} >= set(TEN)
    assert len({p.refused for p in PROGRAMS}) >= 15
    assert len(SHOWN) >= 30
    assert len({p.id for p in PROGRAMS}) == len(PROGRAMS)


@pytest.mark.parametrize("p", PROGRAMS, ids=named)
def test_is_refused_with_its_code(p: Illegal) -> None:
    compiled = compile_program(source(p.kernel), parse(p.text), Limits())
    assert compiled.verdict.status is not Status.PROVED
    assert compiled.module is None
    assert compiled.verdict.diagnostics[0].code == p.refused, compiled.verdict.diagnostics


@pytest.mark.parametrize("p", SHOWN, ids=named)
def test_is_wrong_when_forced(p: Illegal, cache: Path) -> None:
    out = forced(p, cache)
    assert out.symptoms >= p.shown_by, out


@pytest.mark.parametrize("p", NOT_SHOWN, ids=named)
def test_shows_nothing_as_its_head_says(p: Illegal, cache: Path) -> None:
    try:
        out = forced(p, cache)
    except (RefusedError, *NOTHING_TO_RUN):
        return
    assert out.clean or out.symptoms == {"unrendered"}, out
