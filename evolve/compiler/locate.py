"""Where in the source a refusal points: at the statements, loops and buffers that its message names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.program import Statement
from evolve.ir.effects import effects
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import For, Leaf, Span
from evolve.ir.visit import leaves, walk

MOST = 4
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")


def located(diagnostic: Diagnostic, statement: Statement, *kernels: Kernel) -> Diagnostic:
    """The diagnostic with its places in the source, the nearest kind that there is: of the statements that it
    quotes, of the loops that it names, of what touches the buffers that it names; else of the loops and
    buffers that the blamed statement of the program names."""
    quoted = f"{diagnostic.message} {diagnostic.witness or ''}"
    said, written = _names(diagnostic.message), _names(str(statement))
    for places in (
        _of_statements(kernels, quoted),
        _of_loops(kernels, said),
        _of_buffers(kernels, said),
        _of_loops(kernels, written),
        _of_buffers(kernels, written),
    ):
        found = tuple(dict.fromkeys(places))[:MOST]
        if found:
            return replace(diagnostic, spans=found)
    return diagnostic


def _names(text: str) -> frozenset[str]:
    """Names in a text, and those of what they were made from: `c.i.all` is of `c.i`, which is of `c`."""
    found = _NAME.findall(text)
    return frozenset(n.rsplit(".", cut)[0] for n in found for cut in range(n.count(".") + 1))


def _of_statements(kernels: tuple[Kernel, ...], text: str) -> Iterator[Span]:
    for kernel in kernels:
        for leaf, _ in leaves(kernel.body):
            if leaf.span is not None and f"`{print_stmt(leaf)}`" in text:
                yield leaf.span


def _of_loops(kernels: tuple[Kernel, ...], names: frozenset[str]) -> Iterator[Span]:
    for kernel in kernels:
        for site in walk(kernel.body):
            loop = site.stmt
            if isinstance(loop, For) and loop.var in names:
                if loop.span is not None:
                    yield loop.span
                else:
                    yield from _first_inside(loop)


def _first_inside(loop: For) -> Iterator[Span]:
    """For a loop that a statement made: the first statement of the source inside it."""
    spans = (leaf.span for leaf, _ in leaves(loop.body))
    yield from [span for span in spans if span is not None][:1]


def _of_buffers(kernels: tuple[Kernel, ...], names: frozenset[str]) -> Iterator[Span]:
    for kernel in kernels:
        for site in walk(kernel.body):
            s = site.stmt
            if not isinstance(s, Leaf) or s.span is None:
                continue
            if names & {a.buffer for a in effects(s).accesses}:
                yield s.span
