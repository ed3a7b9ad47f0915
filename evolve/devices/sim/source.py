"""Device text to host C++: keep the device code, drop host code, place `__shared__` arrays.

Line numbers are kept: every change stays on its line, dropped text becomes blanks.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from evolve.codegen.hinted import CONDITION
from evolve.ir.errors import EvolveError

_IDENT = re.compile(r"[A-Za-z_]\w*")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.M)  # on masked text
_SHARED = re.compile(r"\b__shared__\b")
_ALIGN = re.compile(r"\b__align__\s*\(\s*\d+\s*\)")
_LAID = re.compile(
    r"(\w+(?: \w+)*) \(&(\w+)\)((?:\[\d+\])+) = \*reinterpret_cast<\1 \(\*\)\3>\((\w+) \+ (\d+)\)"
)
"""An array laid at an offset of dynamic shared memory."""
_KNOWN_HEADERS = frozenset(
    word
    for line in (
        "cuda_runtime.h cuda.h cuda_runtime_api.h device_launch_parameters.h math_constants.h vector_types.h",
        "math.h cmath float.h cfloat limits limits.h climits stdint.h cstdint",
        "stddef.h cstddef stdio.h",
        "cstdio stdlib.h cstdlib assert.h cassert",
        "cuda_pipeline.h string.h cstring iostream vector algorithm chrono random string",
        "time.h ctime memory utility functional numeric iomanip sstream fstream",
    )
    for word in line.split()
)
_KEPT_STARTS = frozenset(
    ("struct", "class", "union", "enum", "typedef", "using", "template", "constexpr", "static_assert")
)


@dataclass(frozen=True)
class SharedDecl:
    """One `__shared__` declarator. `id` is 0 for the dynamic array, else counts from 1."""

    id: int
    name: str
    line: int


@dataclass(frozen=True)
class HostSource:
    """`text` compiles as host C++ after the device header; `shared` lists its shared arrays."""

    text: str
    shared: tuple[SharedDecl, ...]


def mask(text: str) -> str:
    """`text` with comments, string and character literals blanked, offsets and newlines kept."""
    out = list(text)
    i, n = 0, len(text)

    def blank(a: int, b: int) -> None:
        for k in range(a, min(b, n)):
            if out[k] != "\n":
                out[k] = " "

    while i < n:
        two = text[i : i + 2]
        if two == "//":
            end = text.find("\n", i)
            while end > 0 and text[end - 1] == "\\":
                end = text.find("\n", end + 1)
            end = n if end < 0 else end
            blank(i, end)
            i = end
        elif two == "/*":
            end = text.find("*/", i + 2)
            end = n if end < 0 else end + 2
            blank(i, end)
            i = end
        elif text[i] in "\"'" and not (text[i] == "'" and i > 0 and text[i - 1].isalnum()):
            quote, k = text[i], i + 1
            while k < n and text[k] != quote and text[k] != "\n":
                k += 2 if text[k] == "\\" else 1
            blank(i + 1, k)
            i = k + 1
        else:
            i += 1
    return "".join(out)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _blank(chars: list[str], a: int, b: int) -> None:
    for k in range(a, b):
        if chars[k] != "\n":
            chars[k] = " "


_FOR_NVRTC = (("ifdef", "__CUDACC_RTC__"), ("if", CONDITION))
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if\w*|else|elif|endif)\b[ \t]*([^\n]*)", re.M)  # on masked text


def _without_nvrtc(text: str) -> str:
    """What stands behind a condition for NVRTC, up to its `#else` or `#endif`, blanked."""
    chars, depth, begin = list(text), 0, -1
    for m in _DIRECTIVE.finditer(mask(text)):
        word, what = m.group(1), m.group(2).strip()
        if begin < 0:
            if (word, what) in _FOR_NVRTC:
                depth, begin = 0, m.end()
        elif word.startswith("if"):
            depth += 1
        elif depth == 0:
            _blank(chars, begin, m.start())
            begin = -1
        elif word == "endif":
            depth -= 1
    return "".join(chars)


def _refuse(text: str, masked: str) -> None:
    for m in _INCLUDE.finditer(masked):
        named = re.search(r'[<"]([^>"\n]*)[>"]', text[m.start() : m.end()])
        name = named.group(1) if named else text[m.start() : m.end()].strip()
        if name.split("/")[-1] not in _KNOWN_HEADERS:
            raise EvolveError(
                "sim.include",
                f"host execution has no header {name!r}",
                line=_line(text, m.start()),
                hint="device code may use the CUDA built-ins and the C math functions",
            )
    m2 = re.search(r"\b(asm|__asm__|__asm)\b", masked)
    if m2:
        raise EvolveError(
            "sim.asm", "host execution cannot run inline assembly", line=_line(text, m2.start())
        )


def _match(masked: str, at: int, opening: str, closing: str) -> int:
    depth = 0
    for k in range(at, len(masked)):
        if masked[k] == opening:
            depth += 1
        elif masked[k] == closing:
            depth -= 1
            if depth == 0:
                return k
    raise EvolveError("sim.syntax", f"unbalanced {opening!r}", line=_line(masked, at))


def _strip_directives(masked: str) -> str:
    """Blank preprocessor lines (with continuations), so that the item scanner sees declarations only."""
    chars = list(masked)
    for m in re.finditer(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", masked, re.M):
        _blank(chars, m.start(), m.end())
    return "".join(chars)


def _drop_host_items(chars: list[str], scan: str, begin: int, end: int) -> None:
    """Blank top-level functions (and variables with initialisers that call) that are not for the device."""
    i = begin
    while i < end:
        if scan[i].isspace() or scan[i] == ";":
            i += 1
            continue
        start = i
        block = re.match(r'(extern\s*"\s*"\s*|(?:inline\s+)?namespace\b\s*\w*\s*)\{', scan[start:end])
        if block:
            body = start + block.end() - 1
            close = _match(scan, body, "{", "}")
            _drop_host_items(chars, scan, body + 1, close)
            i = close + 1
            continue
        paren = False
        while i < end and scan[i] not in ";{":
            if scan[i] == "(":
                paren = True
                i = _match(scan, i, "(", ")")
            i += 1
        head = scan[start:i]
        words = set(_IDENT.findall(head))
        function = paren and i < end and scan[i] == "{" and "=" not in re.sub(r"\([^()]*\)|[=!<>]=", "", head)
        if i < end and scan[i] == "{":
            i = _match(scan, i, "{", "}") + 1
            if not function:
                while i < end and scan[i] != ";":
                    i += 1
                i = min(i + 1, end)
        else:
            i = min(i + 1, end)
        device = words & {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}
        first = _IDENT.match(head)
        kept = (
            first is not None
            and first.group() in _KEPT_STARTS
            and not (first.group() == "template" and function)
        )
        plain = not paren and (words & {"const", "constexpr"})
        if not device and not (kept or "constexpr" in words or plain):
            _blank(chars, start, i)


def _split_top(text: str) -> list[tuple[int, int]]:
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        if c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append((start, k))
            start = k + 1
    parts.append((start, len(text)))
    return parts


def _place_shared(text: str, masked: str) -> tuple[str, tuple[SharedDecl, ...]]:
    """Rewrite each `__shared__` declaration as a reference into the runtime's shared arena."""
    out: list[str] = []
    decls: list[SharedDecl] = []
    done = 0
    for m in _SHARED.finditer(masked):
        if m.start() < done:
            continue
        end = masked.find(";", m.end())
        line = _line(text, m.start())
        if end < 0:
            raise EvolveError("sim.shared", "a __shared__ declaration needs a ';'", line=line)
        begin = m.start()
        before = re.search(r"(?:\b(?:extern|static|volatile|const)\s+)*$", masked[:begin])
        assert before is not None
        begin = before.start()
        words = masked[begin : m.start()]
        body, body_masked = text[m.end() : end], masked[m.end() : end]
        volatile = "volatile " if "volatile" in words else ""
        pieces = []
        base = ""
        for index, (a, b) in enumerate(_split_top(body_masked)):
            part = body_masked[a:b]
            bracket = part.find("[")
            head = part if bracket < 0 else part[:bracket]
            names = list(_IDENT.finditer(head))
            if not names or "=" in part:
                raise EvolveError(
                    "sim.shared",
                    "host execution cannot read this __shared__ declaration",
                    line=line,
                    hint="write `__shared__ type name[extent];`",
                )
            name = names[-1]
            if index == 0:
                base = body[a : a + name.start()]
            dims = body[a + name.end() : b]
            word = name.group()
            if "extern" in words:
                decls.append(SharedDecl(0, word, line))
                base = _ALIGN.sub("", base)
                pieces.append(f"static {volatile}{base}* const {word} = ({volatile}{base}*)EV_DYNAMIC_SHARED")
            else:
                ident = len(decls) + 1
                decls.append(SharedDecl(ident, word, line))
                pieces.append(
                    f"typedef {volatile}{base} ev_t{ident}_{word}{dims}; ev_t{ident}_{word}& {word} = "
                    f"*(ev_t{ident}_{word}*)ev_shared({ident}, sizeof(ev_t{ident}_{word}), "
                    f"alignof(ev_t{ident}_{word}))"
                )
        out.append(text[done:begin])
        out.append("; ".join(pieces).replace("\n", " "))
        out.append("\n" * text.count("\n", begin, end))
        done = end
    out.append(text[done:])
    return _lay_apart("".join(out), decls), tuple(decls)


