"""What a compilation is, whichever compiler does it: its result, its complaints, and that it is machine code.

A compiler here makes machine code and never PTX: the driver would compile PTX by itself, with another
compiler and other options than those whose registers, spills and code were looked at.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evolve.ir.errors import EvolveError

SOURCE_NAME = "kernel.cu"
"""What a text is called in diagnostics."""

_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\):\s*"
    r"(?P<severity>catastrophic error|error|warning|remark)(?:\s*#[\w-]+)?\s*:\s*(?P<message>.+)$"
)
# The host's preprocessor, which nvcc runs first, writes in its own way.
_PREPROCESSOR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s*"
    r"(?P<severity>fatal error|error|warning)\s*:\s*(?P<message>.+)$"
)
_BACK_END = re.compile(r"^(?:ptxas|nvlink)\s+(?P<severity>fatal|error|warning)\s*:\s*(?P<message>.+)$")

_CHOOSES_TARGET = re.compile(r"-{1,2}(arch|gpu-architecture|gencode|generate-code|code|gpu-code)\b")
# Of relocatable code, intermediate code and the device linker: what is then made is not what a GPU executes.
_OTHER_OUTPUT = re.compile(
    r"-{1,2}(ptx|fatbin|cubin|dlto|lto|dc|dw|dlink|rdc|relocatable-device-code|device-c|device-w|device-link|"
    r"ltoir|optix-ir|gen-opt-lto|keep|run|o|output-file|options-file|optf|odir|output-directory)\b"
)
_ELF = b"\x7fELF"
_EXECUTABLE = 2
_MACHINE_CUDA = 190


@dataclass(frozen=True)
class Diagnostic:
    """One complaint of the compiler. `line` is 1-based in the compiled text; None for the assembler's."""

    line: int | None
    severity: Literal["error", "warning"]
    message: str


@dataclass(frozen=True)
class CompileResult:
    """What came of it: `cubin` is an ELF image when `ok`, else None; `log` is the compiler's own text."""

    ok: bool
    cubin: bytes | None
    log: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that made it fail."""
        return tuple(d for d in self.diagnostics if d.severity == "error")


def failed(log: str, line: int | None = None) -> CompileResult:
    """A compilation that failed with this log; at `line` where the log does not say."""
    return CompileResult(False, None, log, parse_log(log) or (Diagnostic(line, "error", log),))


def made(image: bytes, log: str) -> CompileResult:
    """A compilation that made `image`. Raises EvolveError `not-machine-code` when a GPU cannot execute it."""
    if not is_machine_code(image):
        raise EvolveError(
            "not-machine-code", "the compiler made something that a GPU does not execute as it is"
        )
    return CompileResult(True, image, log, parse_log(log))


def is_machine_code(image: bytes) -> bool:
    """Whether this is an executable ELF image for a GPU: not PTX, not a container that may hold PTX."""
    if len(image) < 64 or image[:4] != _ELF:
        return False
    kind, machine = struct.unpack_from("<HH", image, 16)
    return (kind, machine) == (_EXECUTABLE, _MACHINE_CUDA)


def check_options(options: Sequence[str]) -> None:
    """Raises EvolveError `bad-compile-option` for options that choose the target or ask for other outputs.

    The target is chosen by the argument `arch` alone, and the output is machine code.
    """
    for option in options:
        if _CHOOSES_TARGET.match(option):
            raise EvolveError("bad-compile-option", f"the option {option!r} would choose another target")
        if _OTHER_OUTPUT.match(option):
            message = f"the option {option!r} asks for something other than one executable image"
            raise EvolveError("bad-compile-option", message)


def nul_in(text: str) -> CompileResult | None:
    """The failure of a text that holds a NUL, which would end it silently where C strings are handed over."""
    if "\0" not in text:
        return None
    return failed("the text holds a NUL character", text[: text.index("\0")].count("\n") + 1)


def parse_log(log: str) -> tuple[Diagnostic, ...]:
    """The diagnostics in a compiler's log, in its order, without excerpts of the source and notes."""
    found = []
    for raw in log.splitlines():
        match = _DIAGNOSTIC.match(raw) or _PREPROCESSOR.match(raw)
        line = int(match["line"]) if match else None
        match = match or _BACK_END.match(raw)
        if match is None or match["severity"] == "remark":
            continue
        severity: Literal["error", "warning"] = "warning" if match["severity"] == "warning" else "error"
        found.append(Diagnostic(line, severity, match["message"].strip()))
    return tuple(found)
