"""The templates of `prompts/`, or of a folder that takes their place.

`system.j2` says who is asked for what, `propose.j2` what is known, `repair.j2` what was wrong with an
answer; `steps.j2` and `step.j2` ask for a program statement by statement. They run in a sandbox: a folder
of templates is given by the user, and what they are filled with is never a template itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, StrictUndefined, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

NAMES = ("system", "propose", "repair", "steps", "step")
_MOST_BYTES = 64 * 1024
_MOST_MADE = 1 << 20
"""Characters or items that an operator makes of less."""

_FAILURES = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError)


class _Sandbox(ImmutableSandboxedEnvironment):
    """One in which no operator makes what no memory holds."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Raises SecurityError for a power of more than small numbers, or a long repetition."""
        if operator == "**" and not (abs(left) <= _MOST_MADE and abs(right) <= 64):
            raise SecurityError("a power of such numbers is too large")
        for many, times in ((left, right), (right, left)):
            if operator == "*" and hasattr(many, "__len__") and len(many) * times > _MOST_MADE:
                raise SecurityError(f"what is repeated has over {_MOST_MADE} characters")
        return super().call_binop(context, operator, left, right)


class Prompts:
    """Renders templates. `texts` are those that replace the built-in ones, by name.

    Raises EvolveError `bad-prompt` where one is none.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        sources = {**_built_in(), **(texts or {})}
        self._environment = _Sandbox(
            loader=DictLoader({f"{name}.j2": text for name, text in sources.items()}),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            autoescape=False,
        )
        for name in NAMES:
            self._guarded(name, lambda name=name: self._environment.get_template(f"{name}.j2"))

    def render(self, name: str, **values: Any) -> str:
        """A template filled in. Raises EvolveError `bad-prompt`."""
        text: str = self._guarded(name, lambda: self._environment.get_template(f"{name}.j2").render(values))
        return text.strip() + "\n"

    def _guarded(self, name: str, act: Any) -> Any:
        try:
            return act()
        except _FAILURES as cause:
            line, why = getattr(cause, "lineno", None), str(cause) or type(cause).__name__
            raise EvolveError(
                "bad-prompt", f"the template fails: {why}", file=f"{name}.j2", line=line
            ) from cause


@cache
def _built_in() -> Mapping[str, str]:
    folder = data_dir("prompts")
    return {name: (folder / f"{name}.j2").read_text(encoding="utf-8") for name in NAMES}


def read_prompts(folder: Path) -> dict[str, str]:
    """The templates of a folder: any of those above.

    Raises EvolveError `bad-prompt` if there are none, or one cannot be read or used.
    """
    texts = {}
    for name in NAMES:
        path = folder / f"{name}.j2"
        if not path.exists():
            continue
        try:
            text = _read(path)
        except (OSError, ValueError) as cause:
            raise EvolveError("bad-prompt", f"cannot read the template: {cause}", file=str(path)) from cause
        texts[name] = text
    if not texts:
        names = ", ".join(f"{name}.j2" for name in NAMES)
        raise EvolveError("bad-prompt", f"the folder holds none of {names}", file=str(folder))
    Prompts(texts)
    return texts


def _read(path: Path) -> str:
    """Raises OSError or ValueError."""
    if not path.is_file():
        raise OSError("it is no file")
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it has over {_MOST_BYTES} bytes")
    return text.decode()
