"""What the pre-filter saves and costs, replayed on programs that were all measured on an H200.

    python -m benchmarks.prefilter [--records FILE.jsonl.xz] [--out FILE.json]

The programs of `benchmarks/validation` come to `evolve.search.prefilter` one after the other, the kernel as
written first, with their estimates; it sees the times of those that it lets through, never of those that it
skips. Two streams for each kernel and seed: `all`, every program in random order; and `near`, the measured
top decile in random order behind `WARM` random others, for what a search proposes near the optimum.

By kernel and stream, means over the seeds unless said otherwise: `saved`, the share of programs skipped (of
`near`: of the decile); `saved_time`, the same of their summed times; `regret`, how much slower than the best
of the stream the best measured one is, with `worst_regret` over the seeds; `false_skips`, the share of the
skipped that were useful by the stream's best; `lost`, the share of the useful that were skipped; and
`covered`, the share of streams in which the balance's upper bound on better programs among the skipped holds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.validation.evaluate import Row, by_kernel, evaluate, read
from evolve.search.prefilter import Policy, Prefilter, Saved, Seen

RECORDS = Path(__file__).parent / "validation" / "h200.jsonl.xz"
SEEDS = 20
WARM = 30
USEFUL = (1.1, 1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Replayed:
    """One stream: the programs measured and skipped after the warm-up, and the filter's own balance."""

    measured: tuple[Row, ...]
    skipped: tuple[Row, ...]
    warm: tuple[Row, ...]
    balance: Saved


def replay(rows: Sequence[Row], seed: int, policy: Policy, warm: int = 0) -> Replayed:
    """Feeds the rows in order; the first `warm` count as seen before."""
    prefilter = Prefilter(seed, policy)
    measured: list[Row] = []
    skipped: list[Row] = []
    for number, row in enumerate(rows):
        estimate_us = row.estimated * 1e6
        decision = prefilter.decide(number, estimate_us)
        action = "measure" if number < warm else decision.action
        time = None if action == "skip" else row.measured * 1e6
        prefilter.observe(Seen(number, estimate_us, time, action))
        if number >= warm:
            (skipped if action == "skip" else measured).append(row)
    return Replayed(tuple(measured), tuple(skipped), tuple(rows[:warm]), prefilter.saved())


def streams(rows: Sequence[Row], seed: int) -> dict[str, tuple[list[Row], int]]:
    """The streams of one kernel's programs, each with the length of its warm-up."""
    rng = Random(f"{seed}/{rows[0].kernel}")
    drawn = rng.sample(rows, len(rows))
    drawn.sort(key=lambda r: r.population != "original")
    decile = set(sorted(range(len(drawn)), key=lambda i: drawn[i].measured)[: max(5, len(drawn) // 10)])
    near = [r for i, r in enumerate(drawn) if i in decile]
    others = [r for i, r in enumerate(drawn) if i not in decile][:WARM]
    return {"all": (drawn, 0), "near": (others + near, len(others))}


def figures(replays: Sequence[Replayed], useful: float) -> dict[str, float]:
    """See the module's text."""
    saved, saved_time, regrets, false_skips, lost, covered = [], [], [], [], [], []
    for one in replays:
        every = one.measured + one.skipped
        best = min(r.measured for r in every + one.warm)
        found = min(r.measured for r in one.measured + one.warm)
        wrong = sum(r.measured <= useful * best for r in one.skipped)
        better = sum(r.measured < found for r in one.skipped)
        saved.append(len(one.skipped) / len(every))
        saved_time.append(sum(r.measured for r in one.skipped) / sum(r.measured for r in every))
        regrets.append(found / best - 1)
        if one.skipped:
            false_skips.append(wrong / len(one.skipped))
            covered.append(better / len(one.skipped) <= one.balance.better_at_most)
        lost.append(wrong / max(1, sum(r.measured <= useful * best for r in every)))
    return {
        "saved": round(fmean(saved), 3),
        "saved_time": round(fmean(saved_time), 3),
        "audited": round(fmean(one.balance.audited / len(one.measured + one.skipped) for one in replays), 3),
        "regret": round(fmean(regrets), 5),
        "worst_regret": round(max(regrets), 5),
        "false_skips": round(fmean(false_skips), 4) if false_skips else 0.0,
        "lost": round(fmean(lost), 4),
        "covered": round(fmean(covered), 3) if covered else 1.0,
    }


def evaluate_policy(
    rows: Sequence[Row], policy: Policy, seeds: Sequence[int]
) -> dict[str, dict[str, dict[str, float]]]:
    """Figures by stream and kernel."""
    out: dict[str, dict[str, dict[str, float]]] = {"all": {}, "near": {}}
    for kernel, programs in sorted(by_kernel(rows).items()):
        made = [streams(programs, seed) for seed in seeds]
        for name, by_name in out.items():
            replays = []
            for seed, stream in zip(seeds, made, strict=True):
                drawn, warm = stream[name]
                replays.append(replay(drawn, seed, policy, warm))
            by_name[kernel] = figures(replays, policy.useful)
    return out


def mean(by_kernel: dict[str, dict[str, float]]) -> dict[str, float]:
    """Over kernels; of `worst_regret` the largest."""
    names = next(iter(by_kernel.values()))
    found = {n: round(fmean(f[n] for f in by_kernel.values()), 4) for n in names}
    return found | {"worst_regret": max(f["worst_regret"] for f in by_kernel.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    head, records = read(args.records)
    rows = evaluate(records)
    seeds = range(SEEDS)
    policies = {str(u): replace(Policy(), useful=u) for u in USEFUL}
    found = {u: evaluate_policy(rows, policy, seeds) for u, policy in policies.items()}
    usual = str(Policy().useful)
    result: dict[str, Any] = {
        "command": "python -m benchmarks.prefilter --out benchmarks/results/prefilter-h200.json",
        "records": args.records.name,
        "gpu": head.get("gpu"),
        "programs": len(rows),
        "seeds": SEEDS,
        "warm": WARM,
        "policy": asdict(Policy()),
        "by_useful": {u: {name: mean(f) for name, f in by_stream.items()} for u, by_stream in found.items()},
        "kernels": found[usual],
    }
    for useful, by_stream in result["by_useful"].items():
        for name, f in by_stream.items():
            print(f"useful up to {useful} x best, {name}: {json.dumps(f)}")
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
