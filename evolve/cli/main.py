"""The program `evolve`: dispatches to the commands and turns what they raise into an exit status.

0 done; 1 the answer is no; 2 the call or the input is wrong; 130 interrupted. An unexpected
exception is a bug: it says so and exits 70; EVOLVE_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer

from evolve.cli import (
    calibrate,
    check,
    devices,
    doctor,
    dsl,
    inspect,
    moves,
    render,
    replay,
    report,
    resume,
    run,
    score,
    show,
    verify,
)
from evolve.cli.output import Output, note, open_streams
from evolve.ir.errors import EvolveError

INTERRUPTED = 130
INTERNAL = 70
_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="evolve",
    help="Evolves a CUDA kernel into a faster one that is proved to compute the same thing.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)

_COMMANDS = (
    run,
    resume,
    replay,
    show,
    report,
    verify,
    inspect,
    check,
    moves,
    render,
    score,
    dsl,
    devices,
    calibrate,
    doctor,
)
for _module in _COMMANDS:
    app.command(_module.__name__.rsplit(".", 1)[1])(_module.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from evolve.runs.version import tool_version

        print(f"evolve {tool_version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


# Typer carries its own copy of click from some version on, so the class is reached by way of typer.
_ClickException: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    try:
        status = app(arguments, prog_name="evolve", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except EvolveError as error:
        if error.file is not None:  # a name may hold line ends, and a message is one line
            error.file = error.file.replace("\n", "\ufffd")
        return _fail(as_json, error.exit_status, error.code, str(error), error)
    except _ClickException as error:
        message = error.format_message().rstrip(".")
        return _fail(as_json, 2, "usage", f"{message} (evolve --help tells more)", None)
    except (KeyboardInterrupt, typer.Abort):
        return _fail(as_json, INTERRUPTED, "interrupted", "interrupted", None)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter fails again when it ends
            where = error.filename or "standard output or a temporary file"
            text = f"{where}: cannot write: {error.strerror} (make room, or set TMPDIR to another disk)"
            return _fail(as_json, 2, "cannot-write", text, None)
        if os.environ.get("EVOLVE_DEBUG"):
            raise
        what = f"internal error, please report it: {type(error).__name__}: {error}"
        return _fail(as_json, INTERNAL, "internal", f"{what} (EVOLVE_DEBUG=1 shows where)", None)


def _fail(as_json: bool, status: int, code: str, text: str, error: EvolveError | None) -> int:
    if as_json:
        message = text if error is None else error.message + (f" ({error.hint})" if error.hint else "")
        place = {"file": error.file if error else None, "line": error.line if error else None}
        try:
            with Output(as_json=True) as output:
                output.document({"error": {"code": code, "message": message, **place}})
        except EvolveError as unwritable:
            note(f"evolve: {unwritable}")
    else:
        note(f"evolve: {text}")
    return status
