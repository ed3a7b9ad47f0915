"""The directory `programs/<kernel>/<name>.evolve`: programs that must be refused, and why.

The comments at the head of a file say

    refused          the code of the first reason
    why              what is wrong, for the reader
    shown by         what execution shows when every refusal is passed over, or
    not shown        why it shows nothing
    also passed over further codes that have to be passed over to get to execution
    sizes            workload sizes that differ from the kernel's small ones
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"
FIELDS = ("refused", "why", "shown by", "not shown", "also passed over", "sizes")


@dataclass(frozen=True)
class Illegal:
    """One file. `shown_by` is empty where `not_shown` says why."""

    kernel: str
    name: str
    text: str
    refused: str
    why: str
    shown_by: frozenset[str]
    not_shown: str
    passed_over: frozenset[str]
    sizes: dict[str, int]

    @property
    def id(self) -> str:
        return f"{self.kernel}/{self.name}"


def read(path: Path) -> Illegal:
    """One file. Raises ValueError for a head that is not as described."""
    text = path.read_text()
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        key, colon, value = line[1:].strip().partition(": ")
        if colon and key in FIELDS:
            fields[key], last = value.strip(), key
        elif last:
            fields[last] += " " + line[1:].strip()
        else:
            raise ValueError(f"{path}: {line!r} is no field")
    if not {"refused", "why"} <= fields.keys() or ("shown by" in fields) == ("not shown" in fields):
        raise ValueError(f"{path}: the head lacks a field")
    passed = _items(fields.get("also passed over", "")) | {fields["refused"]}
    sizes = {k: int(v) for k, v in (s.split("=") for s in fields.get("sizes", "").split())}
    return Illegal(
        path.parent.name, path.stem, text, fields["refused"], fields["why"],
        _items(fields.get("shown by", "")), fields.get("not shown", ""), passed, sizes,
    )  # fmt: skip


def _items(text: str) -> frozenset[str]:
    return frozenset(x.strip() for x in text.split(",") if x.strip())


def programs() -> list[Illegal]:
    """All of them, by kernel and name."""
    return [read(p) for p in sorted(FOLDER.glob("*/*.evolve"))]
