"""How much of what is emitted is proved as text, how long that takes, and what becomes of changed texts.

    python -m benchmarks.read_back [--changes 12] [--sketches 0] [--seed 1] [--out FILE.json]

The suite is every program in `kernels/programs/` and its `alternatives/`, and the templates of
`tests.illegal.templates`. Then a number of random small changes of each text, one at a time: a line left
out, doubled, under a condition on the thread or after the one behind it, a number one more or less or of
another type, a hint or a conversion more, another operator, axis, lane or function, a condition without a
part of it. Changes that are proved are listed and, those of templates, executed on the host under checks at
small sizes: they change nothing that counts, or a wrong text was proved. Each text's launcher is
read back too. With `--sketches` also the first
ones that the expert makes of each kernel in `kernels/`, holes filled at random. Milliseconds are of processor
time.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from evolve.agents.expert.agent import sketches
from evolve.agents.holes import read_template
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.validation.launching import validate_launcher
from evolve.validation.validate import validate
from tests.illegal import running
from tests.illegal.fuzz import sizes_for
from tests.illegal.lifted import source, workload
from tests.validation.suite import Made, launcher, made, programs

ROOT = Path(__file__).parents[1]
ORIGINAL = "// The original kernel"
SWAPS = (
    (" < ", " <= "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" % ", " / "),
    (" && ", " || "),
    (" == ", " != "),
    (" ^ ", " + "),
    (" += ", " = "),
    (".x", ".y"),
    (".y", ".x"),
    ("tx", "ty"),
    ("ty", "tx"),
    ("fmaxf", "fminf"),
    ("expf", "exp2f"),
    ("-INFINITY", "INFINITY"),
    ("-0.0f", "0.0f"),
    ("_xor_sync", "_down_sync"),
    ("atomicAdd", "atomicMax"),
    ("threadIdx.x", "threadIdx.y"),
    ("blockIdx.x", "blockIdx.y"),
)

TYPES = (
    ("float ", "double "),
    ("float ", "int "),
    ("int ", "unsigned int "),
    ("int ", "long long "),
    ("int ", "unsigned char "),
    ("const ", ""),
    ("const ", "volatile "),
    ("__shared__ ", ""),
    ("__restrict__ ", ""),
    ("__syncthreads", "__syncwarp"),
    ("__launch_bounds__(", "__launch_bounds__(1 + "),
)
THREADS = ("threadIdx.x < 8", "threadIdx.x == 0", "threadIdx.y == 0", "blockIdx.x < 1")
CONVERSIONS = ("(int)", "(float)", "(double)", "(unsigned char)", "(float)(int)", "(unsigned int)")

Change = tuple[int, str, int]
"""The number of a line, what stands there then, and how many lines that replaces."""


def changes(lines: list[str]) -> Iterator[Change]:
    """Each small change of the emitted kernels; comments, directives and instructions stay."""
    for n, line in enumerate(lines):
        code, slashes, comment = line.partition("//")
        bare = code.strip()
        if not bare or bare.startswith("#") or "asm" in bare or bare.endswith("\\"):
            continue
        if bare.endswith(";") and not bare.startswith("for"):
            yield n, "", 1
            yield from wrapped(lines, n)
        for m in re.finditer(r"(?<![\w.])\d+(?![\w.])", code):
            for by in (1, -1):
                if int(m[0]) + by >= 0:
                    yield n, f"{code[: m.start()]}{int(m[0]) + by}{code[m.end() :]}{slashes}{comment}", 1
        for old, new in (*SWAPS, *TYPES):
            for m in re.finditer(re.escape(old), code):
                yield n, f"{code[: m.start()]}{new}{code[m.end() :]}{slashes}{comment}", 1
        for m in re.finditer(r"(?<![\w.])\d+(\.\d*)?f?(?![\w.])", code):
            for number in (m[0].rstrip("f"), f"{m[0]}.0f", f"{m[0]}u", f"-{m[0]}"):
                yield n, f"{code[: m.start()]}{number}{code[m.end() :]}{slashes}{comment}", 1
        m = re.fullmatch(r"(\s*)if \((.*)\) \{\s*", code)
        if m:
            parts = m[2].split(" && ")
            for k in range(len(parts)):
                rest = " && ".join(parts[:k] + parts[k + 1 :]) or "true"
                yield n, f"{m[1]}if ({rest}) {{", 1


def wrapped(lines: list[str], n: int) -> Iterator[Change]:
    """The statement of a line in other places, more than once, or with more in it."""
    bare = lines[n].partition("//")[0].strip()
    yield n, f"{bare} {bare}", 1
    for cond in THREADS:
        yield n, f"if ({cond}) {{ {bare} }}", 1
        yield n, f"if ({cond}) {{ {bare} }} else {{ {bare} }}", 1
        yield n, f"if ({cond}) return; {bare}", 1
    yield n, f"for (int again = 0; again < 2; ++again) {{ {bare} }}", 1
    after = lines[n + 1].partition("//")[0].strip()
    if after.endswith(";"):
        yield n, f"{after} {bare}", 2
    left, equals, right = bare.partition(" = ")
    if not equals:
        left, equals, right = bare.partition(" += ")
    if equals:
        target, value = left.split()[-1], right.rstrip(";")
        for to in CONVERSIONS:
            yield n, f"{left}{equals}{to}({value});", 1
        yield n, f"{bare} const float unused = ({target} = 0);", 1
        yield n, f"{bare} {target} += 0;", 1
        yield n, f"{left}{equals}{value}, 0;", 1
        for m in re.finditer(r"(?<!&)\b\w+(\[[^\[\]]*\])+", value):
            for hint in ("__ldg", "__ldcg"):
                yield n, f"{left}{equals}{value[: m.start()]}{hint}(&{m[0]}){value[m.end() :]};", 1


def changed(made_: Made, change: Change) -> Made:
    lines = made_.rendered.text.split("\n")
    n, text, number = change
    lines[n : n + number] = [text]
    return replace(made_, rendered=replace(made_.rendered, text="\n".join(lines)))


def drawn(made_: Made, number: int, rng: random.Random) -> list[Change]:
    lines = made_.rendered.text.split("\n")
    end = next(i for i, x in enumerate(lines) if x.startswith(ORIGINAL))
    found = [c for c in changes(lines[:end]) if c[1] != lines[c[0]] or c[2] > 1]
    return found if len(found) <= number else rng.sample(found, number)


def executed(name: str, other: Made, cache: Path) -> str:
    """What running a changed text of a template shows; empty for a program, whose sizes are large."""
    if not name.startswith("template "):
        return ""
    kernel = programs()[name][0]
    (variant,) = other.module.variants
    if len(variant.kernels) != 1:
        return ""
    sizes = [sizes_for(variant.kernels[0], kernel, random.Random(seed)) for seed in range(6)]
    largest = max((s for s in sizes if s is not None), key=lambda s: sum(s.values()), default=None)
    if largest is None:
        return ""
    with mock.patch.object(running, "render", lambda module: other.rendered):
        out = running.run_kernel(source(kernel), variant.kernels[0], workload(kernel, largest), cache)
    return "clean" if out.clean else out.detail


def sketched(number: int, rng: random.Random) -> dict[str, Any]:
    """What becomes of the first sketches of each kernel that are proved."""
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for file in sorted((ROOT / "kernels").glob("*.cu")):
        problem = open_problem(ProblemRequest(str(file), file.read_text(), device="sim:h200-sxm"))
        info = problem.info()
        for sketch in sketches(info.kernel, info.workload["sizes"])[:number]:
            template = read_template(sketch.text)
            filling = tuple(rng.randrange(len(c)) for c in template.choices)
            compiled = problem.compile(problem.parse(template.fill(filling)))
            read = problem.read_back(compiled) if compiled.verdict == "PROVED" else None
            if read is not None:
                found[read.status] += 1
                reasons[read.reason] += read.status != "PROVED"
    return {"sketches": {**found, "reasons": {r: n for r, n in reasons.items() if n}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--changes", type=int, default=12)
    parser.add_argument("--sketches", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "read-back.json")
    args = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    rng = random.Random(args.seed)
    rows: dict[str, dict[str, Any]] = {}
    verdicts: Counter[str] = Counter()
    accepted: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in programs():
            it = made(name)
            start = time.process_time()
            verdict = validate(it.module, it.rendered)
            spent = (time.process_time() - start) * 1e3
            rows[name] = {"text": str(verdict), "milliseconds": round(spent, 1)}
            start = time.process_time()
            host = validate_launcher(it.module, it.rendered, f"{it.rendered.text}\n{launcher(it)}")
            spent = (time.process_time() - start) * 1e3
            rows[name] |= {"launcher": str(host), "launcher_milliseconds": round(spent, 1)}
            if not verdict.proved:
                continue
            for change in drawn(it, args.changes, rng):
                other = changed(it, change)
                found = validate(other.module, other.rendered)
                verdicts[found.status.value] += 1
                if found.proved:
                    line = it.rendered.text.split("\n")[change[0]]
                    said = executed(name, other, Path(folder))
                    accepted.append(
                        {"program": name, "line": line.strip(), "became": change[1].strip(), "executed": said}
                    )
    times = [r["milliseconds"] for r in rows.values()]
    proved = sum(r["text"] == "PROVED" for r in rows.values())
    ran = [a for a in accepted if a["executed"]]
    summary = {
        "programs": len(rows),
        "proved": proved,
        "share": round(proved / len(rows), 3),
        "not_proved": {n: r["text"] for n, r in rows.items() if r["text"] != "PROVED"},
        "milliseconds": {"median": round(median(times), 1), "longest": max(times)},
        "launchers": {
            "proved": sum(r["launcher"] == "PROVED" for r in rows.values()),
            "not_proved": {n: r["launcher"] for n, r in rows.items() if r["launcher"] != "PROVED"},
            "milliseconds": {
                "median": round(median(r["launcher_milliseconds"] for r in rows.values()), 1),
                "longest": max(r["launcher_milliseconds"] for r in rows.values()),
            },
        },
        "changes": {
            "made": sum(verdicts.values()),
            **verdicts,
            "proved_and_executed": len(ran),
            "of_these_clean": sum(a["executed"] == "clean" for a in ran),
        },
    }
    if args.sketches:
        summary |= sketched(args.sketches, rng)
    asked = f"--changes {args.changes} --sketches {args.sketches} --seed {args.seed}"
    document = {
        "what": (__doc__ or "").strip().split("\n")[0],
        "command": f"python -m benchmarks.read_back {asked}",
        "commit": commit.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **summary,
        "proved_changes": accepted,
        "rows": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
