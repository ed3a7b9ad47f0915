"""The prover's record: thousands of random and damaged programs, its answers beside the truth.

    python -m benchmarks.prover.record [--programs N] [--seed N] [--jobs N] [--work FILE] [--also FILE ...]
                                       [--with PRIMITIVE ...] [--out FILE]

`tests.illegal.adversary` makes families: a random program of a random kernel (those in `kernels/`, in
`tests/illegal/kernels/` and in `tests.kernels_ir`), and three damaged versions of its result. The truth is
`tests.legality.judge`: every statement of every thread at small sizes, values symbolic, accesses watched,
threads forward and in one other order. Accepted and wrong is a false accept; refused and right at all sizes
tried a false reject. The share of false rejects is of all programs judged; beside it stands their share of
the programs that are right. Programs equal to an earlier one count once.

Batches that `--work` holds already are not made again, so a run that was stopped goes on where it was.
`--also` adds the batches of other runs, of other seeds or commits; the record says how many are of which.
With `--with`, only families with one of these primitives are judged: for primitives that are seldom drawn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.illegal import adversary
from tests.illegal.adversary import Case, Judged, family, judged
from tests.illegal.mutate import DAMAGE

FAMILIES = 40
"""A batch."""
EXAMPLES = 2
ANSWERS = ("proved", "refuted", "unknown")

REASONS = {
    "E-COVERAGE": "a guard that cuts off nothing that counts, as rows that are empty at the sizes tried",
    "E-DATA-LOOP": "what runs as often as data says is not followed beyond reductions",
    "E-EXPR": "another expression with the same value, as a store where a sum starts from nothing",
    "E-FLOW": "another cell or statement that holds the same value",
    "E-REDUCTION": "a minimum or maximum taken twice over the same element, or a sum over one element",
    "E-VECTOR": "lanes that write one cell the same value",
    "E-OWNER": "registers that each thread fills alike, where code generation wants an owner for each",
    "E-GRID": "a statement outside a grid loop that has one block",
    "E-COMBINE": "a combination that code generation has no shuffle for",
    "E-ASYNC": "a copy from a window that was filled before, or one in a kernel of several launches",
    "E-BIND": "a loop bound twice to one axis, of which one has one iteration",
    "E-BARRIER": "a condition on a thread that is true for all threads there are",
    "E-RACE": "threads that do not run at the sizes tried",
    "E-BOUNDS": "a bound that no premise on an index array gives, though the contents drawn obey it",
    "E-LIMIT": "the question is too large for the prover",
    "E-NONAFFINE": "outside what isl can express",
    "E-SHARED-SCOPE": "shared memory declared inside a thread loop that has one thread",
    "E-THREADS": "as many threads as a size says: a launch wants a constant",
    "E-UNINIT": "a cell read before it is filled at other sizes than those tried",
}
"""Why right programs are refused, by the first code."""


def one(j: Judged) -> dict[str, Any]:
    """What the record keeps of a judged program."""
    first = j.verdict.diagnostics[0] if j.verdict.diagnostics else None
    row: dict[str, Any] = {
        "kernel": j.case.kernel_name,
        "primitives": sorted(j.case.primitives),
        "damage": j.case.damage,
        "verdict": j.verdict.status.value,
        "wrong": j.wrong,
        "code": first.code if first else None,
        "digest": digest(j.case),
    }
    if j.false_accept or j.false_reject:
        row |= {"text": j.case.text, "sizes": j.sizes[-1], "message": first.message if first else ""}
    return row


def digest(case: Case) -> str:
    """Names a program by its result."""
    text = f"{case.kernel_name}\n{case.kernel!r}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def batch(args: tuple[int, int, frozenset[str]]) -> tuple[int, float, list[dict[str, Any]]]:
    """Batch `number` of `seed`: its programs, and processor seconds."""
    seed, number, wanted = args
    start = time.process_time()
    rows: list[dict[str, Any]] = []
    for n in range(FAMILIES):
        rng = random.Random(f"{seed} {number} {n}")
        try:
            for case in family(rng):
                if wanted and not case.primitives & wanted:
                    break
                j = judged(case, rng)
                rows.append(one(j) if j else {"digest": digest(case), "verdict": "unjudged"})
        except Exception as e:  # neither a transform nor the prover may end so
            error = f"{type(e).__name__}: {e}"
            rows.append({"digest": f"{seed} {number} {n}", "verdict": "raised", "error": error})
    return number, time.process_time() - start, rows


def batches(
    seed: int, commit: str, work: Path, also: list[Path], programs: int, jobs: int, wanted: frozenset[str]
) -> list[dict[str, Any]]:
    """Rows of as many batches as it takes, those in the files first; new ones are added to `work`."""
    done: dict[int, list[dict[str, Any]]] = {}
    others = [json.loads(line) for path in also for line in path.read_text().splitlines()]
    rest = [{**r, "run": [e["commit"], e["seed"]]} for e in others for r in e["rows"]]
    if work.exists():
        for line in work.read_text().splitlines():
            entry = json.loads(line)
            if entry["seed"] == seed:
                done[entry["batch"]] = [{**r, "run": [entry["commit"], seed]} for r in entry["rows"]]
    todo = ((seed, n, wanted) for n in range(1_000_000) if n not in done)
    with multiprocessing.Pool(jobs) as pool, work.open("a") as file:
        while count([rest, *done.values()]) < programs:
            for number, seconds, rows in pool.map(batch, [next(todo) for _ in range(jobs)]):
                done[number] = [{**r, "run": [commit, seed]} for r in rows]
                entry = {"commit": commit, "seed": seed, "batch": number, "seconds": seconds, "rows": rows}
                file.write(json.dumps(entry) + "\n")
            file.flush()
            print(f"{count([rest, *done.values()])} programs", flush=True)
    return [*rest, *(r for n in sorted(done) for r in done[n])]


def runs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many programs are of which commit and seed."""
    tally = Counter(tuple(r["run"]) for r in distinct(rows) if r["verdict"] in ANSWERS)
    return [{"commit": commit, "seed": seed, "programs": n} for (commit, seed), n in tally.items()]


