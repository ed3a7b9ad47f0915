"""From a kernel file through a program to executed CUDA, against the reference of the lifted kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.reference_runtime import TOLERANCE_FACTOR
from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.dsl.parser import parse
from evolve.frontend.lift import Lifted, lift
from evolve.ir.expr import TRUE, conjunction
from evolve.ir.kernel import Module, Variant
from evolve.legality.barriers import place
from evolve.toolchain.nvrtc import compile_cuda
from evolve.transforms.apply import apply_program
from tests.codegen.test_reference import reference
from tests.transforms.programs import PROGRAMS

KERNELS = Path(__file__).parents[2] / "kernels"
RNG = np.random.default_rng(3)

ELEMENTWISE = PROGRAMS["vecadd"].replace("specialize(n % 4 == 0)\nvectorize(i.i.i, 4)", "unroll(i.i.i)")
GELU = PROGRAMS["vecadd"].replace("(i", "(idx").replace("n %", "count %")
LAYERNORM = PROGRAMS["layernorm"].replace("row,", "r,").replace("at=row", "at=r")

STENCIL = (KERNELS / "programs" / "stencil.dsl").read_text()
WINDOW = STENCIL.replace(
    "vectorize(", "t = stage(x, at=j.o.i, scope=register, align=4)\nvectorize(t.1, 4)\nvectorize("
)
TAIL = PROGRAMS["vecadd"].replace("specialize(n % 4 == 0)\n", "")
HINTS = "cache_hint(x, read_only)\ncache_hint(y, streaming)\n"
EDGES: list[dict[str, int | float]] = [
    {"rows": 2, "cols": 4}, {"rows": 3, "cols": 4}, {"rows": 19, "cols": 8}, {"rows": 33, "cols": 516},
]  # fmt: skip

CASES: list[tuple[str, str, list[dict[str, int | float]]]] = [
    ("vecadd", PROGRAMS["vecadd"], [{"n": 4}, {"n": 2052}]),
    ("vecadd", TAIL, [{"n": 1}, {"n": 7}, {"n": 2051}]),
    ("stencil", STENCIL + HINTS, EDGES),
    ("stencil", WINDOW, EDGES),
    ("stencil3x3", (KERNELS / "programs" / "stencil3x3.dsl").read_text(), EDGES),
    ("stencil", "stencil_vectors(i, j, rows=3, threads=5, beside=2, width=2)\n", EDGES),
    ("vecadd", ELEMENTWISE, [{"n": 1}, {"n": 1031}]),
    ("saxpy", ELEMENTWISE, [{"n": 7, "alpha": -1.25}, {"n": 2049, "alpha": 3.0}]),
    ("gelu", GELU, [{"count": 8}, {"count": 1028}]),
    ("softmax", PROGRAMS["softmax"], [{"rows": 1, "cols": 8192}, {"rows": 3, "cols": 8192}]),
    ("softmax", PROGRAMS["softmax_warp"], [{"rows": 1, "cols": 1024}, {"rows": 9, "cols": 1024}]),
    ("layernorm", LAYERNORM, [{"rows": 2, "cols": 8192}]),
    ("transpose", PROGRAMS["transpose"], [{"rows": 1, "cols": 1}, {"rows": 45, "cols": 70}]),
    ("transpose", PROGRAMS["transpose4"], [{"rows": 64, "cols": 128}]),
    ("matmul", PROGRAMS["matmul"], [{"M": 128, "N": 256, "K": 32}]),
]


def module_of(lifted: Lifted, program: str) -> Module:
    kernel = place(apply_program(lifted.kernel, parse(program)).kernel)
    k = lifted.kernel
    guard = conjunction(lifted.no_wrap)
    return Module((Variant(guard, (kernel,)),), lifted.original, k.params, k.buffers, k.scalars)


def shapes_of(lifted: Lifted, scalars: dict[str, int | float]) -> dict[str, tuple[int, ...]]:
    from evolve.ir.evaluate import evaluate

    return {b.name: tuple(int(evaluate(e, scalars)) for e in b.extents) for b in lifted.kernel.buffers}


def written(lifted: Lifted) -> set[str]:
    from evolve.ir.visit import leaves

    globals_ = {b.name for b in lifted.kernel.buffers}
    return {leaf.buffer for leaf, _ in leaves(lifted.kernel.body)} & globals_


def check(
    lifted: Lifted, rendered: Rendered, scalars: dict[str, int | float], variant: int, cache: Path
) -> None:
    arrays = {n: RNG.normal(size=shape).astype(np.float32) for n, shape in shapes_of(lifted, scalars).items()}
    chosen, launches = concretise(rendered, scalars)
    assert chosen == variant
    program = compile_host(rendered.text, list(rendered.signatures), cache)
    outputs = written(lifted)
    options = ExecOptions(orders=("forward", "permuted"), inout=frozenset(outputs))
    done = execute(program, launches, arrays, outputs, options)
    assert done.findings == ()
    values, errors = reference(lifted.kernel, arrays, scalars, cache)
    for name in outputs:
        # Where the kernel does not write, the value is the old one and the error is zero.
        assert np.all(np.abs(done.outputs[name] - values[name]) <= TOLERANCE_FACTOR * errors[name]), name


@pytest.mark.parametrize(("file", "program", "sizes"), CASES)
def test_program(file: str, program: str, sizes: list[dict[str, int | float]], cache: Path) -> None:
    lifted = lift(KERNELS / f"{file}.cu")
    rendered = render(module_of(lifted, program))
    done = compile_cuda(rendered.text)
    assert done.ok, done.log
    for scalars in sizes:
        check(lifted, rendered, scalars, 0, cache)


SMALL: dict[str, dict[str, int | float]] = {
    "column_sum": {"rows": 5, "cols": 67},
    "gelu": {"count": 300},
    "layernorm": {"rows": 3, "cols": 37},
    "matmul": {"M": 17, "N": 18, "K": 5},
    "row_sum": {"rows": 3, "cols": 41},
    "saxpy": {"n": 257, "alpha": 0.5},
    "softmax": {"rows": 5, "cols": 33},
    "stencil": {"rows": 9, "cols": 21},
    "transpose": {"rows": 19, "cols": 5},
    "vecadd": {"n": 513},
}


@pytest.mark.parametrize("file", sorted(SMALL))
def test_every_example_as_it_stands_agrees_with_its_reference(file: str, cache: Path) -> None:
    lifted = lift(KERNELS / f"{file}.cu")
    k = lifted.kernel
    scalars = {s.name: SMALL[file][s.name] for s in k.scalars}
    rendered = render(Module((), lifted.original, k.params, k.buffers, k.scalars))
    done = compile_cuda(rendered.text)
    assert done.ok, done.log
    check(lifted, rendered, scalars, -1, cache)


@pytest.mark.parametrize("file", ["vecadd", "softmax", "transpose"])
def test_an_unscheduled_kernel_renders_and_runs(file: str, cache: Path) -> None:
    """Nothing is bound: one thread does it all, slowly and rightly."""
    lifted = lift(KERNELS / f"{file}.cu")
    k = lifted.kernel
    module = Module(
        (Variant(TRUE, (replace(k, name=f"{k.name}_serial"),)),),
        lifted.original,
        k.params,
        k.buffers,
        k.scalars,
    )
    check(lifted, render(module), SMALL[file], 0, cache)


def test_hints_are_intrinsics_of_the_width_of_the_access() -> None:
    lifted = lift(str(KERNELS / "stencil.cu"))
    text = render(module_of(lifted, STENCIL + HINTS)).text
    assert "__ldg(reinterpret_cast<const float4*>(&x[" in text
    assert "__stcs(reinterpret_cast<float4*>(&y[" in text
    assert "__stcs(&y[" in text
    assert "= *reinterpret_cast" not in text
