"""The programs of kernels/programs beside PyTorch on one GPU, every launch timed in the same way.

    python -m benchmarks.yardsticks --commit $(git rev-parse HEAD) --out FILE.json [KERNEL...]
    python -m benchmarks.yardsticks --dry-run        everything that needs no GPU

For each kernel its program and those in kernels/programs/alternatives/ named KERNEL-*.dsl are proved, built,
and checked and timed by the scorer of `--device cuda`; what the scorer found fastest is *ours*. Then all of
them are timed again, in one process on one context, in turns that go forth and back, with

    eager, compiled    the same function in PyTorch (benchmarks/torch_work.py), TF32 off
    copy               `copy_` of as many bytes as the kernel must read and write
    mix                `torch.add(out=)` of as many bytes, for kernels that read twice what they write
    torch_sum, read    for kernels that mostly read: `sum` of as many bytes, and a loop of 16-byte loads

`in_a_row` is one of eight launches in a row after such a flush: there what a launch leaves in L2 has to be
written back while the next one runs, which the time of a single launch does not have.

Results, ours and PyTorch's, are compared with PyTorch's in float64. The intervals are of the ratio of the
medians; they know nothing of other GPUs or other days.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.prepared_programs import PROGRAMS, WORKLOADS, Prepared, kernel_of, prepare
from benchmarks.torch_bench import Bench, compare, contestants, read_arguments
from benchmarks.torch_work import works
from evolve.toolchain.nvrtc import nvrtc_version

ESTIMATED = "sim:h200-sxm"
CLOSE, CLOSE_ROUNDED = 1e-4, 0.03
"""Greatest difference from the float64 result, relative to the root mean square of the result; where inputs
may be rounded to bfloat16."""
RESAMPLES = 2000
HIDDEN = ("samples_us", "programs", "eager", "compiled")
"""What of a record is not printed."""


# ---- figures


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of median(ours) / median(theirs), turns drawn together: drift is in both."""
    rng = np.random.default_rng(0)
    turns = rng.integers(0, len(ours), (RESAMPLES, len(ours)))
    ratios = np.median(np.asarray(ours)[turns], axis=1) / np.median(np.asarray(theirs)[turns], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return round(float(low), 4), round(float(high), 4)


def figures(
    ours: str, samples: Mapping[str, Sequence[float]], moved: int, yardstick_bytes: Mapping[str, int]
) -> dict[str, Any]:
    """Medians (us), ours over each of PyTorch's, and ours as a fraction of the yardsticks' speed."""
    us = {name: median(s) for name, s in samples.items()}
    out: dict[str, Any] = {"ours": ours, "median_us": {n: round(t, 2) for n, t in us.items()}}
    for name in ("eager", "compiled"):
        if name in us:
            out[f"ours_over_{name}"] = round(us[ours] / us[name], 4)
            out[f"ours_over_{name}_95"] = interval(samples[ours], samples[name])
    out["tb_per_s"] = round(moved / us[ours] * 1e-6, 3)
    for name, size in yardstick_bytes.items():
        out[f"of_{name}"] = round((moved / us[ours]) / (size / us[name]), 4)
        low, high = interval(samples[name], samples[ours])
        out[f"of_{name}_95"] = (round(low * moved / size, 4), round(high * moved / size, 4))
    return out


def judged(prepared: Prepared) -> tuple[Prepared, dict[str, Any]]:
    """What the scorer says of each program; those that it scored, the fastest first."""
    from evolve.search.measured_task import MeasuredProblem

    problem = prepared.problem
    assert isinstance(problem, MeasuredProblem)
    said: dict[str, Any] = {}
    try:
        scorer = problem.scorer_on()
        for p in prepared.programs:
            got = scorer.score(p.built)
            us = None if got.time_s is None else round(got.time_s * 1e6, 2)
            said[p.name] = {"status": got.status, "message": got.message, "us": us}
    finally:
        problem.close()
    right = [p for p in prepared.programs if said[p.name]["status"] == "scored"]
    right.sort(key=lambda p: said[p.name]["us"])
    return Prepared(prepared.kernel, problem, tuple(right)), said


def measure(bench: Bench, kernel: str, device: str, check: bool) -> dict[str, Any]:
    """One kernel's record."""
    begin = time.monotonic()
    prepared = prepare(kernel, device)
    record: dict[str, Any] = {
        "kernel": kernel,
        "sizes": dict(prepared.sizes),
        "numerics": prepared.problem.numerics,
        "programs": {p.name: p.text for p in prepared.programs},
    }
    if check:
        prepared, record["scorer"] = judged(prepared)
    record["scored_after_s"] = round(time.monotonic() - begin, 1)
    torch = bench.torch
    work = works(torch, prepared.sizes)[prepared.kernel]
    record |= {"eager": inspect.getsource(work.eager), "compiled": inspect.getsource(work.compiled)}
    functions = {"eager": work.eager, "compiled": torch.compile(work.compiled, dynamic=False)}
    far = compare(bench, prepared, work, functions)
    record["difference_over_rms"] = far
    close = CLOSE_ROUNDED if prepared.problem.numerics == "mixed" else CLOSE
    right = [p for p in prepared.programs if far[p.name] <= close]
    if not right:
        return record | {"error": "no program is right"}
    calls, sizes = contestants(bench, Prepared(prepared.kernel, prepared.problem, tuple(right)), functions)
    samples = bench.time(calls)
    if not check:
        right.sort(key=lambda p: median(samples[p.name]))
    record |= figures(right[0].name, samples, sum(prepared.moved), sizes)
    if kernel == "matmul":
        flops = 2 * math.prod(prepared.sizes.values())
        record["tflops"] = {n: round(flops / median(s) * 1e-6, 2) for n, s in samples.items() if n != "copy"}
    in_a_row = bench.time_in_a_row(calls)
    record["in_a_row_us"] = {n: round(median(s), 2) for n, s in in_a_row.items()}
    record["ours_over_compiled_in_a_row_95"] = interval(in_a_row[right[0].name], in_a_row["compiled"])
    record["samples_us"] = {n: [round(x, 2) for x in s] for n, s in samples.items()}
    record["wall_s"] = round(time.monotonic() - begin, 1)
    return record


def dry_run(kernels: Sequence[str]) -> list[dict[str, Any]]:
    """What there is to measure, checked as far as no GPU is needed."""
    out = []
    for kernel in kernels:
        prepared = prepare(kernel, ESTIMATED)
        work = works(None, prepared.sizes)[prepared.kernel]
        wanted = len(inspect.signature(work.eager).parameters)
        if wanted != len(read_arguments(prepared)):
            raise ValueError(f"{kernel}: the PyTorch function takes {wanted} arrays")
        read, written = prepared.moved
        launches = {
            p.name: [f"{x.kernel} {x.grid} {x.block} {len(x.args)}" for x in p.launches]
            for p in prepared.programs
        }
        out.append({"kernel": kernel, "bytes_read": read, "bytes_written": written, "launches": launches})
    return out


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", default="")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dry-run", action="store_true", help="stop before the GPU")
    parser.add_argument("--no-scorer", action="store_true", help="compare with PyTorch's results only")
    parser.add_argument("--seconds", type=float, default=250.0, help="begin no kernel after so long")
    parser.add_argument("kernels", nargs="*", help="all that have a program and a PyTorch function")
    args = parser.parse_args(argv)
    known = [name for name in works(None, {}) if (PROGRAMS / f"{name}.dsl").is_file()]
    known += [case for case in sorted(p.stem for p in WORKLOADS.glob("*.toml")) if kernel_of(case) in known]
    names = args.kernels or known
    for name in names:
        if name not in known:
            parser.error(f"{name}: no program, or no PyTorch function; there are {', '.join(known)}")
    if args.dry_run:
        for one in dry_run(names):
            print(json.dumps(one), flush=True)
        return 0
    if args.out is None or not args.commit:
        parser.error("--out and --commit are needed")
    begin = time.monotonic()
    bench = Bench(int(args.device.partition(":")[2] or 0))
    try:
        options = " --no-scorer" if args.no_scorer else ""
        document: dict[str, Any] = {
            "command": f"python -m benchmarks.yardsticks --commit COMMIT --out FILE{options} "
            + " ".join(args.kernels),
            "commit": args.commit,
            "date": datetime.now(UTC).date().isoformat(),
            "nvrtc": ".".join(map(str, nvrtc_version())),
            **bench.about(),
            "timing": "CUDA events around each launch, L2 cold and clean before it; medians",
            "results": [],
            "left_out": [],
        }
        for name in names:
            if time.monotonic() - begin > args.seconds:
                document["left_out"].append(name)
                continue
            try:
                record = measure(bench, name, args.device, not args.no_scorer)
            except Exception as error:  # of three libraries: it costs this kernel, and the record says so
                record = {"kernel": name, "error": f"{type(error).__name__}: {error}"}
            bench.torch.cuda.empty_cache()
            document["results"].append(record)
            args.out.write_text(json.dumps(document, indent=1) + "\n")
            shown = {k: v for k, v in record.items() if k not in HIDDEN}
            print(json.dumps(shown), flush=True)
        args.out.write_text(json.dumps(document, indent=1) + "\n")
    finally:
        bench.close()
    return int(bool(document["left_out"]) or any("error" in r for r in document["results"]))


if __name__ == "__main__":
    raise SystemExit(main())
