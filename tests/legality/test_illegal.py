"""Each program in `illegal/` is refused with its code; forced past the checker, most compute something wrong.

A file says in comments on its first lines: the kernel of `kernels/` that it is for, the code of the
refusal, and either sizes at which the forced result differs from the source, or why it is not run; and the
numerics contract, if another than the default is broken.
Forced results are run instance by instance (`tests.legality.brute`), which shares nothing with the prover.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from evolve.compiler.compile import Source, compile_program, finish
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits, Status
from evolve.transforms.apply import apply_program
from evolve.workload.model import Contract
from tests.legality.brute import same

HERE = Path(__file__).parent / "illegal"
KERNELS = HERE.parents[2] / "kernels"


@dataclass(frozen=True)
class Illegal:
    name: str
    kernel: str
    code: str
    wrong_at: dict[str, int] | None
    not_run: str | None
    text: str
    limits: Limits


def read(path: Path) -> Illegal:
    text = path.read_text()
    head = dict(x[2:].split(": ", 1) for x in text.splitlines() if x.startswith("# "))
    at = head.get("wrong at")
    sizes = {k: int(v) for k, v in (p.split("=") for p in at.split(", "))} if at else None
    contract = next(c for c in get_args(Contract) if c == head.get("numerics", "reassociate"))
    limits = Limits(numerics=contract)
    return Illegal(path.stem, head["kernel"], head["code"], sizes, head.get("not run"), text, limits)


ILLEGAL = [read(p) for p in sorted(HERE.glob("*.dsl"))]


@cache
def source(kernel: str) -> Source:
    lifted = lift(KERNELS / f"{kernel}.cu")
    return Source(lifted.kernel, lifted.original, lifted.no_wrap)


@pytest.mark.parametrize("case", ILLEGAL, ids=lambda c: str(c.name))
def test_refused_with_its_code(case: Illegal) -> None:
    compiled = compile_program(source(case.kernel), parse(case.text), case.limits)
    assert compiled.module is None and compiled.kernel is None
    assert compiled.verdict.status is Status.REFUTED
    assert compiled.verdict.diagnostics[0].code == case.code


@pytest.mark.parametrize("case", [c for c in ILLEGAL if c.wrong_at], ids=lambda c: str(c.name))
def test_forced_it_computes_something_else(case: Illegal) -> None:
    assert case.wrong_at is not None
    kernel = source(case.kernel).kernel
    forced = finish(apply_program(kernel, parse(case.text)).kernel)
    assert not same(kernel, forced, case.wrong_at)


def test_the_collection_is_wide() -> None:
    assert len(ILLEGAL) >= 40
    assert {c.kernel for c in ILLEGAL} == {p.stem for p in KERNELS.glob("*.cu")}
    assert len({c.code for c in ILLEGAL}) >= 15
    assert sum(c.wrong_at is not None for c in ILLEGAL) >= 30
    assert all((c.wrong_at is None) != (c.not_run is None) for c in ILLEGAL)
