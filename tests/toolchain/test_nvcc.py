"""nvcc keeps NVRTC's contract: same results, same errors; alone in a folder, without our variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import nvcc as module
from evolve.toolchain.comparison import both, build
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.host_cxx import find_host_compiler
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvcc import Nvcc, compile_with_nvcc, find_nvcc
from evolve.toolchain.nvrtc import compile_cuda
from tests.toolchain.conftest import SOURCE

SMALL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] *= %s; }'


def works() -> bool:
    try:
        return compile_with_nvcc(SMALL % "2.0f").ok
    except EvolveError:
        return False


needs_nvcc = pytest.mark.skipif(not works(), reason="no nvcc here, or no g++ that it can use")


def fake(folder: Path, body: str) -> Path:
    """A program that answers as nvcc when asked who it is, and else does what `body` says."""
    path = folder / "bin" / "nvcc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\ncase $1 in\n"
        "--version) echo 'Cuda compilation tools, release 13.7, V13.7.1';;\n"
        "--list-gpu-code) printf 'sm_75\\nsm_100\\nsm_90\\n';;\n"
        f"*) {body};;\nesac\n"
    )
    path.chmod(0o755)
    return path


# ---- where it is looked for


def test_it_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path, on_path, wheel = (
        fake(tmp_path / name, "exit 1") for name in ("home", "path", "onpath", "wheel")
    )
    monkeypatch.setattr(module, "in_wheels", lambda name: [wheel] if name == "nvcc" else [])
    env = {"CUDA_HOME": str(tmp_path / "home"), "CUDA_PATH": str(tmp_path / "path")}
    env["PATH"] = str(on_path.parent)
    assert find_nvcc(env) == Nvcc(home, (13, 7), ("sm_75", "sm_90", "sm_100"))
    home.write_text("#!/bin/sh\nexit 1\n")  # it does not work: the next one
    module._ask.cache_clear()
    assert find_nvcc(env).path == path
    path.chmod(0o644)
    assert find_nvcc(env).path == on_path
    assert find_nvcc({"PATH": str(tmp_path)}).path == wheel
    wheel.unlink()
    monkeypatch.setattr(module, "Path", lambda p: Path(str(p).replace("/usr/local/cuda", str(tmp_path))))
    with pytest.raises(EvolveError, match="nvidia-cuda-nvcc") as caught:
        find_nvcc({"PATH": str(tmp_path)})
    assert caught.value.code == "no-nvcc"


# ---- the contract of compile_cuda


@needs_nvcc
def test_a_good_text_gives_an_image_for_its_target() -> None:
    result = compile_with_nvcc(SMALL % "2.0f", "sm_90")
    assert result.ok and result.cubin is not None and result.errors == ()
    image = read_cubin(result.cubin)
    assert (image.sm, list(image.kernels)) == (90, ["k"])
    assert compile_with_nvcc(SMALL % "2.0f", "sm_90a").ok


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_both_read_alike(arch: str) -> None:
    first, second = both(SOURCE, arch)
    assert first.result.ok and second.result.ok
    assert [k.name for k in first.kernels] == [k.name for k in second.kernels]
    for a, b in zip(first.kernels, second.kernels, strict=True):
        assert a.shared_bytes == b.shared_bytes
        assert a.registers > 0 and abs(a.registers - b.registers) <= 16
        # Compilers of nearby versions; one that built something else entirely would be far off.
        assert 0.5 < a.instructions / b.instructions < 2.0
        assert (a.local_bytes > 0) == (b.local_bytes > 0) == (a.name == "spill")
        assert (a.local_accesses > 0) == (a.name == "spill")
    images = [read_cubin(one.result.cubin or b"") for one in (first, second)]
    for name in ("row", "nest", "spill"):
        ours, theirs = (image.kernels[name] for image in images)
        assert (ours.max_threads, ours.param_bytes) == (theirs.max_threads, theirs.param_bytes)


@needs_nvcc
def test_a_bad_text_is_a_result_with_the_same_lines() -> None:
    text = "__global__ void k() {\n  int unused;\n  foo(); }\n\n__device__ int y = z;\n"
    ours, theirs = compile_cuda(text), compile_with_nvcc(text)
    assert not theirs.ok and theirs.cubin is None
    assert theirs.errors == ours.errors
    assert [d.line for d in theirs.errors] == [3, 5]
    assert any(d.severity == "warning" and d.line == 2 for d in theirs.diagnostics)


@needs_nvcc
def test_errors_of_its_other_stages_are_read() -> None:
    result = compile_with_nvcc('\n#include "no_such_header.h"\n')
    assert [d.line for d in result.errors] == [2] and "no_such_header.h" in result.errors[0].message
    large = (
        "__global__ void k(float *y) { __shared__ float x[70000]; x[threadIdx.x] = 1; y[0] = x[y[1] > 0]; }"
    )
    result = compile_with_nvcc(large)
    assert not result.ok and result.errors[0].line is None
    assert "too much shared data" in result.errors[0].message
    result = compile_with_nvcc("__global__ void k() {}\n\0 rubbish")
    assert [d.line for d in result.errors] == [2]


@needs_nvcc
def test_lines_of_the_text_are_kept() -> None:
    text = 'extern "C" __global__ void k(float *x) {\n  x[threadIdx.x] *= 2.0f;\n  x[0] += sinf(x[1]);\n}\n'
    result = compile_with_nvcc(text, "sm_90", [LINE_INFO])
    lines = {line for _, line in read_cubin(result.cubin or b"").kernels["k"].lines}
    assert {2, 3} <= lines
    assert read_cubin(compile_with_nvcc(text).cubin or b"").kernels["k"].lines == ()


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_70", "sm_999", "sm_999a", "gfx942", "", "compute_90", "sm_90 -I/"])
def test_a_target_it_lacks_is_an_error(arch: str) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_with_nvcc(SMALL % "1", arch)
    assert caught.value.code == "unsupported-arch"


@needs_nvcc
@pytest.mark.parametrize(
    "options",
    [["--no-such-option"], ["-maxrregcount=abc"], ["-ptx"], ["-arch=compute_90"], ["-fatbin"], ["-rdc=true"]],
    ids=" ".join,
)
def test_a_wrong_option_is_an_error(options: list[str]) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_with_nvcc("this is no program either", options=options)
    assert caught.value.code == "bad-compile-option"


@needs_nvcc
def test_options_are_heeded_and_no_shell_reads_them(tmp_path: Path) -> None:
    assert compile_with_nvcc(SMALL % "FACTOR", options=["-DFACTOR=2.0f"]).ok
    assert not compile_with_nvcc(SMALL % "FACTOR").ok
    assert compile_with_nvcc("#if __cplusplus != 201402L\n#error\n#endif", options=["-std=c++14"]).ok
    assert compile_with_nvcc("#if __cplusplus != 201703L\n#error\n#endif").ok
    mark = tmp_path / "mark"
    with pytest.raises(EvolveError):
        compile_with_nvcc(SMALL % "1", options=[f"; touch {mark}"])
    assert not mark.exists()


@needs_nvcc
def test_a_text_cannot_blame_the_machine() -> None:
    for text in (
        '#line 1 "nvcc fatal   : Unsupported gpu architecture"\n#error x\n',
        '#line 1 "/usr/include/crt/host_config.h"\n#error -- unsupported GNU version!\n',
    ):
        result = compile_with_nvcc(text)
        assert not result.ok and result.errors


# ---- how it is run


def test_it_gets_none_of_our_variables_and_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    path = fake(tmp_path, f"env > {seen}; pwd >> {seen}; ls >> {seen}; exit 1")
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-ptx")
    with pytest.raises(EvolveError):
        compile_with_nvcc("x", nvcc=Nvcc(path, (13, 7), ("sm_90",)))
    said = seen.read_text()
    assert "secret" not in said and "NVCC_APPEND_FLAGS" not in said
    (folder,) = (line[5:] for line in said.splitlines() if line.startswith("HOME="))
    assert f"TMPDIR={folder}\n" in said and f"\n{folder}\nkernel.cu\n" in said
    assert folder != os.environ["HOME"] and not Path(folder).exists()


def test_a_machine_on_which_it_cannot_work_is_no_fault_of_the_text(tmp_path: Path) -> None:
    path = fake(tmp_path, "echo 'gcc: No such file or directory'; exit 1")
    with pytest.raises(EvolveError, match="gcc: No such file") as caught:
        compile_with_nvcc("x", nvcc=Nvcc(path, (13, 7), ("sm_90",)))
    assert caught.value.code == "nvcc-failed" and "NVCC_CCBIN" in str(caught.value)
    with pytest.raises(EvolveError) as caught:
        compile_with_nvcc("x", nvcc=Nvcc(tmp_path / "gone", (13, 7), ("sm_90",)))
    assert caught.value.code == "nvcc-failed"


def test_one_that_makes_something_else_is_caught(tmp_path: Path) -> None:
    path = fake(tmp_path, "printf '.version 9.0 .target sm_90' > kernel.cubin")
    with pytest.raises(EvolveError) as caught:
        compile_with_nvcc("x", nvcc=Nvcc(path, (13, 7), ("sm_90",)))
    assert caught.value.code == "not-machine-code"


def test_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    # Only the text that goes on for ever is at fault: ours, which is tried then, compiles.
    path = fake(tmp_path, "grep -q nothing kernel.cu && echo > kernel.cubin || sleep 100")
    result = compile_with_nvcc("for ever", nvcc=Nvcc(path, (13, 7), ("sm_90",)), limit_s=0.5)
    assert not result.ok and "did not end within 0.5 s" in result.errors[0].message


# ---- what both made of a text


@needs_nvcc
def test_what_each_made_is_said() -> None:
    good = build(SMALL % "2.0f", "sm_90", "nvcc")
    assert good.lines[0].startswith("nvcc ") and "for sm_90, k: " in good.lines[0]
    assert good.as_dict()["kernels"][0]["registers"] == good.kernels[0].registers
    bad = build("\n" + SMALL % "FACTOR", "sm_90", "nvcc")
    assert bad.kernels == () and "for sm_90, line 2: identifier" in bad.lines[0]
    assert bad.as_dict()["errors"][0]["line"] == 2 and not bad.as_dict()["ok"]


@pytest.mark.slow
def test_the_wheels_alone_compile(tmp_path: Path) -> None:
    """nvidia-cuda-nvcc and what it depends on are a whole compiler, given a C++ compiler to preprocess."""
    try:
        if find_host_compiler().kind != "gcc":
            pytest.skip("no g++ here")
    except EvolveError:
        pytest.skip("no C++ compiler here")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--retries", "1", "--target", str(site)]
    got = subprocess.run([*command, "nvidia-cuda-nvcc>=13.0,<14"], capture_output=True, check=False)
    if got.returncode != 0:
        pytest.skip("no package index is reachable from here")
    code = (
        "import sys; from evolve.toolchain.nvcc import *\n"
        "found = find_nvcc(); r = compile_with_nvcc(sys.argv[1], 'sm_90')\n"
        "print(found.path, found.version[0], r.ok, r.log)"
    )
    env = {n: v for n, v in os.environ.items() if not n.startswith("CUDA")}
    env |= {"PYTHONPATH": os.pathsep.join([str(site), str(Path(module.__file__).parents[2])])}
    # No other nvcc may be on PATH.
    env["PATH"] = os.pathsep.join(
        folder for folder in env["PATH"].split(os.pathsep) if not (Path(folder) / "nvcc").exists()
    )
    done = subprocess.run(
        [sys.executable, "-c", code, SMALL % "2.0f"], env=env, capture_output=True, text=True, check=True
    )
    path, major, ok, *_ = done.stdout.split()
    assert path.startswith(str(site)), done.stdout
    assert (major, ok) == ("13", "True"), done.stdout
