"""The lifted IR, interpreted, against the original text, run thread by thread on the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg
from evolve.codegen.original import original_name, render_original
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.devices.sim.execute import Array, ExecOptions, execute
from evolve.frontend.lift import Lifted
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.workload.infer import infer
from evolve.workload.inputs import generate, numpy_dtype
from evolve.workload.model import Sizes, Workload
from tests.interpreter import run

MAX_BYTES = 100_000
NOT_TOUCHED = "the last of which the kernel does not touch"


def assert_same(lifted: Lifted, sizes: tuple[Sizes, ...] = (), *, cache_dir: Path | None = None) -> int:
    """Both give the same arrays at the workload's check sizes (or those given); returns how many ran."""
    workload = infer(lifted)
    program = compile_host(render_original(lifted.original), [original_name(lifted.original)], cache_dir)
    ran = 0
    for at in sizes or workload.check:
        if workload.bytes_at(at) > MAX_BYTES:
            continue
        arrays = _arrays(workload, at)
        writable = {a.name for a in workload.arrays if a.role != "in"}
        launch = _launch(lifted, arrays, at)
        if min(launch.grid) < 1:
            continue
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


def assert_no_longer_than_touched(
    lifted: Lifted, *, program: HostProgram | None = None, cache_dir: Path | None = None
) -> int:
    """The original goes beyond arrays that are one element shorter than they are taken to be: those that it
    reads, and whose subscripts are not read from memory. Returns how many shorter arrays it was given.
    """
    workload = infer(lifted)
    if program is None:
        name = original_name(lifted.original)
        program = compile_host(render_original(lifted.original), [name], cache_dir)
    assumed = {n.split()[0] for n in lifted.notes if n.endswith(NOT_TOUCHED)}
    ran = 0
    for at in workload.check:
        facts = all(evaluate(f, at) for f in lifted.no_wrap)
        if workload.bytes_at(at) > MAX_BYTES or not facts or lifted.kernel.contents:
            continue
        # Masks let everything through: what lies behind them belongs to the arrays too.
        flat = {n: _visible(a.reshape(-1)) for n, a in _arrays(workload, at).items()}
        writable = {a.name for a in workload.arrays if a.role != "in"}
        launch = _launch(lifted, flat, at)
        if min(launch.grid) < 1:
            continue
        for a in workload.arrays:
            if a.role == "out" or a.name in assumed or flat[a.name].size < 2:
                continue
            shorter = {**flat, a.name: flat[a.name][:-1]}
            done = execute(program, [launch], shorter, writable, ExecOptions(inout=frozenset(writable)))
            beyond = {f.buffer for f in done.findings if f.kind == "out-of-bounds"}
            assert a.name in beyond, f"{a.name} is taken to have {flat[a.name].size} elements at {dict(at)}"
            ran += 1
    return ran


def _arrays(workload: Workload, at: Sizes) -> dict[str, Array]:
    arrays = dict(generate(workload, at, "normal", 1))
    for a in workload.arrays:
        # The same start value on both sides: elements that the kernel does not write must keep it.
        if a.role == "out":
            arrays[a.name] = np.full(a.shape(at), 7, numpy_dtype(a.dtype))
    return arrays


def _visible(a: Array) -> Array:
    return np.ones_like(a) if a.dtype.kind in "iub" else a


def _launch(lifted: Lifted, arrays: Mapping[str, Array], at: Sizes) -> ConcreteLaunch:
    args = tuple(
        BufferArg(n) if n in arrays else ScalarArg(n, lifted.kernel.scalar(n).dtype.value, at[n])
        for n in lifted.kernel.params
    )
    original = lifted.original
    return ConcreteLaunch(original_name(original), args, _dims(original.grid, at), _dims(original.block, at))


def _dims(dims: tuple[Expr, Expr, Expr], sizes: Sizes) -> Dim3:
    x, y, z = (int(evaluate(e, sizes)) for e in dims)
    return x, y, z
