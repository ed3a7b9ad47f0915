"""What a text leaves to the preprocessor: PTX where NVRTC and nvcc compile it, plain C++ elsewhere.

The tree is read from the plain side. That the other side means the same is shown here: texts that are always
the same by their hashes, accesses with hints by what their one instruction says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from evolve.ir.types import DType
from evolve.validation.text import Function, Pointer
from evolve.validation.verdict import DifferenceError, UnreadError

KNOWN = {
    "197af4ddef36b28514c88e5d7e886c1b503edefc5cf6aaa4d1c6e05ffcae45e9": "asynchronous copies",
    "33d049de1ea9dcff3f07ec611aba51bbe4800f2f5e2a83a7259a7c8cbaf5ecc4": "a request to L2",
    "031c6fa4e89992671a8ca94ba39ff560a500d71ca0a21629621e4f676fe83478": "INFINITY",
    "167cb31d672f0cf036883de4903a7543fdeee3362ca4dd3efddc9f2470c3c7d9": "NAN",
}
"""SHA-256 of directives with what is between them, comments and indentation left out, and what they are."""

CONVERSIONS = {
    "2cb52b7fd483293905b95f41eb2a88535959c4a160636a4938253981180ec2e0": (DType.F32, DType.BF16),
    "c89a44fab5b7ebfa49d8605ac9288fb5bbaafcdbbf5f67b77edb8ef052069a7d": (DType.BF16, DType.F32),
}
"""SHA-256 of functions that convert, from their parameters on, and between which types they do."""

_REGISTERS = {
    "float": ("f", "float", "f32"),
    "double": ("d", "double", "f64"),
    "int": ("r", "int", "s32"),
    "unsigned int": ("r", "unsigned int", "u32"),
    "uint": ("r", "unsigned int", "u32"),
    "long long": ("l", "long long", "s64"),
    "unsigned long long": ("l", "unsigned long long", "u64"),
    "unsigned char": ("r", "unsigned int", "u8"),
    "uchar": ("r", "unsigned int", "u8"),
}
"""Of an element type: the letter of an asm operand, the C type that it holds, the instruction's type."""
_CONDITION = "#if defined(__CUDACC_RTC__) || defined(__NVCC__)"
_PROMISE = re.compile(r"__attribute|__declspec|_Pragma|\[\s*\[|\basm\b|__asm")
"""What tells a compiler what the tree does not show: that a call has no effect, how memory is aligned."""
_CODE = (
    r"(?P<op>ld|st)\.global(\.cs|\.cg)?(?P<nc>\.nc)?(\.L1::\w+)?(?P<hint>\.L2::cache_hint)?"
    r"(\.v(?P<v>[24]))?\.(?P<t>\w+)"
)
_POLICY = r"\{ \.reg \.b64 policy; createpolicy\.fractional\.L2::evict_(first|last)\.b64 policy, 1\.0; "
_LOAD = re.compile(
    r"#define (?P<name>\w+)\(address\) \(\[\]\(const (?P<kind>[\w ]+)\* at\) "
    r"\{ (?P<holds>[\w ]+?) (?P<outs>[xyzw](, [xyzw])*); "
    r'asm(?P<volatile> volatile)?\("(?P<code>[^"]*)" : (?P<operands>.*?) '
    r': "l"\(__cvta_generic_to_global\(at\)\)'
    r'(?P<memory> : "memory")?\); return (?P<result>.*); \}\(address\)\)'
)
_STORE = re.compile(
    r"#define (?P<name>\w+)\(address, content\) \[\]\(void\* at, (?P<kind>[\w ]+) value\) \{ "
    r'asm(?P<volatile> volatile)\("(?P<code>[^"]*)" '
    r':: "l"\(__cvta_generic_to_global\(at\)\), (?P<operands>.*?)'
    r'(?P<memory> : "memory")\); \}\(address, content\)'
)


def check_directives(text: str, functions: list[Function]) -> None:
    """Raises UnreadError for directives before the end of the functions whose meaning is not known."""
    last = max(f.line + f.text.count("\n") for f in functions)
    head = "\n".join(text.splitlines()[:last])
    if "/*" in head or "%:" in head or "??" in head:
        raise UnreadError("a comment or a directive that is written oddly")
    for block in _blocks(text.splitlines()[:last]):
        if hashlib.sha256(block.encode()).hexdigest() in KNOWN:
            continue
        name, constant = _access(block)
        _check_uses(name, functions, constant=constant)
        everywhere, known = (
            len(re.findall(rf"\b{name}\b", x)) for x in (head, "".join(f.text for f in functions))
        )
        # Its two definitions are the others.
        if everywhere != known + 2:
            raise UnreadError(f"{name} outside of a kernel")


