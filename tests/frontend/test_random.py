"""Random kernels: whatever lifts means what the text computes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.frontend.lift import Lifted, lift
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.evaluate import evaluate
from evolve.ir.stmt import Buffer
from tests.frontend.random_kernels import text
from tests.interpreter import run

SIZES = ((3, 5, 0, 0.75), (1, 4, 1, -1.5))
KERNELS = 14


def test_random_kernels(tmp_path: Path, cache: Path) -> None:
    source, names = text(seed=77, count=KERNELS)
    path = tmp_path / "random.cu"
    path.write_text(source)
    c_names = re.sub("__global__ void", 'extern "C" __global__ void', source)
    program = compile_host(c_names, names, cache)
    lifted = 0
    for name in names:
        try:
            kernel = lift(path, name)
        except CannotLiftError:
            continue
        lifted += 1
        for n, m, flag, a in SIZES:
            _compare(kernel, program, n, m, flag, a)
    assert lifted > KERNELS // 2


def _compare(lifted: Lifted, program: object, n: int, m: int, flag: int, a: float) -> None:
    rng = np.random.default_rng(5)
    arrays = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", n * m), ("w", m), ("y", n * m), ("z", n))
    }
    args = (
        *(BufferArg(b) for b in arrays), ScalarArg("n", "i32", n), ScalarArg("m", "i32", m),
        ScalarArg("flag", "i32", flag), ScalarArg("a", "f32", a),
    )  # fmt: skip
    launch = ConcreteLaunch(lifted.original.entry, args, (1, 1, 1), (4, 1, 1))
    done = execute(program, [launch], arrays, {"y", "z"}, ExecOptions(inout=frozenset({"y", "z"})))  # type: ignore[arg-type]
    assert not done.findings, done.findings[0]
    sizes = {"n": n, "m": m, "flag": flag, "a": a}

    def view(b: Buffer) -> np.ndarray:
        shape = tuple(int(evaluate(e, sizes)) for e in b.extents)
        return arrays[b.name][: int(np.prod(shape))].reshape(shape)

    got = run(lifted.kernel, {b.name: view(b) for b in lifted.kernel.buffers}, sizes)
    for name in ("y", "z"):
        have = got[name].reshape(-1)
        want = np.asarray(done.outputs[name], dtype=np.float64)[: have.size]
        # Rounding differs by design; values that grew beyond single precision's reach are left out.
        sane = np.isfinite(want) & (np.abs(want) < 1e4)
        np.testing.assert_allclose(have[sane], want[sane], rtol=2e-3, atol=2e-3, err_msg=lifted.kernel.name)
