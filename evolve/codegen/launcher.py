"""A host function that launches the right variant: what makes the text of a module usable by a program.

NVRTC skips it; nvcc and clang compile it. It is added to the file that a person takes away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from evolve.codegen.ctext import COMPARED, MULTIPLIED, CountText, ExprText
from evolve.codegen.names import Names, identifiers
from evolve.codegen.original import launcher_name, without_literals
from evolve.codegen.rendered import Param, Rendered, RenderedLaunch, RenderedVariant
from evolve.codegen.wrap import WIDTH, wrapped
from evolve.ir.affine import Ranges
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Expr, Load, index
from evolve.ir.printer import print_expr
from evolve.ir.scope import conjuncts
from evolve.ir.types import DType
from evolve.ir.visit import variables

_BEYOND = 9.0e18
"""What a `long long` can still hold."""


def render_launcher(rendered: Rendered, params: tuple[Param, ...]) -> str:
    """`cudaError_t launch_<kernel>(parameters, cudaStream_t stream)`.

    `params` are the original kernel's. The first variant whose condition holds, and whose arrays are
    there, aligned and apart as its text needs, is launched, else the original; an empty grid launches
    nothing. Scratch memory is allocated in the stream's order and given back behind the launches. Macros of
    the text end with it.
    """
    taken = identifiers(rendered.text)
    names = Names(taken - {p.name for p in params})
    function = names.fresh(launcher_name(rendered.original.kernel))
    own = {p.name: names.of(p.name) for p in params}
    # Sizes are computed with in 64 bits; floats are compared as they are.
    sizes = [p for p in params if not p.is_pointer and not p.dtype.is_float]
    wide = own | {p.name: names.fresh(f"{own[p.name]}_") for p in sizes}
    stream = names.fresh("stream")
    head = [
        f"inline cudaError_t {function}(",
        *(f"    {_declaration(p, own[p.name])}," for p in params),
        f"    cudaStream_t {stream} = 0",
        ") {",
    ]
    body: list[str] = []
    apart, allowed = names.fresh("apart"), names.fresh("allowed")
    block, failed = names.fresh("workspace"), names.fresh("failed")
    for v in rendered.variants:
        aligned = _aligned(v)
        terms = [
            (f"(unsigned long long){own[n]} % {size} == 0", f"for accesses of {size} bytes")
            for n, size in aligned.items()
            if n in own
        ]
        terms += [(f"{own[n]} != nullptr", "read whatever the flags say") for n in v.needed]
        guard = [t for t in conjuncts((v.guard,)) if t != TRUE]
        terms += [(_condition(t, wide), v.reasons.get(t, "")) for t in guard]
        # After the guard, which keeps the byte counts within 64 bits.
        terms += [
            (f"{apart}({own[a.name]}, {_bytes(a, wide)}, {own[b.name]}, {_bytes(b, wide)})", "__restrict__")
            for a, b in _must_be_apart(v, params)
        ]
        # Last, since it asks the driver. Where a GPU has less shared memory the next variant may do.
        terms += [
            (f"{allowed}({x.kernel}, {x.shared_bytes})", "the GPU has the shared memory")
            for x in v.launches
            if x.shared_bytes
        ]
        body += _asked(terms)
        shared = {p.name: p for x in v.launches for p in x.params if p.is_scratch}
        at = {name: names.fresh(name) for name in shared}
        body += _allocated(shared, at, wide, (block, failed, stream))
        for launch in v.launches:
            body += _launch(launch, own | at, wide, stream, "        ")
        body += [
            f"        {failed} = cudaGetLastError();",
            f"        cudaFreeAsync({block}, {stream});",
        ] * bool(at)
        body += [f"        return {failed if at else 'cudaGetLastError()'};", "    }"]
        if not terms:
            break
    else:
        body += [*_launch(rendered.original, own, wide, stream, "    "), "    return cudaGetLastError();"]
    used = identifiers("\n".join(body))
    said = _said(rendered, params, rendered.original.kernel in used)
    lines = ["#ifndef __CUDACC_RTC__", *(x for t in said for x in wrapped(f"// {t}")), *head]
    lines += [
        f"    const long long {wide[p.name]} = {_widened(p, own[p.name])};"
        for p in sizes
        if wide[p.name] in used
    ]
    if apart in used:
        lines += [
            f"    const auto {apart} = "
            "[](const void* a, long long a_size, const void* b, long long b_size) {",
            "        return (const char*)a + a_size <= b || (const char*)b + b_size <= a;",
            "    };",
        ]
    if allowed in used:
        lines += [
            f"    const auto {allowed} = [](auto* kernel, int shared) {{",
            "        const cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;",
            "        if (cudaFuncSetAttribute(kernel, most, shared) == cudaSuccess) return true;",
            "        cudaGetLastError();  // refused, and no failure of the launch",
            "        return false;",
            "    };",
        ]
    end = ["}", "#endif"]
    return "\n".join([*lines, *body, *end, *(f"#undef {m}" for m in _macros(rendered.text))]) + "\n"


def _widened(p: Param, name: str) -> str:
    return f"(long long){name}" if p.dtype is DType.U64 else name


def _asked(terms: list[tuple[str, str]]) -> list[str]:
    """`if (` terms `) {`, a line each; of terms for one reason the first says it."""
    if not terms:
        return ["    {"]
    lines, said = list[str](), ""
    for i, (term, why) in enumerate(terms):
        end = ") {" if i == len(terms) - 1 else ""
        code = f"{'        && ' if i else '    if ('}{term}{end}"
        fresh = f"{code}  // {why}" if why and why != said else code
        if len(fresh) > WIDTH:
            *before, code = wrapped(fresh)
            lines += before
            fresh = code
        lines.append(fresh)
        said = why
    return lines


def _said(rendered: Rendered, params: tuple[Param, ...], falls_back: bool) -> Iterator[str]:
    """What the launcher does."""
    names = [x.kernel for v in rendered.variants for x in v.launches]
    if not names:
        launched = rendered.original.kernel
    elif falls_back:
        launched = f"{', '.join(names)} where all that is asked below holds, else {rendered.original.kernel}"
    else:
        launched = ", ".join(names)
    yield f"Launches {launched}. Returns the error of the launch."
    yield from _unchecked(rendered, params)


def _unchecked(rendered: Rendered, params: tuple[Param, ...]) -> Iterator[str]:
    """Which arrays may overlap others without the launcher's knowing."""
    names = [p.name for p in params if p.is_pointer and not p.extents]
    if rendered.variants and names:
        yield f"How long {' and '.join(names)} must be, no parameter says: that the caller's do not overlap"
        yield "what a kernel writes is not checked, and must be so."


