"""`evolve dsl`: the language reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.dsl.registry import Primitive


def command(
    primitive: Annotated[
        str | None,
        typer.Argument(metavar="PRIMITIVE", help="One primitive in full; all in brief if not given."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Show the transform language.

    The primitives, what each means, when it is legal, and examples.
    """
    from evolve.cli.output import Output
    from evolve.dsl.registry import aliases, primitives
    from evolve.ir.errors import EvolveError

    with Output(json) as output:
        known = primitives()
        wanted = list(known.values())
        if primitive is not None:
            name = aliases()[primitive][0] if primitive in aliases() else primitive
            if name not in known:
                hint = f"primitives: {', '.join(known)}"
                raise EvolveError("unknown-primitive", f"there is no primitive {primitive!r}", hint=hint)
            wanted = [known[name]]
        if output.as_json:
            output.document({"primitives": [_document(one) for one in wanted]})
        output.text(_brief(wanted) if primitive is None else _full(wanted[0]))
        return 0


def _document(one: Primitive) -> dict[str, Any]:
    return {
        "name": one.name,
        "family": one.family,
        "signature": one.signature,
        "meaning": one.meaning.strip(),
        "before": one.before.rstrip(),
        "after": one.after.rstrip(),
        "legality": one.legality.strip(),
        "rejections": {rejection.code: rejection.when for rejection in one.rejections},
        "examples": [
            {"kernel": example.kernel, "program": example.program, "refused": example.refused}
            for example in one.examples
        ],
        "aliases": sorted(one.aliases),
    }


def _brief(primitives: list[Primitive]) -> str:
    lines = [
        "A program is one statement a line; results may be named: co, ci = split(c, 64).",
        "A number may be a hole, ?[64, 128]: the search fills it. `evolve dsl NAME` tells more.",
    ]
    for family in dict.fromkeys(one.family for one in primitives):
        lines += ["", family]
        for one in primitives:
            if one.family == family:
                first = one.meaning.strip().split(". ")[0].replace("\n", " ").rstrip(".")
                lines += [f"  {one.signature}", f"      {first}."]
    return "\n".join(lines)


def _full(one: Primitive) -> str:
    lines = [one.signature, "", one.meaning.strip(), "", "before:"]
    lines += [f"    {line}" for line in one.before.rstrip().splitlines()]
    lines += ["after:", *(f"    {line}" for line in one.after.rstrip().splitlines())]
    lines += ["", f"legal: {one.legality.strip()}"]
    lines += [f"  {rejection.code}: {rejection.when}" for rejection in one.rejections]
    for example in one.examples:
        verdict = f"refused with {example.refused}" if example.refused else "legal"
        lines += ["", f"on {example.kernel}, {verdict}:"]
        lines += [f"    {line}" for line in example.program.rstrip().splitlines()]
    return "\n".join(lines)
