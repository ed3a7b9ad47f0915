"""The programs of the repository and those of the tests, each proved and rendered once a process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.kernel import Module
from evolve.legality.verdict import Limits
from evolve.validation.validate import validate
from evolve.validation.verdict import TextVerdict
from tests.illegal.lifted import NAMES, source
from tests.illegal.templates import TEMPLATES

KERNELS = Path(__file__).parents[2] / "kernels"
SHARED_BYTES = 227 * 1024
"""Of a block, on an H200."""


@dataclass(frozen=True)
class Made:
    module: Module
    rendered: Rendered

    def read_back(self, text: str | None = None) -> TextVerdict:
        """Its own text, or another in its place."""
        return validate(self.module, replace(self.rendered, text=text or self.rendered.text))


@cache
def programs() -> dict[str, tuple[str, str]]:
    """Kernel and text by name, that of the file or `template KERNEL NUMBER`."""
    folder = KERNELS / "programs"
    out = {p.stem: (p.stem, p.read_text()) for p in sorted(folder.glob("*.dsl"))}
    for p in sorted(folder.glob("alternatives/*.dsl")):
        out[p.stem] = (p.stem.partition("-")[0], p.read_text())
    for kernel, texts in TEMPLATES.items():
        out |= {f"template {kernel} {n}": (kernel, t) for n, t in enumerate(texts)}
    return out


@cache
def _lifted(kernel: str) -> Source:
    if kernel in NAMES:
        return source(kernel)
    found = lift(KERNELS / f"{kernel}.cu")
    return Source(found.kernel, found.original, found.no_wrap)


@cache
def made(name: str) -> Made:
    return of(*programs()[name])


def launcher(it: Made) -> str:
    """The host function that goes with a program's text."""
    return render_launcher(it.rendered, it.rendered.original.params)


def of(kernel: str, text: str) -> Made:
    """A program of a kernel. It must be proved."""
    numerics = "mixed" if "bf16" in text else "fast" if "set_precision(" in text else "reassociate"
    limits = Limits(shared_bytes=SHARED_BYTES, numerics=numerics)
    done = compile_program(_lifted(kernel), parse(text), limits)
    assert done.module is not None, (kernel, text)
    return Made(done.module, render(done.module))