def _macros(text: str) -> list[str]:
    """Macros that the text defines, but for those that yield to an earlier definition and for empty ones,
    which mark what was included."""
    plain = without_literals(text)
    yielding = set(re.findall(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)", plain, re.MULTILINE))
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t]+\S", plain, re.MULTILINE)
    return [name for name in dict.fromkeys(found) if name not in yielding]


def _allocated(
    shared: dict[str, Param], at: dict[str, str], wide: dict[str, str], names: tuple[str, str, str]
) -> list[str]:
    """Lines that allocate scratch memory in one block, each array at a multiple of 256 bytes in it."""
    if not shared:
        return []
    block, failed, stream = names
    sizes = [f"({_bytes(p, wide)} + 255) / 256 * 256" for p in shared.values()]
    lines = [
        f"char* {block} = nullptr;",
        f"cudaError_t {failed} = cudaMallocAsync((void**)&{block}, {' + '.join(sizes)}, {stream});",
        f"if ({failed} != cudaSuccess) return {failed};",
    ]
    for i, p in enumerate(shared.values()):
        start = " + ".join([block, *sizes[:i]])
        lines.append(f"{p.dtype.c_name}* const {at[p.name]} = ({p.dtype.c_name}*)({start});")
    return [f"        {t}" for t in lines]


