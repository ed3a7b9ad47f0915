"""`python -m tests.illegal`: what is refused with which code, and what its execution shows or why nothing."""

from __future__ import annotations

from tests.illegal.forged import FORGED
from tests.illegal.programs import programs


def main() -> None:
    rows = [(p.id, p.refused, p.shown_by, p.not_shown) for p in programs()]
    rows += [(f"forged: {f.name}", f.refused, f.shown_by, f.not_shown) for f in FORGED]
    for name, code, shown_by, not_shown in rows:
        print(f"{name:56} {code:16} {', '.join(sorted(shown_by)) or f'not shown: {not_shown}'}")
    shown = sum(bool(shown_by) for _, _, shown_by, _ in rows)
    print(f"{len(rows)} wrong kernels, {len({code for _, code, _, _ in rows})} codes, {shown} shown wrong")


if __name__ == "__main__":
    main()
