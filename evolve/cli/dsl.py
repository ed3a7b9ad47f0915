"""`evolve dsl`: the language reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evolve.cli import options

if TYPE_CHECKING:
    from evolve.dsl.registry import Primitive


def command(
    primitive: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A primitive, pattern or code in full; all in brief if not given."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="HOW", help="The whole language as one text: compact or full."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON schema of a program as JSON.")] = False,
    codes: Annotated[bool, typer.Option("--codes", help="The codes of refusals, and what helps.")] = False,
    json: options.Json = False,
) -> int:
    """Show the transform language.

    The primitives, what each means, when it is legal, and examples; patterns, which stand for programs.
    """
    from evolve.cli.output import Output
    from evolve.dsl.reference import brief, code_page, compact_reference, full_reference, page
    from evolve.dsl.reference import codes as code_list
    from evolve.dsl.registry import aliases, patterns, primitives, refusals, statements
    from evolve.dsl.schema import program_schema
    from evolve.ir.errors import EvolveError

    texts = {"compact": compact_reference, "full": full_reference}
    with Output(json or schema) as output:
        known = statements()
        if reference is not None and reference not in texts:
            raise EvolveError("usage", f"there is no reference {reference!r}", hint="compact or full")
        if sum((primitive is not None, reference is not None, schema, codes)) > 1:
            raise EvolveError("usage", "name a primitive, or --reference, or --schema, or --codes")
        if schema:
            output.document(program_schema())
            return 0
        if codes:
            if output.as_json:
                output.document({"codes": [asdict(one) for one in refusals().values()]})
            output.text(code_list())
            return 0
        if reference is not None:
            if output.as_json:
                output.document({"reference": texts[reference]()})
            output.text(texts[reference]())
            return 0
        if primitive is not None and primitive in refusals():
            found = refusals()[primitive]
            if output.as_json:
                output.document({"codes": [asdict(found)]})
            output.text(code_page(found))
            return 0
        wanted = list(primitives().values())
        if primitive is not None:
            name = aliases()[primitive][0] if primitive in aliases() else primitive
            if name not in known:
                hint = near(primitive, [*known, *aliases(), *refusals()])
                raise EvolveError("unknown-primitive", f"there is no primitive {primitive!r}", hint=hint)
            wanted = [known[name]]
        if output.as_json:
            document = {"primitives": [_document(one) for one in wanted]}
            if primitive is None:
                document["patterns"] = [_document(p.spec) for p in patterns().values()]
            output.document(document)
        output.text(brief() if primitive is None else page(wanted[0]))
        return 0


def near(name: str, known: Sequence[str]) -> str:
    """Which names somebody may have meant who asked for this one, and where all are listed."""
    close = get_close_matches(name, known, n=3)
    everything = "evolve dsl --codes lists all" if name.startswith("E-") else "evolve dsl lists all"
    return f"did you mean {' or '.join(close)}? {everything}" if close else everything


def _document(one: Primitive) -> dict[str, Any]:
    return {
        "name": one.name,
        "family": one.family,
        "signature": one.signature,
        "meaning": one.meaning,
        "before": one.before,
        "after": one.after,
        "legality": one.legality,
        "rejections": {rejection.code: rejection.when for rejection in one.rejections},
        "examples": [
            {"kernel": example.kernel, "program": example.program, "refused": example.refused}
            for example in one.examples
        ],
        "aliases": sorted(one.aliases),
    }
