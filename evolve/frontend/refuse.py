"""The one way to say that something cannot be lifted."""

from __future__ import annotations

from evolve.ir.errors import EvolveError


class RefusalError(Exception):
    """Something in the kernel that cannot be lifted. The file is added where it is known."""

    def __init__(self, line: int, construct: str, reason: str) -> None:
        super().__init__(f"{construct}: {reason}")
        self.line = line
        self.construct = construct
        self.reason = reason


class CannotLiftError(EvolveError):
    """Code cannot-lift: `construct` is what stands at `file`:`line`, `reason` why it is not understood."""

    def __init__(self, file: str, line: int, refusal: RefusalError) -> None:
        super().__init__(
            "cannot-lift", f"cannot lift {refusal.construct}: {refusal.reason}", file=file, line=line
        )
        self.construct = refusal.construct
        self.reason = refusal.reason
