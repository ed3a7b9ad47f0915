"""Evaluates the time model on what `observe.py` recorded: rank correlation, regret, error of the time.

    python benchmarks/validation/evaluate.py RECORDS.jsonl.xz [--out FILE.json] [--rows]

Per kernel: Spearman's rank correlation of estimated and measured times, pairs closer than `NOISE` counted as
ties; the regret of measuring only the four programs that the model likes best, over all programs and within
the measured top decile; and the error of the absolute time (median of its absolute value).
"""

from __future__ import annotations

import argparse
import base64
import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from evolve.devices.estimate import Estimate, estimate
from evolve.devices.traffic import SiteTraffic, Traffic
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import Cubin, KernelResources
from evolve.toolchain.sass import Sass, decode

NOISE = 0.01
"""Times closer than this are the same: the band of repeated measurements of one program."""
TOP = 4


@dataclass(frozen=True)
class Row:
    """One program: seconds measured and estimated, and the estimates of its launches."""

    kernel: str
    population: str
    program: str
    measured: float
    estimates: tuple[Estimate, ...]
    estimated: float


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head and the records that were both timed and traced."""
    with lzma.open(path, "rt") as f:
        head = json.loads(f.readline())
        records = [json.loads(line) for line in f]
    return head, [r for r in records if r.get("launches") and r.get("samples_us")]


def resources(launch: dict[str, Any]) -> KernelResources:
    return KernelResources(
        launch["kernel"],
        launch["registers"],
        launch["shared_bytes"],
        launch["stack_bytes"],
        None,
        0,
        base64.b64decode(launch["code"]),
        tuple((a, b) for a, b in launch["lines"]),
    )


def traffic(seen: dict[str, Any]) -> Traffic:
    return Traffic(**seen | {"sites": tuple(SiteTraffic(**s) for s in seen["sites"])})


def evaluate(records: Sequence[dict[str, Any]], profile_name: str = "h200-sxm") -> list[Row]:
    """The model's word on every record."""
    profile = load_profile(profile_name)
    images = [Cubin(90, {x["kernel"]: resources(x) for x in r["launches"]}) for r in records]
    decoded = decode(images)
    rows = []
    for record, image, sass in zip(records, images, decoded, strict=True):
        estimates = tuple(_estimate(profile, launch, image, sass) for launch in record["launches"])
        measured = median(record["samples_us"]) * 1e-6
        estimated = sum(e.time_s for e in estimates)
        row = Row(record["kernel"], record["population"], record["program"], measured, estimates, estimated)
        rows.append(row)
    return rows


def _estimate(profile: Any, launch: dict[str, Any], image: Cubin, sass: dict[str, Sass]) -> Estimate:
    name = launch["kernel"]
    return estimate(
        profile,
        image.kernels[name],
        sass[name],
        traffic(launch["traffic"]),
        tuple(launch["grid"]),
        tuple(launch["block"]),
        launch["dynamic_shared"],
        launch["footprint"] and tuple(launch["footprint"]),
        launch["work"],
    )


def ranks(values: Sequence[float], noise: float = 0.0) -> list[float]:
    """Ranks from 1; runs of neighbours within `noise` of the run's first share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] > values[order[start]] * (1 + noise):
            for i in order[start:end]:
                out[i] = (start + end + 1) / 2
            start = end
    return out


def spearman(measured: Sequence[float], estimated: Sequence[float]) -> float:
    """Pearson's correlation of the ranks."""
    a, b = ranks(measured, NOISE), ranks(estimated, NOISE)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    cov = sum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True))
    va, vb = sum((x - ma) ** 2 for x in a), sum((y - mb) ** 2 for y in b)
    return float(cov / (va * vb) ** 0.5) if va and vb else 0.0


def regret(rows: Sequence[Row]) -> float:
    """How much slower than the best the fastest of the model's `TOP` favourites is."""
    liked = sorted(rows, key=lambda r: r.estimated)[:TOP]
    return min(r.measured for r in liked) / min(r.measured for r in rows) - 1


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    best = sorted(rows, key=lambda r: r.measured)
    decile = best[: max(TOP + 1, len(best) // 10)]
    errors = [r.estimated / r.measured - 1 for r in rows]
    return {
        "programs": len(rows),
        "spearman": round(spearman([r.measured for r in rows], [r.estimated for r in rows]), 3),
        "spearman_decile": round(spearman([r.measured for r in decile], [r.estimated for r in decile]), 3),
        "regret": round(regret(rows), 4),
        "regret_decile": round(regret(decile), 4),
        "median_abs_error": round(median(abs(e) for e in errors), 3),
        "median_error": round(median(errors), 3),
        "within_25_percent": round(sum(abs(e) <= 0.25 for e in errors) / len(errors), 3),
    }


def by_kernel(rows: Iterable[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        out[row.kernel].append(row)
    return dict(out)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    kernels = {k: figures(v) for k, v in sorted(by_kernel(rows).items())}
    return {
        "median_spearman": median(f["spearman"] for f in kernels.values()),
        "least_spearman": min(f["spearman"] for f in kernels.values()),
        "median_regret": median(f["regret"] for f in kernels.values()),
        "median_regret_decile": median(f["regret_decile"] for f in kernels.values()),
        "kernels": kernels,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", action="store_true", help="print every program")
    args = parser.parse_args()
    head, records = read(args.records)
    rows = evaluate(records)
    if args.rows:
        for row in sorted(rows, key=lambda r: (r.kernel, r.measured)):
            off = row.estimated / row.measured - 1
            binding = ",".join(e.binding for e in row.estimates)
            text = "; ".join(row.program.split("\n"))
            print(
                f"{row.kernel} {row.measured * 1e6:.1f} {row.estimated * 1e6:.1f} {off:+.0%} {binding} {text}"
            )
    result = summary(rows)
    for kernel, f in result["kernels"].items():
        print(kernel, json.dumps(f))
    print(json.dumps({k: v for k, v in result.items() if k != "kernels"}))
    if args.out is not None:
        args.out.write_text(json.dumps({"records": args.records.name, **head, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
