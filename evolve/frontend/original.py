"""The file's device code: what is compiled when the kernel runs as the user wrote it."""

from __future__ import annotations

import re
from typing import Any

from evolve.frontend.clang import Parsed, children, kind
from evolve.frontend.includes import LINE
from evolve.frontend.locate import Found, top_level
from evolve.frontend.refuse import RefusalError

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n?", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\n|[^\n])*\n", re.MULTILINE)
_MACROS = {
    "INFINITY": "__int_as_float(0x7f800000)",
    "HUGE_VALF": "__int_as_float(0x7f800000)",
    "CUDART_INF_F": "__int_as_float(0x7f800000)",
    "NAN": "__int_as_float(0x7fffffff)",
    "FLT_MAX": "3.402823466e+38F",
    "FLT_MIN": "1.175494351e-38F",
    "FLT_EPSILON": "1.192092896e-07F",
    "DBL_MAX": "1.7976931348623158e+308",
    "DBL_EPSILON": "2.2204460492503131e-16",
    "INT_MAX": "2147483647",
    "INT_MIN": "(-2147483647 - 1)",
    "UINT_MAX": "4294967295u",
    "M_PI": "3.14159265358979323846",
    "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
    "M_2_SQRTPI": "1.12837916709551257390",
    "M_E": "2.7182818284590452354",
    "M_LOG2E": "1.4426950408889634074",
    "M_LN2": "0.69314718055994530942",
}
"""Macros of the usual headers, defined where the text uses them: run-time compilation has no headers."""
_NOTHING = r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*"
_EMPTY_CONDITION = re.compile(
    rf"^[ \t]*#[ \t]*if[^\n]*\n{_NOTHING}(?:#[ \t]*(?:else|elif)\b[^\n]*\n{_NOTHING})*"
    r"#[ \t]*endif\b[^\n]*\n?",
    re.MULTILINE,
)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:(?:\\\n|[^\n])*)", re.MULTILINE)
_OF_THE_PLACE = re.compile(r"\b(__LINE__|__FILE__|__COUNTER__|__DATE__|__TIME__|__cplusplus)\b")
_PROMOTING = ("pow", "fmod", "atan2", "hypot", "fmax", "fmin", "copysign")
_CSTDINT = {
    "int8_t": "signed char",
    "int16_t": "short",
    "int32_t": "int",
    "int64_t": "long long",
    "uint8_t": "unsigned char",
    "uint16_t": "unsigned short",
    "uint32_t": "unsigned int",
    "uint64_t": "unsigned long long",
}
"""Types of <cstdint>, which run-time compilation does not have; host execution brings them."""
_TYPES = {"uint": "unsigned int", "uchar": "unsigned char", "ushort": "unsigned short"}
"""Types of no standard header; to define one again is no error."""


def device_text(parsed: Parsed, kernel: Found) -> str:
    """The file without host code, other kernels and includes; headers' macros that it uses are defined.

    Raises RefusalError where the text says different things to different compilers.
    """
    needed = _reachable(parsed, kernel)
    raw = parsed.text.encode()
    spans: list[tuple[int, int]] = []
    kept: set[tuple[int, int]] = set()
    for c, _ in top_level(parsed):
        span = (c.extent.start.offset, _end(raw, c.extent.end.offset))
        if c.hash in needed or kind(c) in ("STATIC_ASSERT",):
            kept.add(span)
        spans.append(span)
    text = bytearray(raw)
    for start, end in sorted(set(spans) - kept, reverse=True):
        if any((start <= a and b <= end) or (a <= start and end <= b) for a, b in kept):
            continue
        text[start:end] = b""
    body = LINE.sub("", _INCLUDE.sub("", text.decode()))
    body = re.sub(r"/\*\s*evolve\b.*?\*/[ \t]*\n?", "", body, flags=re.DOTALL)
    body = re.sub(r"^[ \t]*using namespace [^;]*;[ \t]*\n", "", body, flags=re.MULTILINE)
    body = re.sub(r"\n[ \t]*\n([ \t]*\n)+", "\n\n", body).strip("\n") + "\n"
    body = _without_unused_macros(_without_empty_conditions(body))
    _refuse_compilers_own(body, kernel)
    return _prelude(body) + _overloads(parsed, needed) + body


def read_only(kernel: Found) -> tuple[str, ...]:
    """Pointer parameters that the kernel's signature declares const."""
    out = []
    for c in children(kernel.cursor):
        if kind(c) == "PARM_DECL":
            t = c.type.get_canonical()
            if t.kind.name == "POINTER" and t.get_pointee().is_const_qualified():
                out.append(c.spelling)
    return tuple(out)


