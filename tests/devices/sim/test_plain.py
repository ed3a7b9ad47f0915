"""References run at full speed, keep their place in the parameter list, and fail loudly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.devices.sim.plain import run_plain
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler

TEXT = """\
__global__ void ref(const float* x, double* y, long long n, double a) {
  for (long long i = 0; i < n; i++) y[i] = exp((double)x[i]) * a;
}
"""


def test_reference_in_double(cache: Path, compiler: HostCompiler) -> None:
    x = np.linspace(-3, 3, 1001).astype(np.float32)
    out = run_plain(
        TEXT, "ref", {"x": x, "y": np.zeros(1001)}, {"n": 1001, "a": 0.5}, writable={"y"}, cache_dir=cache,
        compiler=compiler,
    )  # fmt: skip
    np.testing.assert_allclose(out["y"], np.exp(x.astype(np.float64)) * 0.5, rtol=1e-15)
    assert set(out) == {"y"}


def test_order_of_parameters(cache: Path, compiler: HostCompiler) -> None:
    text = "__global__ void ref(int n, double* y, int k) { for (int i = 0; i < n; i++) y[i] += k; }\n"
    out = run_plain(
        text, "ref", {"y": np.arange(4.0)}, {"k": 10, "n": 3}, order=["n", "y", "k"], cache_dir=cache,
        compiler=compiler,
    )  # fmt: skip
    np.testing.assert_array_equal(out["y"], [10, 11, 12, 3])
    with pytest.raises(EvolveError, match="order"):
        run_plain(text, "ref", {"y": np.arange(4.0)}, {"k": 10}, order=["n", "y", "k"], cache_dir=cache)


def test_a_hang_and_a_crash_are_errors(cache: Path, compiler: HostCompiler) -> None:
    text = "__global__ void ref(double* y, int n) {\nvolatile int s = n;\nwhile (s) y[0] += 1;\n}\n"
    with pytest.raises(EvolveError, match="time limit") as caught:
        run_plain(
            text, "ref", {"y": np.zeros(1)}, {"n": 1}, cache_dir=cache, compiler=compiler, time_limit_s=0.3
        )
    assert caught.value.line == 3
    text = "__global__ void ref(double* y, long long n) {\ny[n] = 1; }\n"
    with pytest.raises(EvolveError, match="unmapped") as caught:
        run_plain(text, "ref", {"y": np.zeros(1)}, {"n": 2**40}, cache_dir=cache, compiler=compiler)
    assert caught.value.line == 2
