"""The user's own kernel, verbatim but for its name, which is `extern "C"` so that the binary has it as it is.

The name gets a suffix: `norm` and `round`, which C++ overloads, would clash with CUDA's as C functions.
"""

from __future__ import annotations

import re

from evolve.codegen.errors import CodegenError
from evolve.codegen.names import Names, identifiers
from evolve.codegen.rendered import Param, RenderedLaunch
from evolve.ir.kernel import Module, Original
from evolve.ir.visit import variables

_LITERALS = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*$", re.MULTILINE)


_SUFFIX = "_original"


def original_name(original: Original) -> str:
    """What the entry is called in the rendered text."""
    return Names(identifiers(original.text)).fresh(original.entry + _SUFFIX)


def launcher_name(original_kernel: str) -> str:
    """What the function is called that launches this kernel or one of its variants."""
    return f"launch_{original_kernel.rpartition(_SUFFIX)[0]}"


def render_original(original: Original) -> str:
    """The original's text with every declaration of the entry made `extern "C"` under its new name.

    Raises CodegenError when the entry is not found as a plain `__global__` function.
    """
    text, name = original.text, original_name(original)
    blank = _blank(text)
    places: list[tuple[int, int, bool]] = []
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
        plain = re.search(r'\bextern\s+"C"', text[start : m.start()]) is None
        places.append((start + len(declaration) - len(declaration.lstrip()), m.start(), plain))
    if not found:
        raise CodegenError(f"kernel {original.entry} is not a plain __global__ function of its own source")
    for at, named, plain in sorted(places, reverse=True):
        head, rest = text[at:named], text[named + len(original.entry) :]
        if plain:
            # `extern "C"` and `static` exclude each other, and a kernel of one file loses nothing by it.
            head = 'extern "C" ' + re.sub(r"^static\s+", "", head)
        text = f"{text[:at]}{head}{name}{rest}"
    return text


def _declaration_start(blank: str, at: int) -> int:
    """Where the declaration that holds `at` begins: after the last `;` or brace."""
    return max(blank.rfind(c, 0, at) for c in ";{}") + 1


def _blank(text: str) -> str:
    """Comments, literals and preprocessor lines as spaces: offsets stay, braces in them do not count."""
    return _spaces(_DIRECTIVE, without_literals(text))


def without_literals(text: str) -> str:
    """Comments and literals as spaces."""
    return _spaces(_LITERALS, text)


def _spaces(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def original_launch(module: Module) -> RenderedLaunch:
    """The launch of the original kernel."""
    o = module.original
    buffers = {b.name: b for b in module.buffers}
    scalars = {s.name: s for s in module.scalars}
    params = []
    for name in module.params:
        if name in buffers:
            b = buffers[name]
            # How long an array is that only index arrays reach into, the caller does not say.
            known = not any(scalars[n].implied for e in b.extents for n in variables(e))
            params.append(Param(name, b.dtype, True, name in o.read_only, b.extents if known else ()))
        else:
            params.append(Param(name, scalars[name].dtype, False))
    return RenderedLaunch(
        original_name(o), tuple(params), o.grid, o.block, o.shared_bytes, "the original kernel"
    )
