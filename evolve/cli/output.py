"""Standard output: either what a person reads, or exactly one JSON document."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.report.units import harmless


class Output:
    """Where a command's answer goes. With `as_json` everything else that is printed goes to stderr.

    Descriptor 1 itself is redirected, so not even a C library can spoil the document.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._descriptor = -1

    def __enter__(self) -> Output:
        sys.stdout.flush()
        if self.as_json:
            self._descriptor = os.dup(1)
            os.dup2(2, 1)
            self._stdout, sys.stdout = sys.stdout, sys.stderr
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        if self._descriptor >= 0:
            sys.stdout = self._stdout
            os.dup2(self._descriptor, 1)
            os.close(self._descriptor)
            self._descriptor = -1

    def document(self, document: Any) -> None:
        """Writes the JSON document. Raises EvolveError `cannot-write`."""
        data = json.dumps(document, indent=2, allow_nan=False).encode() + b"\n"
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except BrokenPipeError:
            return  # the reader has seen enough
        except OSError as cause:
            reason = os.strerror(cause.errno or 0)
            raise EvolveError("cannot-write", f"cannot write: {reason}", file="standard output") from cause

    def text(self, text: str) -> None:
        """Writes lines for a person; nothing with `as_json`."""
        if self.as_json:
            return
        try:
            text = harmless(text)
            sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it ends
        except OSError as cause:
            reason = os.strerror(cause.errno or 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise EvolveError("cannot-write", f"cannot write: {reason}", file="standard output") from cause


def open_streams() -> None:
    """Puts /dev/null where standard input, output or error is closed.

    Otherwise the next file that is opened, such as the event log, would get that number, and what is
    printed would land in it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def note(text: str) -> None:
    """A message for a person, on standard error; lost if that is closed."""
    with suppress(OSError, ValueError):
        print(harmless(text), file=sys.stderr, flush=True)
