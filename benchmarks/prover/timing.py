"""How long a program takes from its text to proved and rendered code, cold and with a prefix proved before.

    python -m benchmarks.prover.timing [--repeat 3] [--out FILE.json] [--commit HASH]

The suite is every program in `kernels/programs/` and its `alternatives/` and
the templates of `tests.illegal.templates`, each with its kernel lifted before.
Cold, nothing is remembered: neither the kernel's own analysis nor any verdict. With a prefix, the program
without its last statement has gone the same way just before, as when a search extends one. Milliseconds
of processor time, the median of the repetitions: on a machine that is shared, other work counts little.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.simple import read_value
from evolve.frontend.lift import lift
from evolve.ir import affine, memo, scope
from evolve.legality import memory
from evolve.legality.verdict import Limits
from evolve.transforms import apply, edit
from evolve.transforms import once as notes
from evolve.workload.model import Contract
from tests.illegal.lifted import NAMES, source
from tests.illegal.templates import TEMPLATES

ROOT = Path(__file__).parents[2]
SHARED_BYTES = 227 * 1024
"""Of a block, on an H200."""
TARGETS = {"cold": (100.0, 1500.0), "prefix": (50.0, 400.0)}
"""Milliseconds: the median and the 99th percentile."""


@dataclass(frozen=True)
class Entry:
    name: str
    source: Source
    text: str

    @property
    def limits(self) -> Limits:
        """With the contract that the program needs."""
        mixed, fast = ", bf16)" in self.text, "set_precision(" in self.text
        numerics: Contract = "mixed" if mixed else "fast" if fast else "reassociate"
        return Limits(shared_bytes=SHARED_BYTES, numerics=numerics)


def suite() -> Iterator[Entry]:
    """All programs with their kernels."""
    folder = ROOT / "kernels" / "programs"
    for path in sorted((*folder.glob("*.dsl"), *folder.glob("alternatives/*.dsl"))):
        kernel = path.stem if path.parent == folder else path.stem.split("-")[0]
        yield Entry(str(path.relative_to(ROOT)), _lifted(kernel), path.read_text())
    for kernel, texts in TEMPLATES.items():
        for number, text in enumerate(texts):
            yield Entry(f"template {kernel} {number}", source(kernel), text)


def _lifted(kernel: str) -> Source:
    if kernel in NAMES:
        return source(kernel)
    found = lift(ROOT / "kernels" / f"{kernel}.cu")
    return Source(found.kernel, found.original, found.no_wrap)


def forget() -> None:
    """Drops verdicts, analyses and what was simplified or read, which this process remembers."""
    memory.forget()
    apply.forget()
    affine._simplified.clear()
    affine._linears.clear()
    scope._outside.cache_clear()
    scope._loops_inside.clear()
    edit._TIDIED.clear()
    memo.forget()
    notes.forget()
    parse_statement.cache_clear()
    read_value.cache_clear()
    gc.collect()


def once(entry: Entry, text: str) -> dict[str, float]:
    """Milliseconds by phase. Raises AssertionError for a program that is not proved."""
    start = time.process_time()
    program = parse(text)
    parsed = time.process_time()
    done = compile_program(entry.source, program, entry.limits)
    proved = time.process_time()
    assert done.module is not None, (entry.name, done.verdict.diagnostics)
    render(done.module)
    end = time.process_time()
    return {
        "all": (end - start) * 1e3,
        "parse": (parsed - start) * 1e3,
        "transform_and_prove": (proved - parsed) * 1e3,
        "render": (end - proved) * 1e3,
    }


def prefix(text: str) -> str:
    """The program without its last statement; empty when that was the only one."""
    lines = [x for x in text.splitlines() if x.strip() and not x.lstrip().startswith("#")]
    return "\n".join(lines[:-1])


def timed(entry: Entry, repeat: int) -> dict[str, dict[str, float]]:
    """Cold, and with the prefix proved before."""
    out: dict[str, dict[str, float]] = {}
    for how in TARGETS:
        runs = []
        for _ in range(repeat):
            forget()
            before = prefix(entry.text) if how == "prefix" else ""
            if before:
                compile_program(entry.source, parse(before), entry.limits)
            runs.append(once(entry, entry.text))
        out[how] = {key: round(median(r[key] for r in runs), 1) for key in runs[0]}
    return out


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least that share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "prover-timing.json")
    parser.add_argument("--commit", default="", help="where git is not there to say")
    args = parser.parse_args()
    commit = args.commit or subprocess.check_output(["git", "rev-parse", "HEAD"], text=True)
    entries = list(suite())
    once(entries[0], entries[0].text)  # modules loaded
    rows = {e.name: timed(e, args.repeat) for e in entries}
    summary: dict[str, Any] = {}
    for how, (middle, high) in TARGETS.items():
        times = [r[how]["all"] for r in rows.values()]
        summary[how] = {
            "median": round(median(times), 1),
            "p99": percentile(times, 0.99),
            "longest": max(times),
            "targets": {"median": middle, "p99": high},
            "met": median(times) < middle and percentile(times, 0.99) < high,
            "phases_median": {
                key: round(median(r[how][key] for r in rows.values()), 1)
                for key in ("parse", "transform_and_prove", "render")
            },
        }
    document = {
        "what": (__doc__ or "").strip().split("\n")[0],
        "command": f"python -m benchmarks.prover.timing --repeat {args.repeat}",
        "commit": commit.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} shared cores, processor time",
        "programs": len(rows),
        "milliseconds": summary,
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
