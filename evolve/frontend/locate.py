"""Finding kernels, their launches and the workload comment in a parsed file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evolve.frontend.clang import Parsed, children, evaluate, kind
from evolve.ir.errors import EvolveError

_COMMENT_BLOCK = re.compile(r"/\*\s*evolve\b(.*?)\*/", re.DOTALL)
_CONTAINERS = ("LINKAGE_SPEC", "NAMESPACE", "UNEXPOSED_DECL")


@dataclass(frozen=True)
class Found:
    """A `__global__` definition. `obstacle` says why it cannot be used as it stands, if so."""

    name: str
    signature: str
    line: int
    cursor: Any
    obstacle: str | None = None


@dataclass(frozen=True)
class LaunchSite:
    """A `kernel<<<grid, block, shared>>>(arguments)`; `shared` is None where it is absent or 0."""

    line: int
    grid: Any
    block: Any
    shared: Any | None
    arguments: tuple[Any, ...]


def top_level(parsed: Parsed) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Declarations of the file itself, with the containers they stand in (`LINKAGE_SPEC`, `NAMESPACE`)."""
    yield from _declarations(parsed.root, str(parsed.path), ())


def _declarations(cursor: Any, path: str, inside: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    for c in children(cursor):
        if c.location.file is None or c.location.file.name != path:
            continue
        if kind(c) in _CONTAINERS:
            yield from _declarations(c, path, (*inside, kind(c)))
        else:
            yield c, inside


def has_attribute(cursor: Any, name: str) -> bool:
    """Whether a declaration carries `CUDAGLOBAL_ATTR`, `CUDADEVICE_ATTR`, …"""
    return any(kind(c) == name for c in children(cursor))


def kernels(parsed: Parsed) -> tuple[Found, ...]:
    """All kernel definitions in textual order."""
    out: list[Found] = []
    for c, inside in top_level(parsed):
        k = kind(c)
        if k not in ("FUNCTION_DECL", "FUNCTION_TEMPLATE") or not c.is_definition():
            continue
        if not has_attribute(c, "CUDAGLOBAL_ATTR"):
            continue
        obstacle = None
        if k == "FUNCTION_TEMPLATE":
            obstacle = "template kernel"
        elif "NAMESPACE" in inside:
            obstacle = "kernel in a namespace"
        out.append(Found(c.spelling, _signature(c), c.location.line, c, obstacle))
    return tuple(out)


def _signature(cursor: Any) -> str:
    params = [c for c in children(cursor) if kind(c) == "PARM_DECL"]
    inner = ", ".join(f"{p.type.spelling} {p.spelling}".replace("* ", "*") for p in params)
    return f"{cursor.spelling}({inner})"


def choose(parsed: Parsed, entry: str | None) -> Found:
    """The kernel named `entry`, or the only one.

    Raises EvolveError: no-kernel, unknown-entry, several-kernels, syntax-error (no kernel survives).
    Errors in a file without the word `__global__` are host code's, which is not looked at.
    """
    found = kernels(parsed)
    file = str(parsed.path)
    if not found:
        if parsed.problems and re.search(r"\b__global__\b", parsed.text):
            p = parsed.problems[0]
            file, line = parsed.origins.of(p.line)
            raise EvolveError("syntax-error", p.message, file=file, line=line if p.line else None)
        raise EvolveError(
            "no-kernel", "there is no __global__ function here", file=file, hint="give a CUDA kernel file"
        )
    listing = "; ".join(f"{k.signature} at {parsed.origins.show(k.line)}" for k in found)
    if entry is None:
        if len(found) > 1:
            raise EvolveError(
                "several-kernels",
                f"there are {len(found)} kernels: {listing}",
                file=file,
                line=parsed.origins.of(found[0].line)[1],
                hint=f"choose one, as in --entry {found[0].name}",
            )
        return found[0]
    named = [k for k in found if k.name == entry]
    if not named:
        raise EvolveError("unknown-entry", f"there is no kernel {entry}; there is: {listing}", file=file)
    if len(named) > 1:
        raise EvolveError("several-kernels", f"{entry} is overloaded: {listing}", file=file)
    return named[0]


def launches(parsed: Parsed, kernel: Found) -> tuple[LaunchSite, ...]:
    """The launches of that kernel in the file, in textual order."""
    out: list[LaunchSite] = []
    for c, _ in top_level(parsed):
        if kind(c) == "FUNCTION_DECL" and c.is_definition():
            _collect(c, kernel, out)
    return tuple(out)


def _collect(cursor: Any, kernel: Found, out: list[LaunchSite]) -> None:
    for c in children(cursor):
        if kind(c) == "CALL_EXPR":
            site = _launch(c, kernel)
            if site is not None:
                out.append(site)
                continue
        _collect(c, kernel, out)


def _launch(call: Any, kernel: Found) -> LaunchSite | None:
    parts = children(call)
    if call.spelling != kernel.name or len(parts) < 2:
        return None
    for at, c in enumerate(parts):
        if kind(c) == "CALL_EXPR" and c.spelling == "__cudaPushCallConfiguration":
            config = children(c)[1:]
            given = len(config) > 2 and bool(children(config[2])) and evaluate(config[2]) != 0
            shared = config[2] if given else None
            rest = tuple(parts[at + 1 :])
            return LaunchSite(call.location.line, config[0], config[1], shared, rest)
    return None


def comment_block(text: str) -> str | None:
    """The TOML between `/* evolve` and `*/`, None when the file has none."""
    found = _COMMENT_BLOCK.search(text)
    return found.group(1).strip("\n") + "\n" if found else None
