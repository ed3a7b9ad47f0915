"""The user's own kernel, verbatim but for `extern "C"`, so that its name in the binary is its name."""

from __future__ import annotations

import re

from evolve.codegen.errors import CodegenError
from evolve.codegen.rendered import Param, RenderedLaunch
from evolve.ir.kernel import Module, Original

_LITERALS = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*$", re.MULTILINE)


def render_original(original: Original) -> str:
    """The original's text with every declaration of the entry made `extern "C"`.

    Raises CodegenError when the entry is not found as a plain `__global__` function.
    """
    text = original.text
    blank = _blank(text)
    places = []
    found = False
    for m in re.finditer(rf"\b{re.escape(original.entry)}\s*\(", blank):
        start = _declaration_start(blank, m.start())
        declaration = blank[start : m.start()]
        if re.search(r"\b__global__\b", declaration) is None:
            continue
        if re.search(r"\btemplate\b", declaration):
            raise CodegenError(
                f"kernel {original.entry} is a template", hint="instantiate it under a plain name"
            )
        found = True
        if re.search(r'\bextern\s+"C"', text[start : m.start()]) is None:
            places.append(start + len(declaration) - len(declaration.lstrip()))
    if not found:
        raise CodegenError(f"kernel {original.entry} is not a plain __global__ function of its own source")
    for at in sorted(places, reverse=True):
        # `extern "C"` and `static` exclude each other, and a kernel of one file loses nothing by the change.
        rest = re.sub(r"^static\s+", "", text[at:])
        text = f'{text[:at]}extern "C" {rest}'
    return text


def _declaration_start(blank: str, at: int) -> int:
    """Where the declaration that holds `at` begins: after the last `;` or brace."""
    return max(blank.rfind(c, 0, at) for c in ";{}") + 1


def _blank(text: str) -> str:
    """Comments, literals and preprocessor lines as spaces: offsets stay, braces in them do not count."""
    for pattern in (_LITERALS, _DIRECTIVE):
        text = pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return text


def original_launch(module: Module) -> RenderedLaunch:
    """The launch of the original kernel."""
    o = module.original
    buffers = {b.name: b for b in module.buffers}
    scalars = {s.name: s for s in module.scalars}
    params = []
    for name in module.params:
        if name in buffers:
            b = buffers[name]
            params.append(Param(name, b.dtype, True, name in o.read_only, b.extents))
        else:
            params.append(Param(name, scalars[name].dtype, False))
    return RenderedLaunch(o.entry, tuple(params), o.grid, o.block, o.shared_bytes, "the original kernel")
