"""The primitives, read from `dsl_spec/`: their signatures, meanings and what refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

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
class Primitive:
    """One file of `dsl_spec/`.

    `results` is (least, most) names that an assignment may give. `aliases` maps other accepted
    spellings to the keyword arguments that they imply.
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


@cache
def primitives() -> Mapping[str, Primitive]:
    """All primitives by name, in the order of their file names.

    Raises EvolveError `bad-dsl-spec` when a file does not have the expected form.
    """
    import yaml

    out: dict[str, Primitive] = {}
    for path in sorted(data_dir("dsl_spec").glob("*.yaml")):
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8"))
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


def _primitive(raw: Any) -> Primitive:
    least, most = raw.get("results", [0, 0])
    return Primitive(
        name=str(raw["name"]),
        family=str(raw["family"]),
        parameters=tuple(_parameter(p) for p in raw["parameters"]),
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
    )


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
