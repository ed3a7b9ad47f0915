"""What `benchmarks.yardsticks` measured, as the tables of benchmarks/README.md and, in part, README.md.

python -m benchmarks.yardsticks_table benchmarks/results/yardsticks-h200.json [KERNEL...]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.yardsticks import interval

COLUMNS = (
    "kernel",
    "sizes",
    "us",
    "PyTorch, us",
    "compiled, us",
    "ours / compiled (95 %)",
    "in a row",
    "speed",
)
YARDSTICKS = ("read", "mix", "copy")
"""The first of these that was timed is what a kernel's bytes per second are a fraction of."""

BYTES_MATTER = 0.1
"""What is further from the speed of a copy is not held up by bytes."""


def shown(record: Mapping[str, Any]) -> str:
    """Which of ours stands in the table: the fastest in a row, where no write is put off until a launch has
    ended; in a record without such times the one that was fastest alone."""
    us = record.get("in_a_row_us")
    return min(record["programs"], key=lambda name: float(us[name])) if us else str(record["ours"])


def row(record: Mapping[str, Any]) -> str:
    """One kernel's line. Raises KeyError for a record without times."""
    times, samples, ours = record["median_us"], record.get("samples_us"), shown(record)
    low, high = interval(samples[ours], samples["compiled"]) if samples else record["ours_over_compiled_95"]
    return " | ".join(
        (
            f"| {_named(record)}",
            ", ".join(_size(n) for n in record["sizes"].values() if isinstance(n, int)),
            f"{times[ours]:.1f}",
            f"{times['eager']:.1f}",
            f"{times['compiled']:.1f}",
            f"{times[ours] / times['compiled']:.3f} ({low:.3f} to {high:.3f})",
            _in_a_row(record),
            f"{_speed(record)} |",
        )
    )


def _in_a_row(record: Mapping[str, Any]) -> str:
    """Ours over compiled when each runs several times in a row; a dash where that was not timed."""
    us = record.get("in_a_row_us")
    return f"{us[shown(record)] / us['compiled']:.3f}" if us else "-"


def _named(record: Mapping[str, Any]) -> str:
    """The kernel, with the numerics contract where it is another than the default."""
    contract = record["numerics"]
    return f"{record['kernel']}" if contract == "reassociate" else f"{record['kernel']} (numerics {contract})"


def _size(n: int) -> str:
    power = n.bit_length() - 1
    return f"2^{power}" if n == 1 << power and power > 13 else str(n)


def _speed(record: Mapping[str, Any]) -> str:
    ours, times = shown(record), record["median_us"]
    if "tflops" in record:
        return f"{record['tflops'][ours]:.1f} TFLOP/s"
    name = next(n for n in YARDSTICKS if f"of_{n}" in record)
    share = record[f"of_{name}"] * times[record["ours"]] / times[ours]
    return f"{share:.2f} of {name}" if share >= BYTES_MATTER else "-"


def table(document: Mapping[str, Any], kernels: Sequence[str] = ()) -> str:
    """A line each for these kernels, for all if none is named; those without times are left out."""
    timed = [r for r in document["results"] if "median_us" in r]
    rows = [row(r) for r in timed if not kernels or r["kernel"] in kernels]
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    args = parser.parse_args()
    print(table(json.loads(args.file.read_text()), args.kernels))


if __name__ == "__main__":
    main()
