"""Where the data folders lie: `hardware/`, `dsl_spec/`, `prompts/`, `kernels/`.

In a checkout they stand beside the package; a wheel carries them inside it, under `evolve/_data/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from evolve.ir.errors import EvolveError

DataFolder = Literal["hardware", "dsl_spec", "prompts", "kernels"]

_PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: DataFolder) -> Path:
    """The folder `name` of this installation. Raises EvolveError `no-data` when it is missing."""
    # The wheel's copy is looked up first: beside an installed package lie other packages, and one of them
    # may well be called "kernels" or "prompts".
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir() and (folder.parent == _PACKAGE / "_data" or _is_checkout()):
            return folder
    raise EvolveError(
        "no-data",
        f"the data folder {name!r} is missing from this installation",
        hint="reinstall the package",
    )


def _is_checkout() -> bool:
    return (_PACKAGE.parent / "pyproject.toml").is_file()
