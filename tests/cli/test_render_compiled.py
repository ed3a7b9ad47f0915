"""render --compile says what each compiler made of the code, and leaves a file that compiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evolve.cli.main import main
from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir
from evolve.toolchain import comparison
from evolve.toolchain.compilation import CompileResult, Diagnostic
from evolve.toolchain.nvcc import Nvcc, find_nvcc
from evolve.toolchain.nvrtc import compile_cuda

PROGRAM = "block, thread = split(i, 256)\nbind(block, grid.x)\nbind(thread, thread.x)\n"


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except EvolveError:
        return False
    return True


def render(
    capfd: pytest.CaptureFixture[str], folder: Path, *arguments: str, device: str = "sim:h200-sxm"
) -> tuple[int, str, str]:
    program = folder / "p.dsl"
    program.write_text(PROGRAM)
    capfd.readouterr()
    kernel = str(data_dir("kernels") / "vecadd.cu")
    status = main(["render", "--kernel", kernel, "--program", str(program), "--device", device, *arguments])
    got = capfd.readouterr()
    return status, got.out, got.err


def test_what_nvrtc_made_is_a_comment_in_a_file_that_compiles(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = render(capfd, tmp_path)[1]
    status, out, _ = render(capfd, tmp_path, "--compile", "nvrtc")
    assert status == 0 and out.startswith(plain)
    said = out[len(plain) :].splitlines()
    assert [line.split(": ")[0].split(", ")[1] for line in said] == ["vecadd_original", "vecadd_v1"]
    assert all(line.startswith("// nvrtc 13.") and " for sm_90, " in line for line in said)
    # The numbers are those of the image that anybody gets from the text.
    kernels = comparison.costs(compile_cuda(out, "sm_90").cubin or b"")
    assert [kernel.text for kernel in kernels] == [line.split(", ", 1)[1] for line in said]
    assert "//" not in plain.splitlines()[-1]


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc here")
def test_both_compilers_are_shown_beside_each_other(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = render(capfd, tmp_path, "--compile", "both", "--json", device="sim:rtx-4090")
    document = json.loads(out)
    ours, theirs = document["compiled"]
    assert status == 0 and document["verdict"] == "PROVED"
    assert (ours["compiler"], theirs["compiler"]) == ("nvrtc", "nvcc")
    assert ours["arch"] == theirs["arch"] == "sm_89"
    assert [k["name"] for k in ours["kernels"]] == [k["name"] for k in theirs["kernels"]]
    assert all(k["registers"] > 0 and k["instructions"] > 0 for k in theirs["kernels"])


def test_a_code_that_does_not_compile_is_said(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str, arch: str, options: object = (), **_: object) -> CompileResult:
        return CompileResult(False, None, "log", (Diagnostic(3, "error", "no such thing"),))

    monkeypatch.setattr(comparison, "find_nvcc", lambda: Nvcc(tmp_path, (13, 0), ("sm_90",)))
    monkeypatch.setattr(comparison, "compile_with_nvcc", broken)
    status, out, _ = render(capfd, tmp_path, "--compile", "both")
    assert status == 1 and out.endswith("\n// nvcc 13.0 for sm_90, line 3: no such thing\n")
    assert "// nvrtc 13." in out


def test_wrong_uses_are_errors(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = render(capfd, tmp_path, "--compile", "hipcc")
    assert (status, out) == (2, "") and "nvrtc, nvcc or both" in err
    status, _, err = render(capfd, tmp_path, "--compile", "nvrtc", device="sim:mi300x")
    assert status == 2 and "gfx942" in err

    def absent() -> Nvcc:
        raise EvolveError("no-nvcc", "none", hint="pip install 'nvidia-cuda-nvcc>=13.0,<14'")

    monkeypatch.setattr(comparison, "find_nvcc", absent)
    status, _, err = render(capfd, tmp_path, "--compile", "nvcc")
    assert status == 2 and "nvidia-cuda-nvcc" in err