def _lay_apart(text: str, decls: list[SharedDecl]) -> str:
    """Arrays laid into a dynamic array that is used for nothing else get places of their own.

    So each is checked for itself; the runtime looks whether they are apart where the text lays them.
    """
    masked = mask(text)
    laid = list(_LAID.finditer(masked))
    out, done = list[str](), 0
    for name in {d.name for d in decls if d.id == 0}:
        inside = [m for m in laid if m.group(4) == name]
        if len(re.findall(rf"\b{name}\b", masked)) != len(inside) + 1:
            laid = [m for m in laid if m not in inside]
    for m in laid:
        kind, name, dims, _, offset = m.groups()
        ident, line = len(decls) + 1, _line(text, m.start())
        decls.append(SharedDecl(ident, name, line))
        own = f"ev_t{ident}_{name}"
        out.append(text[done : m.start()])
        out.append(
            f"typedef {kind} {own}{dims}; {own}& {name} = "
            f"*({own}*)ev_placed({ident}, {offset}, sizeof({own}), {line})"
        )
        done = m.end()
    return "".join([*out, text[done:]])


@functools.lru_cache(maxsize=32)
def prepare(text: str, entries: tuple[str, ...]) -> HostSource:
    """Host C++ for the kernels `entries` of CUDA `text`, remembered: a text runs at many sizes.

    Raises EvolveError `sim.include`, `sim.asm`, `sim.shared`, `sim.syntax`, `sim.entry` with the line.
    """
    text = _without_nvrtc(text)
    masked = mask(text)
    _refuse(text, masked)
    chars = list(text)
    for m in _INCLUDE.finditer(masked):
        _blank(chars, m.start(), m.end())
    for m in re.finditer(r"^[ \t]*#[ \t]*line\b[^\n]*", masked, re.M):
        _blank(chars, m.start(), m.end())
    _drop_host_items(chars, _strip_directives(masked), 0, len(masked))
    kept = "".join(chars)
    masked = mask(kept)
    for name in entries:
        if not re.search(rf"\b{re.escape(name)}\b", masked):
            raise EvolveError("sim.entry", f"there is no kernel {name!r} in the text")
    placed, shared = _place_shared(kept, masked)
    return HostSource(placed, shared)
