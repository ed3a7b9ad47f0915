"""The user's own kernel, verbatim but for `extern "C"`, so that its name in the binary is its name."""

from __future__ import annotations

import re

from evolve.codegen.errors import CodegenError
from evolve.codegen.rendered import Param, RenderedLaunch
from evolve.ir.kernel import Module, Original

_BLANKED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def render_original(original: Original) -> str:
    """The original's text with every declaration of the entry made `extern "C"`.

    Raises CodegenError when the entry is not found as a plain `__global__` function.
    """
    text = original.text
    blank = _blank(text)
    places = []
    for m in re.finditer(rf"\b{re.escape(original.entry)}\s*\(", blank):
        head = blank[: m.start()]
        start = max(head.rfind(c) for c in ";{}") + 1
        # A preprocessor line ends a declaration as well.
        for directive in re.finditer(r"^[ \t]*#(?:[^\n\\]|\\.)*$", head[start:], re.MULTILINE | re.DOTALL):
            start = max(start, start + directive.end()) if directive else start
        declaration = blank[start : m.start()]
        if re.search(r"\b__global__\b", declaration) is None:
            continue
        if re.search(r"\btemplate\b", declaration):
            raise CodegenError(
                f"kernel {original.entry} is a template", hint="instantiate it under a plain name"
            )
        if re.search(r'\bextern\s+"C"', text[start : m.start()]):
            continue
        places.append(start + len(declaration) - len(declaration.lstrip()))
    if not places and f"{original.entry}" not in blank:
        raise CodegenError(f"kernel {original.entry} is not in its own source")
    for at in sorted(places, reverse=True):
        rest = text[at:]
        # `extern "C"` and `static` exclude each other, and a kernel of one file loses nothing by the change.
        rest = re.sub(r"^static\s+", "", rest)
        text = f'{text[:at]}extern "C" {rest}'
    return text


def _blank(text: str) -> str:
    """Comments and literals replaced by spaces, so that offsets stay and braces in them do not count."""
    return _BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def original_launch(module: Module) -> RenderedLaunch:
    """The launch of the original kernel."""
    o = module.original
    buffers = {b.name: b for b in module.buffers}
    scalars = {s.name: s for s in module.scalars}
    params = []
    for name in module.params:
        if name in buffers:
            params.append(Param(name, buffers[name].dtype, True))
        else:
            params.append(Param(name, scalars[name].dtype, False))
    return RenderedLaunch(o.entry, tuple(params), o.grid, o.block, o.shared_bytes, "the original kernel")
