"""Complaints of every stage are read, and nothing but machine code ever leaves a compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import nvrtc
from evolve.toolchain.compilation import (
    Diagnostic,
    check_options,
    failed,
    is_machine_code,
    made,
    parse_log,
)
from evolve.toolchain.nvrtc import compile_cuda

PACKAGE = Path(nvrtc.__file__).parents[1]
SMALL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] *= 2.0f; }'


def test_the_diagnostics_of_every_stage_are_read() -> None:
    log = (
        "other.cu(7): error #20: identifier is undefined\n"
        "ptxas error   : too big\n"
        "kernel.cu(9): warning #177-D: never referenced\n"
        "kernel.cu(9): remark: nothing\n"
        "kernel.cu:2:10: fatal error: no.h: No such file or directory\n"
        "kernel.cu:4: warning: odd\n"
        '    2 | #include "no.h"\n'
        "noise (3): nothing\n"
        "1 error detected in the compilation of kernel.cu.\n"
    )
    assert parse_log(log) == (
        Diagnostic(7, "error", "identifier is undefined"),
        Diagnostic(None, "error", "too big"),
        Diagnostic(9, "warning", "never referenced"),
        Diagnostic(2, "error", "no.h: No such file or directory"),
        Diagnostic(4, "warning", "odd"),
    )


def test_a_failure_without_a_line_still_has_an_error() -> None:
    assert failed("the end").errors == (Diagnostic(None, "error", "the end"),)
    assert failed("the end", 3).errors[0].line == 3


# ---- machine code and nothing else: whatever reaches a device was compiled for it here

VIRTUAL = (
    ["--gpu-architecture=compute_90"],
    ["-arch=compute_90"],
    ["-arch", "compute_90"],
    ["-gencode=arch=compute_90,code=compute_90"],
    ["--generate-code", "arch=compute_90,code=sm_90"],
    ["-code=compute_90"],
    ["-ptx"],
    ["--ptx"],
    ["-dlto"],
    ["-rdc=true"],
    ["--relocatable-device-code=true"],
    ["-fatbin"],
    ["--options-file", "x"],
    ["-o", "x"],
)


@pytest.mark.parametrize("options", VIRTUAL, ids=" ".join)
def test_no_option_makes_another_output(options: list[str]) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_cuda(SMALL, "sm_90", options)
    assert caught.value.code == "bad-compile-option"


def test_ordinary_options_pass() -> None:
    check_options(["-lineinfo", "-DN=3", "--use_fast_math", "-std=c++17", "--maxrregcount=32", "-Ifolder"])


@pytest.mark.parametrize("arch", ["compute_90", "compute_90a", "ptx", "sm_90,compute_90"])
def test_a_virtual_target_is_refused(arch: str) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_cuda(SMALL, arch)
    assert caught.value.code == "unsupported-arch"


def test_what_is_no_machine_code_is_never_a_result(cubins: dict[str, bytes]) -> None:
    good = cubins["sm_90"]
    assert made(good, "").cubin == good
    ptx = b".version 9.0\n.target sm_90\n.address_size 64\n" + b" " * 100
    fatbin = b"\x50\xed\x55\xba" + good
    relocatable = good[:16] + b"\x01\x00" + good[18:]
    host = good[:18] + b"\x3e\x00" + good[20:]
    for image in (b"", ptx, fatbin, relocatable, host, good[:40]):
        assert not is_machine_code(image)
        with pytest.raises(EvolveError) as caught:
            made(image, "")
        assert caught.value.code == "not-machine-code"


def test_nvrtc_is_never_asked_for_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    real = nvrtc._load()
    asked: set[str] = set()

    class Spy:
        def __getattr__(self, name: str) -> Any:
            asked.add(name)
            return getattr(real, name)

    monkeypatch.setattr(nvrtc, "_load", Spy)
    assert compile_cuda(SMALL).ok and not compile_cuda("rubbish").ok
    assert {name for name in asked if "Get" in name} == {
        f"nvrtcGet{what}{size}" for what in ("CUBIN", "ProgramLog") for size in ("", "Size")
    }


# What hands the driver a text or a container to compile, or links by its compiler.
COMPILES_ON_THE_DEVICE = re.compile(
    r"SourceModule|DynamicModule|pycuda\.compiler|module_from_file|cuModuleLoadDataEx|cuModuleLoadFatBinary"
    r"|cuModuleLoad$|cuLink\w*|cuLibraryLoad\w*|nvrtcGet(PTX|LTOIR|OptiXIR)\w*|nvPTXCompiler\w*|nvJitLink\w*"
)


def words_of(tree: ast.AST) -> Iterator[str]:
    """Names and strings of a program, without its docstrings."""
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def test_nothing_in_the_package_lets_the_driver_compile() -> None:
    found = [
        (path.relative_to(PACKAGE).as_posix(), word)
        for path in sorted(PACKAGE.rglob("*.py"))
        for word in words_of(ast.parse(path.read_text()))
        if COMPILES_ON_THE_DEVICE.match(word)
    ]
    assert found == []
    assert list(filter(COMPILES_ON_THE_DEVICE.match, words_of(ast.parse("cuda.cuLinkCreate()"))))
