"""The access trace is exact for every compiler here, and a compiler that blurs it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.devices.sim import build
from evolve.devices.sim.conformance import difference, expected, record, require
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler


def test_exact_trace(cache: Path, compiler: HostCompiler) -> None:
    text = (build.NATIVE / "conformance.cu").read_text()
    program = build.compile_host(
        text, ["conformance"], cache, compiler=compiler, name="conformance.cu", verify=False
    )
    got = record(program)
    assert got == {t: expected(t) for t in range(4)}


def test_the_comments_in_the_file_agree_with_the_expectation() -> None:
    lines = (build.NATIVE / "conformance.cu").read_text().splitlines()
    said = {i + 1 for i, ln in enumerate(lines) if f"// {i + 1} " in ln}
    assert said == {a[0] for a in expected(0)}


def test_flags_that_split_vectors_are_refused(
    tmp_path: Path, compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {
        k: v.replace("-O1 -fno-tree-sra", "-O2").replace("-O0", "-O2") for k, v in build._INSTRUMENTED.items()
    }
    monkeypatch.setattr(build, "_INSTRUMENTED", bad)
    found = difference(compiler, tmp_path)
    if found is None:
        pytest.skip("this compiler keeps the trace at -O2 too")
    with pytest.raises(EvolveError, match="memory accesses as written") as caught:
        require(compiler, tmp_path)
    assert caught.value.code == "sim.conformance"
    with pytest.raises(EvolveError, match="memory accesses as written"):
        build.compile_host('extern "C" __global__ void k() {}', ["k"], tmp_path, compiler=compiler)
