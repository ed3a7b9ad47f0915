"""The language as text, made from `dsl_spec/`: for people, and for what is told to models."""

from __future__ import annotations

from collections.abc import Iterable

from evolve.dsl.registry import (
    PARAMETER_TYPES,
    Parameter,
    Primitive,
    Refusal,
    patterns,
    refusals,
    statements,
)

INTRODUCTION = """\
A program is one statement a line; `#` starts a comment. Results may be named, `co, ci = split(c, 64)`;
unnamed loops get path names such as `c.o` and `c.i`, which later statements do not change. A list of loops
stands in brackets, `[c, c_2]`. A number may be a hole, `?[64, 128]`: the search fills it."""


def compact_reference() -> str:
    """A page: each statement's signature, its first sentence, what its arguments are and its other names."""
    lines = [INTRODUCTION]
    for family, members in by_family(statements().values()):
        lines += ["", family]
        for one in members:
            lines += [f"  {one.signature}", f"      {first_sentence(one)}"]
            told = [text for p in one.parameters if (text := _choices(p))]
            told += [f"also written {', '.join(sorted(one.aliases))}"] if one.aliases else []
            lines += [f"      {'; '.join(told)}."] if told else []
    grouped = [one.name for one in statements().values() if any(p.type == "loops" for p in one.parameters)]
    lines += ["", f"A list of loops may stand where one is named in: {', '.join(grouped)}."]
    return "\n".join(lines) + "\n"


def names_reference(names: Iterable[str] | None = None) -> str:
    """The shortest: signatures by family, for models with a small context.

    `names` are those that are told of, all if not given."""
    known = statements()
    told = list(known.values()) if names is None else [known[name] for name in names]
    lines = [INTRODUCTION]
    for family, members in by_family(told):
        lines.append(f"{family}: {'; '.join(one.signature for one in members)}")
    lines += [f"{name}: {', '.join(choices)}" for name, choices in _all_choices(told).items()]
    return "\n".join(lines) + "\n"


def _all_choices(told: Iterable[Primitive]) -> dict[str, tuple[str, ...]]:
    """What arguments of each name may be, wherever they stand."""
    found: dict[str, dict[str, None]] = {}
    for one in told:
        for p in one.parameters:
            if p.choices:
                found.setdefault(p.name, {}).update(dict.fromkeys(p.choices))
    return {name: tuple(choices) for name, choices in found.items()}


def full_reference() -> str:
    """Everything: the page of each primitive and pattern, by family."""
    parts = [INTRODUCTION]
    for family, members in by_family(statements().values()):
        parts.append(f"== {family} ==")
        parts += [page(one) for one in members]
    return "\n\n".join(parts) + "\n"


def brief() -> str:
    """The list that `evolve dsl` shows."""
    lines = [INTRODUCTION, "`evolve dsl NAME` tells more, `evolve dsl CODE` what a refusal means."]
    for family, members in by_family(statements().values()):
        lines += ["", family]
        for one in members:
            lines += [f"  {one.signature}", f"      {first_sentence(one)}"]
    return "\n".join(lines)


def codes() -> str:
    """Every code of a refusal: when it is given, by which primitives, and what helps in general."""
    lines = []
    for one in refusals().values():
        lines += [f"{one.code}: {'; '.join(one.when)}"]
        lines += [f"    by {', '.join(one.given_by)}"] if one.given_by else []
        lines += [f"    help: {one.repair}"] if one.repair else []
    return "\n".join(lines)


def code_page(one: Refusal) -> str:
    """All that is known of one code: when it is given and by what, what helps, and programs that get it."""
    lines = [one.code, ""]
    by: dict[str, list[str]] = {when: [] for when in one.when}
    for name in one.given_by:
        for when in (r.when for r in statements()[name].rejections if r.code == one.code):
            by[when].append(name)
    lines += [f"  {', '.join(names)}: {when}" if names else f"  {when}" for when, names in by.items()]
    lines += ["", f"help: {one.repair}"] if one.repair else []
    for name in one.given_by:
        for example in (e for e in statements()[name].examples if e.refused == one.code):
            lines += ["", f"on {example.kernel}:"]
            lines += [f"    {line}" for line in example.program.rstrip().splitlines()]
    return "\n".join(lines)


def page(one: Primitive) -> str:
    """All that is known of one primitive or pattern."""
    lines = [one.signature, "", one.meaning, ""]
    lines += [f"  {p.name}: {describe(p)}" for p in one.parameters]
    if one.aliases:
        implied = [f"{a}({', '.join(f'{k}={v}' for k, v in kw.items())})" for a, kw in one.aliases.items()]
        lines += [f"  also: {', '.join(implied)}"]
    if one.name in patterns():
        lines += ["", "stands for:", *(f"    {line}" for line in one.after.splitlines())]
        lines += ["", f"applies: {one.legality}"]
    else:
        lines += ["", "before:", *(f"    {line}" for line in one.before.splitlines())]
        lines += ["after:", *(f"    {line}" for line in one.after.splitlines())]
        lines += ["", f"legal: {one.legality}"]
    lines += [f"  {rejection.code}: {rejection.when}" for rejection in one.rejections]
    for example in one.examples:
        verdict = f"refused with {example.refused}" if example.refused else "legal"
        lines += ["", f"on {example.kernel}, {verdict}:"]
        lines += [f"    {line}" for line in example.program.rstrip().splitlines()]
    return "\n".join(lines)


def describe(p: Parameter) -> str:
    """What an argument may be, in words."""
    what = f"one of {', '.join(p.choices)}" if p.choices else PARAMETER_TYPES[p.type]
    least = "" if p.minimum is None else f" of at least {p.minimum}"
    default = "" if p.default is None else f"; {p.default} if not given"
    return f"{what}{least}{default}{'; may be left out' if p.optional else ''}"


def first_sentence(one: Primitive) -> str:
    """The first sentence of a meaning, on one line."""
    return one.meaning.split(". ")[0].replace("\n", " ").rstrip(".") + "."


def by_family(found: Iterable[Primitive]) -> list[tuple[str, list[Primitive]]]:
    """Primitives grouped by family, families in the order in which they first come."""
    groups: dict[str, list[Primitive]] = {}
    for one in found:
        groups.setdefault(one.family, []).append(one)
    return list(groups.items())


def _choices(p: Parameter) -> str:
    if p.choices:
        return f"{p.name}: {', '.join(p.choices)}"
    return f"{p.name}: {PARAMETER_TYPES[p.type]}" if p.type in ("condition", "ints") else ""