def count(many: Iterable[list[dict[str, Any]]]) -> int:
    """Judged programs, equal ones once."""
    return len({r["digest"] for rows in many for r in rows if r["verdict"] in ANSWERS})


def distinct(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for r in rows:
        if r["digest"] not in seen:
            seen.add(r["digest"])
            yield r


def table(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Answers and the truth of some programs."""
    out = dict.fromkeys(
        ("programs", "right", "wrong", "accepted", "refused", "unknown", "false_accepts", "false_rejects"), 0
    )
    for r in rows:
        accepted, wrong = r["verdict"] == "proved", r["wrong"] is not None
        out["programs"] += 1
        out["wrong" if wrong else "right"] += 1
        out["accepted" if accepted else "refused"] += 1
        out["unknown"] += r["verdict"] == "unknown"
        out["false_accepts"] += accepted and wrong
        out["false_rejects"] += not accepted and not wrong
    return out


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The record's tables."""
    all_of = list(distinct(rows))
    judged_ = [r for r in all_of if r["verdict"] in ANSWERS]
    whole = table(judged_)
    rejected = [r for r in judged_ if r["verdict"] != "proved" and r["wrong"] is None]
    kinds = Counter((r["code"], "damaged" if r["damage"] else "as written") for r in rejected)
    damages = {d: [r for r in judged_ if d in r["damage"].split(" and ")] for d in DAMAGE}
    primitives = sorted({p for r in judged_ for p in r["primitives"]})
    return {
        "all": whole,
        "false_rejects_share": round(whole["false_rejects"] / whole["programs"], 4),
        "false_rejects_share_of_right": round(whole["false_rejects"] / whole["right"], 4),
        "not_judged": sum(r["verdict"] == "unjudged" for r in all_of),
        "raised": [r for r in all_of if r["verdict"] == "raised"],
        "mix": {
            "as written": table(r for r in judged_ if not r["damage"]),
            "damaged": table(r for r in judged_ if r["damage"]),
        },
        "wrong_how": dict(Counter(r["wrong"] for r in judged_ if r["wrong"]).most_common()),
        "refused_with": dict(Counter(r["code"] for r in judged_ if r["code"]).most_common()),
        "by_primitive": {p: table(r for r in judged_ if p in r["primitives"]) for p in primitives},
        "by_damage": {d: table(some) for d, some in damages.items()},
        "by_kernel": {
            k: table(r for r in judged_ if r["kernel"] == k) for k in sorted({r["kernel"] for r in judged_})
        },
        "false_accepts": [r for r in judged_ if r["verdict"] == "proved" and r["wrong"] is not None],
        "false_reject_kinds": [
            {
                "code": code,
                "of": of,
                "programs": n,
                "reason": REASONS.get(code, ""),
                "examples": [
                    {k: r[k] for k in ("text", "sizes", "message")}
                    for r in rejected
                    if r["code"] == code and ("damaged" if r["damage"] else "as written") == of
                ][:EXAMPLES],
            }
            for (code, of), n in kinds.most_common()
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("prover-record.jsonl"))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parents[1] / "results" / "prover-record.json"
    )
    parser.add_argument("--also", type=Path, nargs="*", default=[])
    parser.add_argument("--with", dest="wanted", nargs="*", default=[])
    args = parser.parse_args()
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    commit = head.strip()
    wanted = frozenset(args.wanted)
    rows = batches(args.seed, commit, args.work, args.also, args.programs, args.jobs, wanted)
    document = {
        "what": (__doc__ or "").strip().split("\n")[0],
        "command": f"python -m benchmarks.prover.record --programs {args.programs} --seed {args.seed}",
        "commit": commit,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seed": args.seed,
        "runs": runs(rows),
        "drawn": {
            "kernels": len(adversary.KERNELS),
            "longest_program": adversary.LONGEST,
            "damaged_versions_a_program": 3,
            "damages": len(DAMAGE),
            "left_out": sorted(adversary.LEFT_OUT),
            "with_one_of": sorted(wanted),
            "sizes": adversary.SIZES,
        },
        **summary(rows),
    }
    args.out.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n")
    print(
        json.dumps({k: document[k] for k in ("all", "false_rejects_share", "false_rejects_share_of_right")})
    )


if __name__ == "__main__":
    main()
