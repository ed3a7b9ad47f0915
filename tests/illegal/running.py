"""Kernels in IR run thread by thread on the host, whether or not anything was proved about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise_variant
from evolve.compiler.compile import Source
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.ir.errors import EvolveError
from evolve.ir.expr import TRUE
from evolve.ir.kernel import Kernel, Module, Variant
from evolve.ir.launches import launches
from tests.illegal.lifted import Workload

ORDERS = ("forward", "reversed", "permuted")
TOLERANCE = 2e-4
"""Relative to the largest output: far above float32 rounding here, far below a lost or doubled value."""


@dataclass(frozen=True)
class Outcome:
    """What execution showed.

    symptoms   kinds of finding, `wrong` for a value that differs, `order` for one that depends on the
               order of threads, `unlaunchable` for a launch no device accepts, `unrendered` when code
               generation refuses, `uncompilable` when the compiler refuses what it emitted
    detail     the first of each in words
    """

    symptoms: frozenset[str]
    detail: str

    @property
    def clean(self) -> bool:
        return not self.symptoms


def run_kernel(source: Source, kernel: Kernel, work: Workload, cache: Path) -> Outcome:
    """Renders and runs one scheduled kernel at the workload's sizes; its guard is not asked."""
    k = source.kernel
    module = Module((Variant(TRUE, launches(kernel)),), source.original, k.params, k.buffers, k.scalars)
    try:
        rendered = render(module)
    except EvolveError as e:
        return Outcome(frozenset(("unrendered",)), str(e))
    try:
        program = compile_host(rendered.text, list(rendered.signatures), cache)
    except EvolveError as e:
        return Outcome(frozenset(("uncompilable",)), str(e))
    made = concretise_variant(rendered, 0, work.scalars)
    options = ExecOptions(
        orders=ORDERS, inout=work.kept, time_limit_s=10.0, quantum=2_000_000, memory_limit_mb=1024
    )
    found: dict[str, str] = {}
    if not made:
        outputs = {n: work.arrays[n] for n in work.outputs}
        if any(work.outputs - work.kept):
            return Outcome(frozenset(("wrong",)), "nothing is launched")
        found |= _compare(outputs, work)
        return Outcome(frozenset(found), "; ".join(found.values()))
    try:
        done = execute(program, made, work.arrays, set(work.outputs), options)
    except EvolveError as e:
        if e.code != "sim.launch":
            raise
        return Outcome(frozenset(("unlaunchable",)), str(e))
    for f in done.findings:
        found.setdefault(f.kind, f.message)
    unsteady = [n for n in done.order_sensitive if n not in rendered.variants[0].rounded]
    if unsteady:
        found["order"] = f"{', '.join(unsteady)} depend on the order of threads"
    found |= _compare(done.outputs, work)
    return Outcome(frozenset(found), "; ".join(found.values()))


def _compare(outputs: dict[str, np.ndarray], work: Workload) -> dict[str, str]:
    for name, wanted in work.wanted.items():
        got = outputs[name].astype(np.float64)
        scale = float(np.abs(wanted).max()) or 1.0
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(got - wanted) <= TOLERANCE * scale)
        if bad.any():
            at = tuple(int(x) for x in np.argwhere(bad)[0])
            return {"wrong": f"{name}{list(at)} is {got[at]}, should be {wanted[at]}"}
    return {}