def _blocks(lines: list[str]) -> Iterator[str]:
    """What directives enclose, one line a text line; conditions inside one another are one block."""
    depth, block = 0, list[str]()
    for line in lines:
        code = line.partition("//")[0].strip() if '"' not in line else line.strip()
        if code.startswith("#if"):
            depth += 1
        if depth and code:
            block.append(code)
        elif code.startswith("#") and code != "#pragma unroll":
            raise UnreadError(f"the directive {code}")
        elif not depth and (said := _PROMISE.search(code)):
            raise UnreadError(f"what is said to the compiler by {said[0]}")
        if code.startswith("#endif"):
            depth -= 1
            if not depth:
                yield "\n".join(block)
                block = []
    if depth:
        raise UnreadError("a condition of the preprocessor without its end")


def _access(block: str) -> tuple[str, bool]:
    """The name of the macro, and whether it loads what nobody may write. Raises UnreadError."""
    joined = re.sub(r" *\\\n", " ", block)
    lines = [re.sub(r'" +"', "", x) for x in joined.splitlines()]
    if len(lines) != 5 or lines[0] != _CONDITION or lines[2] != "#else" or lines[4] != "#endif":
        raise UnreadError("a condition of the preprocessor that is not known")
    m = _LOAD.fullmatch(lines[1]) or _STORE.fullmatch(lines[1])
    if m is None:
        raise UnreadError(f"the macro {lines[1][:60]}")
    load = m.re is _LOAD
    name = m["name"]
    plain = f"#define {name}(address) (*(address))"
    if not load:
        plain = f"#define {name}(address, content) ((void)(*(address) = (content)))"
    if lines[3] != plain:
        raise DifferenceError(f"{name} is not the plain access where there is no PTX")
    element, width = (m["kind"][:-1], int(m["kind"][-1])) if m["kind"][-1] in "24" else (m["kind"], 1)
    if element not in _REGISTERS:
        raise UnreadError(f"an access to {m['kind']}")
    letter, holds, ptx = _REGISTERS[element]
    lanes = "xyzw"[:width]
    code = re.fullmatch(rf"(?P<policy>{_POLICY})?{_CODE} (?P<args>[^;]*);(?P<end> \}})?", m["code"])
    if code is None:
        raise UnreadError(f"the instruction of {name}")
    right = code["t"] == ptx and (code["v"] or "1") == str(width) and code["op"] == ("ld" if load else "st")
    right = right and bool(code["hint"]) == bool(code["policy"]) == bool(code["end"])
    slots = [f"%{i + (0 if load else 1)}" for i in range(width)]
    values = slots[0] if width == 1 else f"{{{', '.join(slots)}}}"
    address = f"[%{width}]" if load else "[%0]"
    args = f"{values}, {address}" if load else f"{address}, {values}"
    right = right and code["args"] == args + (", policy" if code["policy"] else "")
    if load:
        made = f"({m['kind']})x" if width == 1 else f"make_{m['kind']}({', '.join(lanes)})"
        right = right and m["holds"] == holds and m["outs"] == ", ".join(lanes) and m["result"] == made
        right = right and m["operands"] == ", ".join(f'"={letter}"({x})' for x in lanes)
        right = right and bool(m["volatile"]) == bool(m["memory"]) == (not code["nc"])
    else:
        given = ["value"] if width == 1 else [f"value.{x}" for x in lanes]
        right = right and m["operands"] == ", ".join(f'"{letter}"(({holds}){x})' for x in given)
        right = right and not code["nc"]
    if not right:
        raise DifferenceError(f"the instruction of {name} is not its access")
    return name, bool(code["nc"])


def _check_uses(name: str, functions: list[Function], *, constant: bool) -> None:
    """Such accesses are to global memory; loads by the read-only path to what the function takes as const,
    which is then compared with what the kernel writes."""
    for f in functions:
        arrays = {p.name: p.key for p in f.params if isinstance(p.type, Pointer)}
        for use in re.finditer(rf"\b{name}\b", f.text):
            m = re.match(r"\(\s*(?:reinterpret_cast<(?:const )?\w+\*>\(\s*)?&(\w+)\[", f.text[use.end() :])
            if m is None or m[1] not in arrays:
                raise DifferenceError(f"{name} is not of an array in global memory", f.line)
            if constant and arrays[m[1]] not in f.readonly:
                raise DifferenceError(f"{name} loads what the kernel may write", f.line)


def conversion(f: Function) -> tuple[DType, DType] | None:
    """The types that a device function converts between, where it is one that does."""
    return CONVERSIONS.get(hashlib.sha256(f.text.partition("(")[2].encode()).hexdigest())


def threads_allowed(f: Function) -> int | None:
    """What `__launch_bounds__` lets a block have."""
    head = f.text.partition("{")[0]
    found = re.findall(r"__launch_bounds__\((\d+)(?:, \d+)?\)", head)
    if head.count("__launch_bounds__") != len(found) or len(found) > 1:
        raise UnreadError("launch bounds of another form", f.line)
    return int(found[0]) if found else None
