"""The behaviour of a program for the archive: which primitives it uses, in which scope; no numbers."""

from __future__ import annotations

import re

_CALL = re.compile(r"(?:^|=|\()\s*([A-Za-z_]\w*)\s*\(")
_SCOPE = re.compile(r"\b(grid\.[xyz]|thread\.[xyz]|warp|lane|shared|register)\b")


def structural_cell(program: str) -> tuple[str, ...]:
    """The archive cell of a program text: sorted names like `split`, `bind:grid.x`, `stage:shared`.

    Programs that differ only in numbers, names or order share a cell.
    """
    names: set[str] = set()
    for raw in program.splitlines():
        line = raw.split("#", 1)[0]
        call = _CALL.search(line)
        if call is None:
            continue
        scopes = _SCOPE.findall(line[call.end() :])
        names.update(f"{call[1]}:{scope}" for scope in scopes)
        if not scopes:
            names.add(call[1])
    return tuple(sorted(names))
