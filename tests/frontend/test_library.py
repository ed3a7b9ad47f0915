"""Library functions: each lifts to what the text computes, on ordinary and on special values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.codegen.original import original_name, render_original
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Cast
from evolve.ir.types import DType
from evolve.ir.visit import leaves
from evolve.toolchain.nvrtc import compile_cuda
from tests.interpreter import run

Lift = Callable[..., Lifted]

HEAD = """__global__ void k(const float *x, const float *z, float *y, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
"""

BODIES = {
    "rounding": "y[i] = roundf(x[i]) + 100.f * rintf(z[i]) + 1e4f * truncf(x[i]) + nearbyintf(x[i]);",
    "rounding, overloads": "y[i] = round(x[i]) + 100.f * rint(z[i]) + 1e4f * trunc(x[i]) + floor(z[i]);",
    "remainder": "y[i] = fmodf(x[i], 1.5f) + fmod(z[i], 2.f);",
    "sign": "y[i] = copysignf(x[i], z[i]) + copysign(1.f, x[i]);",
    "not a number": "y[i] = isnan(x[i]) ? -1.f : x[i];",
    "infinite": "float v = x[i]; if (isinf(v)) v = 7.f; y[i] = v;",
    "finite": "float v = x[i]; if (!isfinite(v)) v = z[i]; y[i] = v;",
    "test as a number": "y[i] = isnan(x[i]) + 2 * isinf(x[i]);",
    "integer size": "y[i] = x[i] * abs(i - m) + abs(m - 3);",
    "integer size in a subscript": "y[i] = x[abs(i - 1)] + (n > 2 ? x[0] : 0.f);",
    "integer size of data": "int q = (int)x[i]; y[i] = abs(q);",
    "a double literal": "y[i] = fmax(z[i], 0.5) + fmin(1.0, z[i]);",
    "a double literal, max": "y[i] = max(z[i], 0.25) + min(0.75, z[i]);",
    "integers of both signs": "unsigned u = n; y[i] = x[i] * max(i, u) + min(u, m);",
    "an integer beside a float": "y[i] = fmaxf(0, z[i]) + powf(z[i] * z[i], 2);",
    "integer powers": "y[i] = pow(z[i], 2) + pow(z[i], 3);",
    "mixed powers": "y[i] = pow(z[i] * z[i], 1.5) + hypot(z[i], 2.0) + atan2(z[i], 3.0);",
    "saturation": "y[i] = __saturatef(z[i]) + __frcp_rn(1.f + z[i] * z[i]) + __fsub_rn(z[i], 1.f);",
    "conversions": "y[i] = __float2int_rn(z[i]) + 10 * __float2int_rz(z[i]) + 100 * __float2int_rd(z[i])"
    " + 1000 * __float2int_ru(z[i]) + __int2float_rn(i);",
    "elementary": "float v = z[i]; y[i] = log10f(v * v + 1.f) + exp10f(v) + cbrtf(v) + hypotf(v, 1.f);",
    "trigonometry": "float v = z[i]; y[i] = tanf(v) + sinhf(v) + coshf(v) + atanf(v) + erfcf(v)"
    " + asinf(v / (1.f + fabsf(v))) + acosf(v / (1.f + fabsf(v))) + atan2f(v, 2.f);",
}
SPECIAL = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.49, 1e9, np.nan, np.inf, -np.inf], dtype=np.float32
)
PLAIN = np.array([0.0, 0.3, -0.4, 0.5, 1.5, -1.5, 2.5, 0.75, -0.25, 2.0, -1.0, 0.1], dtype=np.float32)


@pytest.mark.parametrize("name", list(BODIES))
def test_lifted_as_it_computes(name: str, lift_text: Lift, cache: Path) -> None:
    lifted = lift_text(f"{HEAD}  {BODIES[name]}\n}}\n")
    compiled = compile_cuda(lifted.original.text)
    assert compiled.ok, compiled.log
    n, m = len(SPECIAL), 5
    x = SPECIAL if "data" not in name else PLAIN * 7
    arrays = {"x": x, "z": PLAIN, "y": np.zeros(n, np.float32)}
    sizes: dict[str, int | float] = {"n": n, "m": m}
    program = compile_host(render_original(lifted.original), [original_name(lifted.original)], cache)
    args = (
        BufferArg("x"),
        BufferArg("z"),
        BufferArg("y"),
        ScalarArg("n", "i32", n),
        ScalarArg("m", "i32", m),
    )
    launch = ConcreteLaunch(original_name(lifted.original), args, (1, 1, 1), (256, 1, 1))
    done = execute(program, [launch], dict(arrays), {"y"}, ExecOptions(inout=frozenset({"y"})))
    assert not done.findings, done.findings[0]
    needed = {b.name: arrays[b.name][: int(evaluate(b.extents[0], sizes))] for b in lifted.kernel.buffers}
    with np.errstate(all="ignore"):
        got = run(lifted.kernel, needed, sizes)["y"]
    np.testing.assert_allclose(got, done.outputs["y"], rtol=1e-5, atol=1e-5)


def test_unknown_functions_are_refused(lift_text: Lift) -> None:
    with pytest.raises(EvolveError):
        lift_text(f"{HEAD}  y[i] = lgammaf(x[i]);\n}}\n")
    with pytest.raises(CannotLiftError, match="meaning is not known"):
        lift_text(f"{HEAD}  y[i] = __int_as_float(m);\n}}\n")


@pytest.mark.parametrize("name", ["pow", "fmod", "atan2", "hypot", "fmax", "fmin", "copysign"])
@pytest.mark.parametrize("arguments", ["x[i], 1.5", "1.5, x[i]"])
def test_a_float_beside_a_double_is_a_double_everywhere(
    name: str, arguments: str, lift_text: Lift, cache: Path
) -> None:
    """In the lifted kernel, for NVRTC, which lacks these overloads, and on the host."""
    lifted = lift_text(f"{HEAD}  y[i] = {name}({arguments});\n}}\n")
    (leaf,) = (leaf for leaf, _ in leaves(lifted.kernel.body))
    assert isinstance(leaf.value, Cast) and leaf.value.arg.dtype is DType.F64
    compiled = compile_cuda(lifted.original.text)
    assert compiled.ok, compiled.log
    compile_host(render_original(lifted.original), [original_name(lifted.original)], cache)
