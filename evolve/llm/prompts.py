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
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

NAMES = ("system", "propose", "repair", "steps", "step")
_MOST_BYTES = 64 * 1024


class Prompts:
    """Renders templates. `texts` are those that replace the built-in ones, by name.

    Raises EvolveError `bad-prompt` where one is none.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        sources = {**_built_in(), **(texts or {})}
        self._environment = ImmutableSandboxedEnvironment(
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
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, OverflowError) as cause:
            line = getattr(cause, "lineno", None)
            raise EvolveError(
                "bad-prompt", f"the template fails: {cause}", file=f"{name}.j2", line=line
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
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as cause:
            raise EvolveError("bad-prompt", f"cannot read the template: {cause}", file=str(path)) from cause
        if len(text.encode()) > _MOST_BYTES:
            raise EvolveError("bad-prompt", f"the template is over {_MOST_BYTES} bytes", file=str(path))
        texts[name] = text
    if not texts:
        names = ", ".join(f"{name}.j2" for name in NAMES)
        raise EvolveError("bad-prompt", f"the folder holds none of {names}", file=str(folder))
    Prompts(texts)
    return texts
