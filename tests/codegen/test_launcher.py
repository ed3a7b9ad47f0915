"""The file that a person takes away: it is CUDA C++ with a launch function, and can be read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.frontend.lift import lift, list_kernels
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen import scheduled_ir
from tests.codegen.modules import module_of


def file_of(name: str) -> tuple[str, Rendered]:
    module = module_of(scheduled_ir.SCHEDULED[name]())
    rendered = render(module)
    return rendered.text + "\n" + render_launcher(rendered, rendered.variants[0].launches[0].params), rendered


@pytest.mark.parametrize("name", list(scheduled_ir.SCHEDULED))
def test_the_file_parses_as_cuda_and_compiles_without_its_host_part(name: str, tmp_path: Path) -> None:
    text, rendered = file_of(name)
    path = tmp_path / "best.cu"
    path.write_text(text)
    assert {k.name for k in list_kernels(path)} == set(rendered.signatures)
    done = compile_cuda(text)
    assert done.ok, done.log


def test_the_original_lifts_from_the_file(tmp_path: Path) -> None:
    text, rendered = file_of("transpose_tiled")
    path = tmp_path / "best.cu"
    path.write_text(text)
    lifted = lift(path, rendered.original.kernel)
    assert lifted.kernel.params == ("x", "y", "rows", "cols")


def test_the_text_of_a_launcher() -> None:
    text, _ = file_of("vecadd")
    launcher = text[text.index("#ifndef __CUDACC_RTC__") :]
    assert (
        launcher
        == """\
#ifndef __CUDACC_RTC__
// Launches the variant that the sizes allow.
cudaError_t launch_vecadd(
    const float* a,
    const float* b,
    float* c,
    int n,
    cudaStream_t stream = 0
) {
    const long long n_ = (long long)n;
    const bool aligned = (unsigned long long)a % 16 == 0 && (unsigned long long)b % 16 == 0 \
&& (unsigned long long)c % 16 == 0;
    if (aligned && n_ % 4 == 0 && n_ <= 2147482624 && n_ >= 1) {
        if ((n_ + 1023) / 1024 > 0) vecadd_v1<<<dim3((unsigned int)((n_ + 1023) / 1024)), \
dim3((unsigned int)(256)), 0, stream>>>(a, b, c, n);
        return cudaGetLastError();
    }
    if ((n_ + 63) / 64 > 0) vecadd<<<dim3((unsigned int)((n_ + 63) / 64)), \
dim3((unsigned int)(64)), 0, stream>>>(a, b, c, n);
    return cudaGetLastError();
}
#endif
"""
    )


def test_fingerprints_ignore_comments_and_nothing_else() -> None:
    a = render(module_of(scheduled_ir.vecadd()))
    noted = replace(a, text=a.text.replace("// split", "// other"))
    assert noted.text != a.text and noted.fingerprint == a.fingerprint
    assert render(module_of(scheduled_ir.vecadd(128))).fingerprint != a.fingerprint
    assert render(module_of(scheduled_ir.vecadd(multiple_of_4=False))).fingerprint != a.fingerprint
    assert replace(a, variants=()).fingerprint != a.fingerprint
