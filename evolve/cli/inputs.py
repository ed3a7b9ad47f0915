"""Reading what the user names: files, and from them the problem."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from evolve.ir.errors import EvolveError

if TYPE_CHECKING:
    from evolve.runs.folder import RunFolder
    from evolve.search.problem import Compiled, Problem, ProblemRequest

_LIMIT = 8 * 1024 * 1024


def read_text(path: Path, what: str) -> str:
    """A text file. Raises EvolveError `no-such-file` or `unreadable-file`, naming it."""
    if str(path) == "-":
        data = sys.stdin.buffer.read(_LIMIT + 1)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(_LIMIT + 1)
        except FileNotFoundError as cause:
            raise EvolveError("no-such-file", f"there is no such {what}", file=str(path)) from cause
        except (OSError, ValueError) as cause:
            reason = getattr(cause, "strerror", None) or str(cause)
            raise EvolveError(
                "unreadable-file", f"cannot read the {what}: {reason}", file=str(path)
            ) from cause
    if len(data) > _LIMIT:
        raise EvolveError("unreadable-file", f"the {what} is over {_LIMIT >> 20} MiB", file=str(path))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = data[: cause.start].count(b"\n") + 1
        message = f"the {what} is not UTF-8 text"
        raise EvolveError("unreadable-file", message, file=str(path), line=line) from cause


def problem_request(
    kernel: Path,
    entry: str | None,
    workload: Path | None,
    device: str,
    numerics: str | None,
    program: Path | None = None,
) -> ProblemRequest:
    """The request of these options, files read (not the program). Raises EvolveError."""
    from evolve.frontend.includes import self_contained
    from evolve.search.problem import ProblemRequest
    from evolve.workload.model import Contract

    if numerics is not None and numerics not in get_args(Contract):
        names = ", ".join(get_args(Contract))
        raise EvolveError("usage", f"there is no numerics contract {numerics!r}", hint=f"contracts: {names}")
    if [str(one) for one in (kernel, workload, program)].count("-") > 1:
        raise EvolveError("usage", "only one of the files can be standard input")
    text = read_text(kernel, "kernel file")
    return ProblemRequest(
        # Only messages and the record use the name, and they are UTF-8, which a file name need not be.
        kernel_file=os.fsencode(kernel).decode("utf-8", "replace"),
        kernel_text=text if str(kernel) == "-" else self_contained(kernel, text),
        entry=entry,
        workload_text=None if workload is None else read_text(workload, "workload file"),
        workload_file=None if workload is None else str(workload),
        device=device,
        numerics=numerics,
    )


def note_changes(folder: RunFolder) -> None:
    """Says so if the kernel file of a run is not what it was: the run keeps to the text that it recorded."""
    from evolve.cli.output import note
    from evolve.frontend.includes import self_contained
    from evolve.runs.summary import read_view

    started = read_view(folder).started
    assert started is not None
    path = Path(started.kernel_file)
    if not path.is_file():  # gone, standard input, or a device: the record has it
        return
    try:
        now = self_contained(path, read_text(path, "kernel file"))
    except EvolveError:
        return
    if now != folder.blobs.get(started.source):
        note(f"{path} has changed since the run began, which keeps to the text it recorded (kernel.cu)")


def open_problem(request: ProblemRequest) -> Problem[Any]:
    """The problem of a request: lifts the kernel, settles workload and device. Raises EvolveError."""
    from evolve.search.task import open_problem as opened

    problem: Problem[Any] = opened(request)
    return problem


def compile_program(problem: Problem[Any], path: Path, text: str | None = None) -> Compiled:
    """Compiles a program file, whose text may be read already, holes filled with their first choices.

    Raises EvolveError, naming the file, if it does not parse; a refusal is a verdict.
    """
    from evolve.search.problem import Compiled

    try:
        program = problem.parse(program_text(path) if text is None else text)
    except EvolveError as error:
        error.file = error.file or str(path)
        raise
    try:
        return problem.explain(program)
    except EvolveError as error:
        return Compiled("REFUTED", ({"code": error.code, "message": error.message, "line": error.line},))


def program_text(path: Path) -> str:
    """A program file, holes filled with their first choices. Raises EvolveError."""
    from evolve.agents.holes import read_template
    from evolve.cli.output import note

    template = read_template(read_text(path, "program file"))
    if template.choices:
        count = len(template.choices)
        what = "1 hole is filled with its first choice"
        note(f"{path}: {what if count == 1 else f'{count} holes are filled with their first choices'}")
    return template.fill((0,) * len(template.choices))
