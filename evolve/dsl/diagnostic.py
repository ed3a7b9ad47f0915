"""Why a program was refused: one type for the parser, the transforms and the prover."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.ir.stmt import Span


@dataclass(frozen=True)
class Diagnostic:
    """One reason.

    code       stable, such as E-RACE; `evolve dsl --codes` lists them
    message    one sentence in the kernel's own names
    statement  the program's statement to blame, counted from 0 (None: not one statement)
    line       its line in the program text
    witness    who does what where, at which sizes: two statement instances, source lines
    repair     the nearest change that would be legal, when there is one
    spans      the places in the source of what the message names
    """

    code: str
    message: str
    statement: int | None = None
    line: int | None = None
    witness: str | None = None
    repair: str | None = None
    spans: tuple[Span, ...] = ()

    def at(self, statement: int, line: int) -> Diagnostic:
        """The same reason, blamed on a statement of the program."""
        return replace(self, statement=statement, line=line)


class RefusedError(Exception):
    """A transform's own precondition does not hold; carries the diagnostic."""

    def __init__(
        self, code: str, message: str, *, witness: str | None = None, repair: str | None = None
    ) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, witness=witness, repair=repair)
