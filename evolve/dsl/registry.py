"""The primitives, read from `dsl_spec/`: their signatures, meanings and what refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

PARAMETER_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "loop": "a loop",
        "loops": "a loop, a group or a list of them",
        "buffer": "a buffer",
        "int": "an integer",
        "ints": "a list of integers",
        "choice": "one of its choices",
        "condition": "comparisons over the kernel's scalars, joined by `and`",
    }
)


@dataclass(frozen=True)
class Parameter:
    """One argument.

    `default` None means required unless `optional`; `minimum` bounds integers; `keyword` ones are
    written with their name.
    """

    name: str
    type: str
    default: int | str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    optional: bool = False
    keyword: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.optional

    @property
    def is_positional(self) -> bool:
        """Whether canonical text writes it without its name."""
        return self.is_required and not self.keyword


@dataclass(frozen=True)
class Rejection:
    """A stable code and when it is given."""

    code: str
    when: str


@dataclass(frozen=True)
class Example:
    """A program on a kernel of the test-suite's fixtures; `refused` is the expected code, None if legal."""

    kernel: str
    program: str
    refused: str | None = None


@dataclass(frozen=True)
class Domain:
    """What the enumeration of next moves offers for one parameter.

    rule    how values are read off the kernel, by its name in `transforms.domains`; None: `values` are meant
    of      another parameter of the form, listed before, that the rule looks at
    values  numbers or words: the choice itself, or what the rule draws on
    alike   a precondition that holds for one value holds for all
    """

    rule: str | None = None
    of: str | None = None
    values: tuple[int | str, ...] = ()
    alike: bool = False


Form: TypeAlias = Mapping[str, Domain]
"""The parameters of a primitive that a move gives, in the order in which they are chosen."""


@dataclass(frozen=True)
class Primitive:
    """One file of `dsl_spec/`.

    `results` is (least, most) names that an assignment may give. `aliases` maps other accepted
    spellings to the keyword arguments that they imply. `moves` are the forms in which the primitive is
    offered as a next move.
    """

    name: str
    family: str
    parameters: tuple[Parameter, ...]
    results: tuple[int, int]
    meaning: str
    before: str
    after: str
    legality: str
    rejections: tuple[Rejection, ...]
    examples: tuple[Example, ...]
    aliases: Mapping[str, Mapping[str, str]]
    moves: tuple[Form, ...] = ()

    @property
    def signature(self) -> str:
        """Such as `stage(buffer, at, scope=shared)`."""
        parts = []
        for p in self.parameters:
            shown = f"={p.default}" if p.default is not None else "=…" if p.optional else ""
            parts.append(p.name + shown)
        return f"{self.name}({', '.join(parts)})"

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name."""
        return next((p for p in self.parameters if p.name == name), None)


def _read(path: Path) -> Any:
    """A file of the description. Raises yaml.YAMLError.

    By libyaml where PyYAML has it: each command reads all of them, which otherwise takes five times as long.
    """
    import yaml

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)


@cache
def primitives() -> Mapping[str, Primitive]:
    """All primitives by name, in the order of their file names.

    Raises EvolveError `bad-dsl-spec` when a file does not have the expected form.
    """
    import yaml

    out: dict[str, Primitive] = {}
    for path in sorted(data_dir("dsl_spec").glob("*.yaml")):
        try:
            raw = _read(path)
            found = _primitive(raw)
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as e:
            raise EvolveError("bad-dsl-spec", f"not a primitive's description: {e}", file=str(path)) from e
        if found.name != path.stem:
            raise EvolveError("bad-dsl-spec", f"describes {found.name}", file=str(path))
        out[found.name] = found
    return MappingProxyType(out)


@cache
def aliases() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Other spellings: alias → (primitive, keyword arguments it implies)."""
    return MappingProxyType({a: (p.name, kw) for p in primitives().values() for a, kw in p.aliases.items()})


@dataclass(frozen=True)
class Derived:
    """Names that a pattern reads off the kernel, by a rule of `transforms.shapes`, from its arguments."""

    rule: str
    of: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """One file of `dsl_spec/patterns/`: a statement that stands for a program in the language itself.

    `names` are read off the kernel, `numbers` are products of arguments, `applies` conditions that give a
    reason where they do not hold. A line of `program` has arguments in braces, such as `split({loop}.o, 4)`.
    """

    spec: Primitive
    names: Mapping[str, Derived]
    numbers: Mapping[str, tuple[str, ...]]
    applies: tuple[Derived, ...]
    program: tuple[str, ...]


@cache
def patterns() -> Mapping[str, Pattern]:
    """All patterns by name. Raises EvolveError `bad-dsl-spec`."""
    import yaml

    out: dict[str, Pattern] = {}
    for path in sorted((data_dir("dsl_spec") / "patterns").glob("*.yaml")):
        try:
            found = _pattern(_read(path))
        except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as e:
            raise EvolveError("bad-dsl-spec", f"not a pattern's description: {e}", file=str(path)) from e
        if found.spec.name != path.stem:
            raise EvolveError("bad-dsl-spec", f"describes {found.spec.name}", file=str(path))
        out[found.spec.name] = found
    return MappingProxyType(out)


