"""The statements that may come next: each one's precondition holds on the kernel as it stands.

Which to try is said in `dsl_spec/`: the `moves` of a primitive name its parameters and, for each, the rule of
`transforms.domains` that gives its values.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse_statement
from evolve.dsl.program import Statement, Value
from evolve.dsl.registry import Domain, Form, Primitive, primitives
from evolve.dsl.simple import read_value
from evolve.ir.kernel import Kernel
from evolve.ir.ordered import in_chains
from evolve.transforms.call import Begun, Call
from evolve.transforms.domains import RULES
from evolve.transforms.fits import Fit
from evolve.transforms.names import NameTable
from evolve.transforms.view import MoveLimits, View

__all__ = ["MoveLimits", "candidates", "legal_moves"]

DEFAULT = MoveLimits()
_REGROUPING = ("reuse",)
"""Primitives that take sums of the same terms for equal."""


def legal_moves(kernel: Kernel, names: NameTable, limits: MoveLimits = DEFAULT) -> list[str]:
    """Statement texts that `evolve.transforms.apply.apply` accepts, in a fixed order, without repetition.

    Numbers are drawn from short lists that fit the loop's extent, and what fits a block before still does
    (`transforms.fits`). Under `exact` none regroups a sum that rounds. Accepted is not proved: a move may
    still be refused by the prover, as an order that a dependence forbids.
    """
    out: list[str] = []
    if limits.numerics == "exact" and not in_chains(kernel):
        return out
    with _uncollected():
        fit = Fit(kernel, limits)
        for statement, texts in _candidates(kernel, limits):
            try:
                # Preconditions are the transform's own; tidying the result afterwards refuses nothing.
                begun = Begun(Call(kernel, names, statement))
            except RefusedError:
                continue
            if limits.numerics == "exact" and not _is_exact(begun, statement.primitive):
                continue
            if fit.keeps(begun):
                out.extend(texts)
    return out


def _is_exact(begun: Begun, primitive: str) -> bool:
    """Whether a statement leaves sums that round as they are; what says what a block takes does."""
    return begun.has_said or (primitive not in _REGROUPING and in_chains(begun.result()[0]))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: trees hold no cycles, and to look at all that a process has, in the middle,
    takes longer than everything else here.

    Nor afterwards at all that was made meanwhile: it counts as old. (What is frozen already stays so.)
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def candidates(kernel: Kernel, limits: MoveLimits = DEFAULT) -> Iterator[tuple[str, ...]]:
    """Statements to try, those together whose preconditions are the same."""
    return (texts for _, texts in _candidates(kernel, limits))


def _candidates(kernel: Kernel, limits: MoveLimits) -> Iterator[tuple[Statement, tuple[str, ...]]]:
    """The same, with the first of those that belong together."""
    view = View(kernel, limits)
    for primitive in primitives().values():
        for form in primitive.moves:
            for group in _instances(view, primitive, form, {}):
                yield _statement(primitive, group[0]), tuple(_text(primitive, x) for x in group)


def _instances(
    view: View, primitive: Primitive, form: Form, chosen: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, str], ...]]:
    """The arguments that begin with these choices, in groups."""
    name = next((p for p in form if p not in chosen), None)
    if name is None:
        yield (chosen,)
        return
    domain = _domain(view, primitive, name, form[name])
    values = map(str, domain.values) if domain.rule is None else RULES[domain.rule](view, domain, chosen)
    groups = [g for v in values for g in _instances(view, primitive, form, {**chosen, name: v})]
    if domain.alike:
        groups = [tuple(x for g in groups for x in g)] if groups else []
    yield from groups


def _domain(view: View, primitive: Primitive, name: str, domain: Domain) -> Domain:
    """The domain with the numbers that the limits give in place of its own."""
    for key in (f"{primitive.name}.{name}.{domain.rule}", f"{primitive.name}.{name}"):
        if key in view.limits.numbers:
            return replace(domain, values=view.limits.numbers[key])
    return domain


def _statement(primitive: Primitive, chosen: Mapping[str, str]) -> Statement:
    """The statement, without a way through its text where that is not needed."""
    values = {name: read_value(text) for name, text in chosen.items()}
    args: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    for p in primitive.parameters:
        if p.name not in values:
            continue
        value = values[p.name]
        if value is None:
            return parse_statement(_text(primitive, chosen))
        if p.is_positional:
            args.append(value)
        elif chosen[p.name] != str(p.default):
            keywords.append((p.name, value))
    return Statement((), primitive.name, tuple(args), tuple(keywords))


def _text(primitive: Primitive, chosen: Mapping[str, str]) -> str:
    """The canonical statement."""
    parts = []
    for p in primitive.parameters:
        if p.name in chosen and p.is_positional:
            parts.append(chosen[p.name])
        elif p.name in chosen and chosen[p.name] != str(p.default):
            parts.append(f"{p.name}={chosen[p.name]}")
    return f"{primitive.name}({', '.join(parts)})"
