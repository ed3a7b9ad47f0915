"""Runs a host C++ function at full speed in the child process: how float64 references are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import Array, ExecOptions, execute
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler


def run_plain(
    text: str,
    function: str,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float] | Sequence[ScalarArg] = (),
    *,
    writable: AbstractSet[str] | None = None,
    order: Sequence[str] | None = None,
    cache_dir: Path | None = None,
    compiler: HostCompiler | None = None,
    time_limit_s: float = 60.0,
    memory_limit_mb: int = 2048,
) -> dict[str, Array]:
    """Compile `text` with -O2 and call `function` once; return the arrays as the call left them.

    The function takes pointers and numbers: `arrays` in their order, then `scalars`, unless `order` lists all
    names in the order of the parameters. Numbers are converted to the parameters' types. Math functions and
    fixed-width types are declared as for device text; no header is. All arrays may be written unless
    `writable` names the ones that may (only those are returned). Functions must be marked `__global__`.

    Raises EvolveError `sim.compile` (see `compile_host`) and `sim.reference` when the call crashes or runs
    out of time.
    """
    if isinstance(scalars, Mapping):
        numbers = [ScalarArg(n, "f64" if isinstance(v, float) else "i64", v) for n, v in scalars.items()]
    else:
        numbers = list(scalars)
    by_name: dict[str, BufferArg | ScalarArg] = {n: BufferArg(n) for n in arrays}
    by_name.update((s.name, s) for s in numbers)
    names = list(by_name) if order is None else list(order)
    if sorted(names) != sorted(by_name):
        raise EvolveError("sim.launch", f"{function}: `order` must list every array and scalar once")
    program = compile_host(
        text, [function], cache_dir, compiler=compiler, name="reference.cpp", instrumented=False
    )
    launch = ConcreteLaunch(function, tuple(by_name[n] for n in names), (1, 1, 1), (1, 1, 1))
    changed = set(arrays) if writable is None else set(writable)
    options = ExecOptions(
        inout=frozenset(changed), time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb, stack_kb=8192
    )
    done = execute(program, [launch], arrays, changed, options)
    if done.findings:
        raise EvolveError("sim.reference", done.findings[0].message, line=done.findings[0].line)
    return done.outputs
