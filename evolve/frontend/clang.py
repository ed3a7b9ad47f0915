"""libclang: parsing CUDA without a CUDA toolkit, and the C functions its Python API leaves out.

Operator kinds and literal values come from libclang's own functions, never from tokens, which
are those of the macro's use and not of its expansion.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evolve.frontend.includes import Origins, read_source, self_contained
from evolve.ir.errors import EvolveError

_STUBS = Path(__file__).with_name("stubs")
_PRELUDE = _STUBS / "evolve_cuda.h"
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*(?:include|import)[^\n]*", re.MULTILINE)

# CXBinaryOperatorKind and CXUnaryOperatorKind of libclang 17 and newer.
_BINARY = [
    "?",
    ".*",
    "->*",
    "*",
    "/",
    "%",
    "+",
    "-",
    "<<",
    ">>",
    "<=>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "|",
    "&&",
    "||",
    "=",
    "*=",
    "/=",
    "%=",
    "+=",
    "-=",
    "<<=",
    ">>=",
    "&=",
    "^=",
    "|=",
    ",",
]
_UNARY = ("?", "x++", "x--", "++x", "--x", "&", "*", "+", "-", "~", "!", "real", "imag", "ext", "await")


@dataclass(frozen=True)
class Problem:
    """A diagnostic of clang's. `severity`: 3 error, 4 fatal."""

    severity: int
    line: int
    offset: int
    message: str


@dataclass(frozen=True)
class Parsed:
    """A parsed text. `root` is the translation unit's cursor; `problems` the errors in the text itself.

    Lines are those of `text`, which holds the headers too; `origins` tells which file they come from.
    """

    path: Path
    text: str
    root: Any
    problems: tuple[Problem, ...]
    unit: Any
    origins: Origins


@cache
def _library() -> Any:
    from clang import cindex

    lib = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        function = getattr(lib, name)
        function.argtypes, function.restype = [cindex.Cursor], ctypes.c_int
    for name, argument, result in (
        ("clang_Cursor_Evaluate", cindex.Cursor, ctypes.c_void_p),
        ("clang_EvalResult_getKind", ctypes.c_void_p, ctypes.c_int),
        ("clang_EvalResult_getAsDouble", ctypes.c_void_p, ctypes.c_double),
        ("clang_EvalResult_getAsLongLong", ctypes.c_void_p, ctypes.c_longlong),
        ("clang_EvalResult_isUnsignedInt", ctypes.c_void_p, ctypes.c_uint),
        ("clang_EvalResult_getAsUnsigned", ctypes.c_void_p, ctypes.c_ulonglong),
        ("clang_EvalResult_dispose", ctypes.c_void_p, None),
    ):
        function = getattr(lib, name)
        function.argtypes, function.restype = [argument], result
    return lib


def binary_operator(cursor: Any) -> str:
    """The C spelling of a binary or assignment operator's kind."""
    kind = _library().clang_getCursorBinaryOperatorKind(cursor)
    return _BINARY[kind] if 0 <= kind < len(_BINARY) else "?"


def unary_operator(cursor: Any) -> str:
    """The kind of a unary operator: `x++` and `++x` are told apart."""
    kind = _library().clang_getCursorUnaryOperatorKind(cursor)
    return _UNARY[kind] if 0 <= kind < len(_UNARY) else "?"


def evaluate(cursor: Any) -> int | float | None:
    """The value of a constant expression, None when clang cannot tell."""
    lib = _library()
    result = lib.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        kind = lib.clang_EvalResult_getKind(result)
        if kind == 1:
            if lib.clang_EvalResult_isUnsignedInt(result):
                return int(lib.clang_EvalResult_getAsUnsigned(result))
            return int(lib.clang_EvalResult_getAsLongLong(result))
        if kind == 2:
            return float(lib.clang_EvalResult_getAsDouble(result))
        return None
    finally:
        lib.clang_EvalResult_dispose(result)


def parse(path: str | Path, text: str | None = None) -> Parsed:
    """Parse a CUDA file with the headers of its folder, or `text` as though it stood at `path`.

    Other headers count as empty. No file is opened for clang: what the text may include is blanked,
    and a text that has clang read a file all the same is refused.

    Raises EvolveError: no-file (missing, unreadable, not text, too large), syntax-error.
    """
    from clang import cindex

    source = Path(path)
    text = self_contained(source, read_source(source)) if text is None else text
    _library()
    arguments = [
        "-x", "cuda", "-std=c++17", "-nostdinc", "-nocudainc", "-nocudalib", "--cuda-host-only",
        "--cuda-gpu-arch=sm_70", "-ferror-limit=0", "-Wno-everything",
        "-include", str(_PRELUDE),
    ]  # fmt: skip
    name = str(source)
    blanked = _INCLUDE.sub(lambda m: b" " * len(m.group()), text.encode()).decode()
    try:
        unit = cindex.Index.create().parse(name, args=arguments, unsaved_files=[(name, blanked)])
    except cindex.TranslationUnitLoadError as error:
        raise EvolveError("syntax-error", "clang cannot parse this file", file=name) from error
    for read in unit.get_includes():
        if read.include.name != str(_PRELUDE):
            line = read.location.line
            raise EvolveError("syntax-error", "an #include that is written oddly", file=name, line=line)
    problems = tuple(
        Problem(d.severity, d.location.line, d.location.offset, d.spelling)
        for d in unit.diagnostics
        if d.severity >= 3 and d.location.file is not None
    )
    return Parsed(source, text, unit.cursor, problems, unit, Origins(source, text))


def kind(cursor: Any) -> str:
    """The cursor kind's name. Kinds newer than the Python binding are `UNKNOWN`."""
    try:
        return str(cursor.kind.name)
    except ValueError:
        return "UNKNOWN"


def children(cursor: Any) -> list[Any]:
    """Direct children."""
    return list(cursor.get_children())