@cache
def statements() -> Mapping[str, Primitive]:
    """All that a statement can be: the primitives and the patterns."""
    return MappingProxyType({**primitives(), **{name: p.spec for name, p in patterns().items()}})


def _pattern(raw: Any) -> Pattern:
    program = str(raw["program"]).strip()
    spec = _primitive({"family": "patterns", "before": "", "after": program, **raw})
    return Pattern(
        spec=spec,
        names=MappingProxyType({str(n): _derived(d) for n, d in raw.get("names", {}).items()}),
        numbers=MappingProxyType({str(n): tuple(f) for n, f in raw.get("numbers", {}).items()}),
        applies=tuple(_derived(d) for d in raw["applies"]),
        program=tuple(program.splitlines()),
    )


def _derived(raw: Any) -> Derived:
    (rule, of), *more = raw.items()
    if more:
        raise ValueError(f"one rule is expected: {raw}")
    return Derived(str(rule), tuple(map(str, of)))


@dataclass(frozen=True)
class Refusal:
    """A code of refusals: `given_by` primitives, or for any program; `repair` is what helps in general."""

    code: str
    when: tuple[str, ...]
    given_by: tuple[str, ...]
    repair: str | None


@cache
def refusals() -> Mapping[str, Refusal]:
    """All codes, alphabetically. Raises EvolveError `bad-dsl-spec`."""
    import yaml

    path = data_dir("dsl_spec") / "refusals" / "codes.yaml"
    try:
        general = _read(path)
        found = [(r.code, p.name, r.when) for p in statements().values() for r in p.rejections]
        out = {}
        for code in sorted({*general, *(c for c, _, _ in found)}):
            said = general.get(code, {})
            whens = ([str(said["when"])] if "when" in said else []) + [w for c, _, w in found if c == code]
            given_by = tuple(p for c, p, _ in found if c == code)
            out[code] = Refusal(code, tuple(dict.fromkeys(whens)), given_by, said.get("repair"))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as e:
        raise EvolveError("bad-dsl-spec", f"not a list of codes: {e}", file=str(path)) from e
    return MappingProxyType(out)


def _primitive(raw: Any) -> Primitive:
    least, most = raw.get("results", [0, 0])
    parameters = tuple(_parameter(p) for p in raw["parameters"])
    return Primitive(
        name=str(raw["name"]),
        family=str(raw["family"]),
        parameters=parameters,
        results=(int(least), int(most)),
        meaning=str(raw["meaning"]).strip(),
        before=str(raw["before"]).rstrip("\n"),
        after=str(raw["after"]).rstrip("\n"),
        legality=str(raw["legality"]).strip(),
        rejections=tuple(Rejection(str(k), str(v)) for k, v in raw["rejections"].items()),
        examples=tuple(
            Example(str(e["kernel"]), str(e["program"]), None if "refused" not in e else str(e["refused"]))
            for e in raw["examples"]
        ),
        aliases=MappingProxyType(
            {str(k): MappingProxyType(dict(v or {})) for k, v in raw.get("aliases", {}).items()}
        ),
        moves=tuple(_form(form, parameters) for form in raw.get("moves", ())),
    )


def _form(raw: Any, parameters: tuple[Parameter, ...]) -> Form:
    form = {str(name): _domain(domain) for name, domain in raw.items()}
    unknown = form.keys() - {p.name for p in parameters}
    missing = {p.name for p in parameters if p.is_required} - form.keys()
    before: set[str] = set()
    for name, domain in form.items():
        if domain.of is not None and domain.of not in before:
            raise ValueError(f"the domain of {name} looks at {domain.of}, which is not listed before it")
        before.add(name)
    if unknown or missing:
        raise ValueError(f"moves name {sorted(unknown)}, which are no parameters, or lack {sorted(missing)}")
    return MappingProxyType(form)


def _domain(raw: Any) -> Domain:
    """A rule's name, a list of values, or a mapping with the fields of Domain."""
    if isinstance(raw, str):
        return Domain(rule=raw)
    if isinstance(raw, list):
        return Domain(values=tuple(raw))
    return Domain(raw["rule"], raw.get("of"), tuple(raw.get("values", ())), bool(raw.get("alike", False)))


def _parameter(raw: Any) -> Parameter:
    kind = str(raw["type"])
    if kind not in PARAMETER_TYPES:
        raise ValueError(f"unknown parameter type {kind}")
    return Parameter(
        name=str(raw["name"]),
        type=kind,
        default=raw.get("default"),
        choices=tuple(str(c) for c in raw.get("choices", ())),
        minimum=raw.get("minimum"),
        optional=bool(raw.get("optional", False)),
        keyword=bool(raw.get("keyword", False)),
    )