def _without_empty_conditions(body: str) -> str:
    """`#if` … `#endif` around what was taken out, or around comments."""
    while True:
        shorter = _EMPTY_CONDITION.sub("", body)
        if shorter == body:
            return body
        body = shorter


def _refuse_compilers_own(body: str, kernel: Found) -> None:
    """Raises RefusalError for macros that clang, which lifts, and the GPU's compiler define differently."""
    own = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", body, re.MULTILINE))
    names = {n for m in _CONDITION.finditer(body) for n in re.findall(r"\b_\w+", m.group())} - own
    names |= set(_OF_THE_PLACE.findall(body))
    if names:
        what = "its value depends on the compiler or on where the text stands"
        raise RefusalError(kernel.line, f"macro {min(names)}", what)


def _without_unused_macros(body: str) -> str:
    """Macros that nothing else in the text mentions are host code's."""
    while True:
        for m in _DEFINE.finditer(body):
            if len(re.findall(rf"\b{m.group(1)}\b", body)) == 1:
                body = body[: m.start()] + body[m.end() :]
                break
        else:
            return re.sub(r"\n\n\n+", "\n\n", body).lstrip("\n")


def _end(raw: bytes, at: int) -> int:
    """Past the semicolon that ends a declaration."""
    k = at
    while k < len(raw) and raw[k : k + 1] in (b" ", b"\t", b"\n"):
        k += 1
    return k + 1 if raw[k : k + 1] == b";" else at


def _prelude(body: str) -> str:
    lines: list[str] = []
    for name, value in _MACROS.items():
        if re.search(rf"\b{name}\b", body):
            lines += [f"#ifndef {name}", f"#define {name} {value}", "#endif"]
    integers = _typedefs(_CSTDINT, body)
    if integers:
        lines += [
            "#ifdef __CUDACC_RTC__",
            *integers,
            "#elif defined(__CUDACC__)",
            "#include <cstdint>",
            "#endif",
        ]
    lines += _typedefs(_TYPES, body)
    return "\n".join(lines) + "\n\n" if lines else ""


def _typedefs(types: dict[str, str], body: str) -> list[str]:
    """Definitions of those of the types that the text uses and does not define itself."""
    own = set(re.findall(r"\btypedef\b[^;]*\b(\w+)\s*;|\b(?:using|struct|enum|class)\s+(\w+)", body))
    names = types.keys() - {name for pair in own for name in pair}
    return [
        f"typedef {t} {name};"
        for name, t in types.items()
        if name in names and re.search(rf"\b{name}\b", body)
    ]


def _overloads(parsed: Parsed, needed: set[int]) -> str:
    """Definitions of the calls with a float beside a double: run-time compilation has only their likes."""
    found: set[tuple[str, str, str]] = set()
    for c, _ in top_level(parsed):
        if c.hash not in needed:
            continue
        for target in _references(c):
            types = [p.type.get_canonical().spelling for p in target.get_arguments() if p is not None]
            if target.spelling in _PROMOTING and sorted(types) == ["double", "float"]:
                found.add((target.spelling, types[0], types[1]))
    lines = [
        f"inline __host__ __device__ double {name}({a} a, {b} b) {{ return {name}((double)a, (double)b); }}"
        for name, a, b in sorted(found)
    ]
    return "\n".join(lines) + "\n\n" if lines else ""


def _reachable(parsed: Parsed, kernel: Found) -> set[int]:
    """Declarations of the file that the kernel needs, itself included."""
    own = {c.hash: c for c, _ in top_level(parsed)}
    seen: set[int] = set()
    work = [kernel.cursor]
    while work:
        c = work.pop()
        if c.hash in seen:
            continue
        seen.add(c.hash)
        for d in _references(c):
            for target in (d, d.get_definition()):
                if target is not None:
                    if kind(target) == "ENUM_CONSTANT_DECL":
                        target = target.semantic_parent
                    if target.hash in own and target.hash not in seen:
                        work.append(target)
    return seen


def _references(c: Any) -> list[Any]:
    out = []
    for x in c.walk_preorder():
        if kind(x) in ("DECL_REF_EXPR", "TYPE_REF", "CALL_EXPR", "TEMPLATE_REF", "MEMBER_REF_EXPR"):
            target = x.referenced
            if target is not None:
                out.append(target)
    return out


def kept_definitions(parsed: Parsed, kernel: Found) -> list[Any]:
    """Cursors of the functions that the kernel needs, for checking errors inside them."""
    needed = _reachable(parsed, kernel)
    return [c for c, _ in top_level(parsed) if c.hash in needed]
