"""The lifted IR, interpreted, against the original text, run thread by thread on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg
from evolve.codegen.original import original_name, render_original
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.frontend.lift import Lifted
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.workload.infer import infer
from evolve.workload.inputs import generate, numpy_dtype
from evolve.workload.model import Sizes
from tests.interpreter import run

MAX_BYTES = 100_000


def assert_same(lifted: Lifted, sizes: tuple[Sizes, ...] = (), *, cache_dir: Path | None = None) -> int:
    """Both give the same arrays at the workload's check sizes (or those given); returns how many ran."""
    workload = infer(lifted)
    program = compile_host(render_original(lifted.original), [original_name(lifted.original)], cache_dir)
    ran = 0
    for at in sizes or workload.check:
        if workload.bytes_at(at) > MAX_BYTES:
            continue
        arrays = dict(generate(workload, at, "normal", 1))
        for a in workload.arrays:
            # The same start value on both sides: elements that the kernel does not write must keep it.
            if a.role == "out":
                arrays[a.name] = np.full(a.shape(at), 7, numpy_dtype(a.dtype))
        writable = {a.name for a in workload.arrays if a.role != "in"}
        grid, block = _dims(lifted.original.grid, at), _dims(lifted.original.block, at)
        if min(grid) < 1:
            continue
        args = tuple(
            BufferArg(n) if n in arrays else ScalarArg(n, lifted.kernel.scalar(n).dtype.value, at[n])
            for n in lifted.kernel.params
        )
        launch = ConcreteLaunch(original_name(lifted.original), args, grid, block)
        flat = {n: a.reshape(-1) for n, a in arrays.items()}
        done = execute(program, [launch], flat, writable, ExecOptions(inout=frozenset(writable)))
        assert not done.findings, done.findings[0]
        got = run(lifted.kernel, arrays, at)
        for name in writable:
            want = np.asarray(done.outputs[name], dtype=np.float64)
            np.testing.assert_allclose(
                got[name].reshape(-1), want, rtol=2e-4, atol=2e-4, err_msg=f"{name} at {dict(at)}"
            )
        ran += 1
    return ran


def _dims(dims: tuple[Expr, Expr, Expr], sizes: Sizes) -> Dim3:
    x, y, z = (int(evaluate(e, sizes)) for e in dims)
    return x, y, z
