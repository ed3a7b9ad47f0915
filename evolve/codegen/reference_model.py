"""What a rendered reference is: its text, its arrays and what each is for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FUNCTION = "evolve_reference"


class Role(Enum):
    """What an array parameter of the reference is."""

    INPUT = "input"
    """The buffer's contents before the kernel, in its own type; not written."""
    VALUE = "value"
    """double: the buffer's contents after the kernel."""
    ERROR = "error"
    """double: the error bound of each VALUE, see `reference_runtime`; 0 for copies and untouched elements."""
    SCRATCH = "scratch"
    """double: working storage as large as the buffer."""


@dataclass(frozen=True)
class ReferenceArray:
    """One pointer parameter: its name, the buffer it belongs to, and what it is for."""

    name: str
    buffer: str
    role: Role


@dataclass(frozen=True)
class Reference:
    """Host C++ (or device code for one thread) of `void evolve_reference(arrays..., scalars...)`.

    Integer scalars are `long long`, others have their own type. Sizes of all arrays of a buffer are
    the buffer's.
    """

    text: str
    function: str
    arrays: tuple[ReferenceArray, ...]
    scalars: tuple[str, ...]
