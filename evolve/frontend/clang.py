"""libclang: parsing CUDA without a CUDA toolkit, and the C functions its Python API leaves out.

Operator kinds and literal values come from libclang's own functions, never from tokens, which
are those of the macro's use and not of its expansion.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evolve.ir.errors import EvolveError

_STUBS = Path(__file__).with_name("stubs")
_PRELUDE = _STUBS / "evolve_cuda.h"
_MISSING_HEADER_ROUNDS = 64
MAX_SOURCE_BYTES = 4_000_000

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
    """A parsed file. `root` is the translation unit's cursor; `problems` the errors in the file itself."""

    path: Path
    text: str
    root: Any
    problems: tuple[Problem, ...]
    unit: Any


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
    """Parse a CUDA file, or `text` as though it stood at `path`.

    Headers that are not found are replaced by empty ones, one round after the other: clang stops
    at the first missing header and hides every later error.

    Raises EvolveError: no-file (missing, unreadable, not text, too large).
    """
    from clang import cindex

    source = Path(path)
    text = read_source(source) if text is None else text
    _library()
    arguments = [
        "-x", "cuda", "-std=c++17", "-nostdinc", "-nocudainc", "-nocudalib", "--cuda-host-only",
        "--cuda-gpu-arch=sm_70", "-ferror-limit=0", "-Wno-everything",
        "-include", str(_PRELUDE), "-isystem", str(_STUBS),
    ]  # fmt: skip
    index = cindex.Index.create()
    stubs: list[tuple[str, str]] = []
    name = str(source)
    for _ in range(_MISSING_HEADER_ROUNDS):
        try:
            unit = index.parse(name, args=arguments, unsaved_files=[(name, text), *stubs])
        except cindex.TranslationUnitLoadError as error:
            raise EvolveError("syntax-error", "clang cannot parse this file", file=name) from error
        missing = _missing_header(unit)
        if missing is None or any(s[0] == str(_STUBS / missing) for s in stubs):
            break
        stubs.append((str(_STUBS / missing), ""))
    problems = tuple(
        Problem(d.severity, d.location.line, d.location.offset, d.spelling)
        for d in unit.diagnostics
        if d.severity >= 3 and d.location.file is not None
    )
    return Parsed(source, text, unit.cursor, problems, unit)


def read_source(path: Path) -> str:
    """The text of a kernel file. Raises EvolveError no-file."""
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise EvolveError("no-file", f"{path} {what}", file=str(path), hint="give the path of a .cu file")
    try:
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise EvolveError("no-file", f"{path} is larger than {MAX_SOURCE_BYTES} bytes", file=str(path))
        data = path.read_bytes()
        if b"\0" in data:
            raise EvolveError("no-file", f"{path} is not a text file", file=str(path))
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvolveError("no-file", f"{path} is not UTF-8 text", file=str(path)) from error
    except OSError as error:
        raise EvolveError("no-file", f"{path} cannot be read: {error.strerror}", file=str(path)) from error


def _missing_header(unit: Any) -> str | None:
    for d in unit.diagnostics:
        if d.severity == 4 and d.spelling.endswith("file not found"):
            name: str = d.spelling.split("'")[1]
            return name
    return None


def kind(cursor: Any) -> str:
    """The cursor kind's name. Kinds newer than the Python binding are `UNKNOWN`."""
    try:
        return str(cursor.kind.name)
    except ValueError:
        return "UNKNOWN"


def children(cursor: Any) -> list[Any]:
    """Direct children."""
    return list(cursor.get_children())
