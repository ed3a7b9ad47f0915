"""What code generation refuses."""

from __future__ import annotations

from evolve.ir.errors import EvolveError


class CodegenError(EvolveError):
    """A schedule that has no rendering: the loop or buffer to blame and why. Code `cannot-render`."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__("cannot-render", message, hint=hint)
