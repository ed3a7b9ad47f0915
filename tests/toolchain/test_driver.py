"""What a driver's CUDA version means for machine code, and a stand-in for it that links and loads."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import driver
from evolve.toolchain.driver import driver_version, match, require
from evolve.toolchain.driver_stub import build_stub, declared_names
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

HEADER = """
#if defined(PER_THREAD)
    #define __CUDA_API_PTSZ(api) api ## _ptsz
#endif
#define cuMemAlloc                          cuMemAlloc_v2
#define cuMemcpyAsync                       __CUDA_API_PTSZ(cuMemcpyAsync)
#define CU_STREAM_LEGACY 0x1
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI
cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr);
typedef void (CUDA_CB *CUhostFn)(void *userData);
"""


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "cuda.h").write_text(HEADER)
    (folder / "cudaProfiler.h").write_text("extern CUresult CUDAAPI cuProfilerStart(void);\n")
    return folder


@pytest.mark.parametrize(
    ("of_driver", "of_compiler", "standing", "loads"),
    [
        ((13, 0), (13, 0), "same", True),
        ((13, 2), (13, 0), "same", True),
        ((13, 0), (13, 5), "newer-compiler", True),
        ((14, 0), (13, 5), "newer-driver", True),
        ((12, 9), (13, 0), "too-old", False),
        ((11, 4), (13, 5), "too-old", False),
    ],
)
def test_major_versions_decide(
    of_driver: tuple[int, int], of_compiler: tuple[int, int], standing: str, loads: bool
) -> None:
    found = match(of_driver, of_compiler)
    assert (found.standing, found.loads) == (standing, loads)
    assert f"CUDA {of_driver[0]}.{of_driver[1]}" in found.text
    if loads:
        assert require(of_driver, of_compiler) == found
    else:
        assert f"install a driver for CUDA {of_compiler[0]}.0 or later" in found.text
        with pytest.raises(EvolveError) as caught:
            require(of_driver, of_compiler)
        assert caught.value.code == "driver-too-old"


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so.1")
    with pytest.raises(EvolveError, match="no NVIDIA driver") as caught:
        driver_version()
    assert caught.value.code == "no-driver"


def test_the_version_is_what_the_library_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.cpp"
    source.write_text('extern "C" int cuDriverGetVersion(int *v) { *v = 12040; return 0; }')
    library = tmp_path / "driver.so"
    compiler = find_host_compiler()
    subprocess.run([*compiler.link_command, "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(driver, "LIBRARY", str(library))
    assert driver_version() == (12, 4)


def test_every_declared_function_is_named(include: Path) -> None:
    assert declared_names(include) == (
        "cuGetErrorString",
        "cuInit",
        "cuMemAlloc",
        "cuMemAlloc_v2",
        "cuMemcpyAsync",
        "cuProfilerStart",
    )


def test_headers_that_are_missing_or_empty_are_an_error(tmp_path: Path, include: Path) -> None:
    with pytest.raises(EvolveError, match=r"cuda\.h is not in") as caught:
        declared_names(tmp_path)
    assert caught.value.code == "no-cuda-headers"
    for header in include.iterdir():
        header.write_text("int x;\n")
    with pytest.raises(EvolveError, match="declare no function"):
        declared_names(include)


def test_the_stand_in_links_loads_and_refuses(include: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stub"
    folder.mkdir()
    compiler = find_host_compiler()
    library = build_stub(compiler, include, folder)
    assert library.name == "libcuda.so.1"
    loaded = ctypes.CDLL(str(library))
    assert loaded.cuInit(0) == 34  # CUDA_ERROR_STUB_LIBRARY
    words = ctypes.c_char_p()
    assert loaded.cuGetErrorString(34, ctypes.byref(words)) == 0
    assert words.value is not None and b"stand-in" in words.value
    with pytest.raises(AttributeError):
        loaded.cuNotInTheHeader  # noqa: B018

    user = tmp_path / "user.cpp"
    user.write_text(
        '#include <cstdio>\nextern "C" int cuInit(unsigned);\nint main() { printf("%d", cuInit(0)); }'
    )
    program = tmp_path / "user"
    subprocess.run([*compiler.link_command, "-o", program, user, f"-L{folder}", "-lcuda"], check=True)
    ran = subprocess.run([program], env={"LD_LIBRARY_PATH": str(folder)}, capture_output=True, check=True)
    assert ran.stdout == b"34"
    # It asks for the library by the driver's name, so a real driver takes the stand-in's place.
    absent = subprocess.run([program], env={"LD_LIBRARY_PATH": ""}, capture_output=True, check=False)
    try:
        driver_version()
    except EvolveError:
        assert b"libcuda.so.1" in absent.stderr


def test_a_stand_in_that_does_not_compile_is_an_error(include: Path, tmp_path: Path) -> None:
    found = find_host_compiler()
    bad = HostCompiler("gcc", [*found.command, "--no-such-option-at-all"], found.version)
    with pytest.raises(EvolveError, match="does not compile") as caught:
        build_stub(bad, include, tmp_path)
    assert caught.value.code == "stub-failed"


def test_importing_it_loads_no_driver() -> None:
    code = "import sys, evolve.toolchain.driver; print(open('/proc/self/maps').read().count('libcuda'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
