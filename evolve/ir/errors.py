"""Errors that a user's input can cause. Anything else that escapes a command is a bug."""

from __future__ import annotations


class EvolveError(Exception):
    """What is wrong, where, and what to do about it.

    `code` is stable (for scripts), `message` is one sentence, `file`/`line` say where,
    `hint` says what would help. The command line prints it and exits with `exit_status`:
    2 when the call or the input is wrong, 1 when the answer is no.
    """

    exit_status = 2

    def __init__(
        self,
        code: str,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.file = file
        self.line = line
        self.hint = hint

    def __str__(self) -> str:
        where = ""
        if self.file is not None:
            where = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{hint}"


class NegativeAnswerError(EvolveError):
    """The call was fine and the answer is no: illegal, incorrect, nothing could be scored."""

    exit_status = 1