def _aligned(v: RenderedVariant) -> dict[str, int]:
    """The bytes that addresses must be multiples of, for the widest access in any launch."""
    found: dict[str, int] = {}
    for p in (p for x in v.launches for p in x.params if p.aligned):
        found[p.name] = max(p.aligned, found.get(p.name, 0))
    return found


def _must_be_apart(v: RenderedVariant, params: tuple[Param, ...]) -> list[tuple[Param, Param]]:
    """Pairs of arrays of which the variant writes at least one: its pointers are `__restrict__`."""
    arrays = [p for p in params if p.is_pointer and p.extents]
    written = {p.name for x in v.launches for p in x.params if p.is_pointer and not p.is_const}
    return [(a, b) for a, b in combinations(arrays, 2) if {a.name, b.name} & written]


def _bytes(p: Param, wide: dict[str, str]) -> str:
    # The first factor makes the whole product 64 bits wide.
    return " * ".join([f"{p.dtype.size}LL", *(_text(e, wide, MULTIPLIED) for e in p.extents)])


def _declaration(p: Param, name: str) -> str:
    if not p.is_pointer:
        return f"{p.dtype.c_name} {name}"
    return f"{'const ' if p.is_const else ''}{p.dtype.c_name}* {name}"


def _condition(e: Expr, wide: dict[str, str]) -> str:
    """The text of one condition of a guard.

    That what the source computes in `size_t` does not wrap may be a bound that no `long long` reaches: there
    the sizes are multiplied as doubles, and what is asked is a bound well below.
    """
    match e:
        case Binary(op=BinaryOp.LE, lhs=lhs, rhs=Const(value=limit)) if limit > _BEYOND:
            sizes = {n: f"(double){wide[n]}" for n in variables(lhs)}
            return f"{_text(lhs, sizes, COMPARED)} <= {_BEYOND:.1e}"
    return _text(e, wide, 2)


def _text(e: Expr, wide: dict[str, str], outer: int, *, launch: bool = False) -> str:
    def load(x: Load) -> str:
        return print_expr(x)

    known = Ranges(dict.fromkeys(variables(e), (1, None)), {})
    kind = CountText if launch else ExprText
    return kind(lambda n: wide[n], load, known).text(e, outer)


def _launch(x: RenderedLaunch, own: dict[str, str], wide: dict[str, str], stream: str, pad: str) -> list[str]:
    dims = []
    for three in (x.grid, x.block):
        kept = list(three)
        while len(kept) > 1 and kept[-1] == index(1):
            kept.pop()
        dims.append([_text(e, wide, 8, launch=True) for e in kept])
    grid, block = (f"dim3({', '.join(map(_unsigned, d))})" for d in dims)
    arguments = ", ".join(own[p.name] for p in x.params)
    some = " && ".join(f"{t} > 0" for t in dims[0] if not t.isdigit())
    call = f"{x.kernel}<<<{grid}, {block}, {x.shared_bytes}, {stream}>>>({arguments});"
    asked = []
    if x.carveout is not None:
        what = f"{x.kernel}, cudaFuncAttributePreferredSharedMemoryCarveout, {x.carveout}"
        asked = [
            f"{pad}if (cudaFuncSetAttribute({what}) != cudaSuccess) cudaGetLastError();  // a preference"
        ]
    if not some:
        return [*asked, *wrapped(pad + call)]
    return [*asked, *wrapped(f"{pad}if ({some}) {{"), *wrapped(f"{pad}    {call}"), f"{pad}}}"]


def _unsigned(text: str) -> str:
    if text.isdigit():
        return text
    return f"(unsigned int){text}" if text.isidentifier() else f"(unsigned int)({text})"
