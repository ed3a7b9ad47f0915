"""The prover's record: thousands of random and damaged programs, its answers beside the truth.

    python -m benchmarks.prover.record [--seconds S] [--programs N] [--jobs N] [--seed N] [--work FILE]
                                       [--with PRIMITIVE ...] [--out FILE]

`tests.illegal.adversary` makes families: a random program of a random kernel (those in `kernels/`, in
`tests/illegal/kernels/` and in `tests.transforms.fixtures`), and three damaged versions of its result. The
truth is `tests.legality.judge`: every statement of every thread at small sizes, values symbolic, accesses
watched, threads forward and in one other order. Accepted and wrong is a false accept; refused and right at
all sizes tried a false reject. The share of false rejects is of all programs judged; beside it stands their
share of the programs that are right. Programs equal to an earlier one count once.

Ends after so many seconds, or programs, with what there is. Families that `--work` holds already (of the same
seed and commit) are not made again, so a run that was stopped goes on where it was. A family that takes too
long, or whose process dies, is named in the record and counts nowhere else. With `--with`, only families with
one of these primitives are judged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from evolve.dsl.registry import primitives
from tests.illegal import adversary
from tests.illegal.adversary import Case, Judged, family, judged
from tests.illegal.mutate import DAMAGE

EXAMPLES = 3
ANSWERS = ("proved", "refuted", "unknown")
LONG = 60
"""Seconds of processor time for a family."""
HANGS = 300
"""Seconds without an answer after which a process is ended."""
LAST = 20
"""Seconds that families under way have when the time is over."""
FORK = multiprocessing.get_context("fork")

REASONS = {
    "E-COVERAGE": "a guard that cuts off nothing that counts at the sizes tried, or more than the source "
    "does of what is empty",
    "E-DATA-LOOP": "what runs as often as data says is not followed beyond reductions, or a condition "
    "that all contents drawn fulfil",
    "E-EXPR": "another expression with the same value, as a store where a sum starts from nothing",
    "E-DUPLICATE": "an element stored twice at other sizes than those tried, or with the same value",
    "E-FLOW": "another cell or statement that holds the same value at the sizes tried",
    "E-LANES": "lanes beside threads along y, which together must be those of one warp",
    "E-LAYOUT": "a swizzle of columns that no thread uses",
    "E-REDUCTION": "a sum that does not start at its identity or counts twice where, at the sizes tried, "
    "nothing is added",
    "E-VECTOR": "lanes that write one cell the same value, or that do not run at the sizes tried",
    "E-OWNER": "registers that each thread fills alike, where code generation wants an owner for each",
    "E-GRID": "a statement outside a grid loop that has one block at the sizes tried",
    "E-COMBINE": "a combination of fewer lanes than thread.x has, for which code generation has no shuffle",
    "E-ASYNC": "a copy in a kernel of several launches, or with commits and waits that not all blocks and "
    "threads are known to pass",
    "E-BIND": "a loop bound twice to one axis, of which one has one iteration",
    "E-BARRIER": "a condition on a thread that is true for all threads there are",
    "E-RACE": "threads that write the same value, or that do not run at the sizes tried",
    "E-BOUNDS": "an access at other sizes or contents than those tried, or a bound that no premise gives",
    "E-LIMIT": "the question is too large for the prover",
    "E-NONAFFINE": "outside what isl can express",
    "E-ONLINE": "a sum kept relative to a maximum, to which the prover does not see that something is added "
    "before it ends, or that the maximum is all of the source's",
    "E-NUMERICS": "a copy of a copy rounded to bfloat16, which the contract promises of inputs alone",
    "E-ORDER": "contributions that the prover does not put in order, where numerics are exact",
    "E-SHARED-SIZE": "more than 48 KiB of shared memory: what the run allows, the truth is without",
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
        "contract": j.case.contract,
        "wanted": j.case.wanted,
        "primitives": sorted(j.case.primitives),
        "damage": j.case.damage,
        "verdict": j.verdict.status.value,
        "wrong": j.wrong,
        "code": first.code if first else None,
        "digest": digest(j.case),
    }
    if j.false_accept or j.false_reject:
        sizes = j.sizes[-1] if j.sizes else {}
        row |= {"text": j.case.text, "sizes": sizes, "message": first.message if first else ""}
    return row


def digest(case: Case) -> str:
    """Names a program by its result."""
    text = f"{case.kernel_name}\n{case.contract}\n{case.kernel!r}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class TooLongError(Exception):
    pass


def made(seed: int, number: int, wanted: frozenset[str]) -> list[dict[str, Any]]:
    """The programs of a family, judged."""
    rng = random.Random(f"{seed} {number}")
    rows: list[dict[str, Any]] = []
    signal.setitimer(signal.ITIMER_VIRTUAL, LONG)
    try:
        for case in family(rng):
            if wanted and not case.primitives & wanted:
                break
            rows.append({"digest": digest(case), "verdict": "too long", "text": case.text})
            j = judged(case, rng)
            rows[-1] = one(j) if j else {"digest": digest(case), "verdict": "unjudged"}
    except TooLongError:
        rows = rows or [{"digest": f"{seed} {number}", "verdict": "too long", "text": ""}]
    except Exception as e:  # neither a transform nor the prover may end so
        error = f"{type(e).__name__}: {e}"
        text = rows.pop()["text"] if rows and rows[-1]["verdict"] == "too long" else ""
        rows.append({"digest": f"{seed} {number}", "verdict": "raised", "error": error, "text": text})
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return rows


def work(seed: int, numbers: Iterator[int], wanted: frozenset[str], out: Connection) -> None:
    """Sends family after family: its number before it, then processor seconds and rows."""

    def too_long(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGVTALRM, too_long)
    for number in numbers:
        out.send((number, None, None))
        start = time.process_time()
        rows = made(seed, number, wanted)
        out.send((number, time.process_time() - start, rows))


@dataclass
class Worker:
    """A process that makes every `step`-th family, and the one that it is at."""

    process: ForkProcess
    pipe: Connection
    number: int
    step: int
    since: float


def started(seed: int, first: int, step: int, known: set[int], wanted: frozenset[str]) -> Worker:
    pipe, end = FORK.Pipe(duplex=False)
    numbers = (n for n in range(first, 1 << 40, step) if n not in known)
    process = FORK.Process(target=work, args=(seed, numbers, wanted, end), daemon=True)
    process.start()
    end.close()
    return Worker(process, pipe, first, step, time.monotonic())


def answers(
    seed: int, jobs: int, known: set[int], wanted: frozenset[str], end: float
) -> Iterator[tuple[int, float, list[dict[str, Any]]]]:
    """Families as they come, until the time is over; a process that dies or hangs costs its family."""
    workers = [started(seed, n, jobs, known, wanted) for n in range(jobs)]
    try:
        while workers and (now := time.monotonic()) < end + LAST:
            for pipe in wait([w.pipe for w in workers], timeout=1):
                w = next(x for x in workers if x.pipe is pipe)
                try:
                    number, seconds, rows = w.pipe.recv()
                except (EOFError, OSError):
                    lost = {"digest": f"{seed} {w.number}", "verdict": "too long", "text": "its process died"}
                    yield w.number, 0.0, [lost]
                    workers.remove(w)
                    workers.append(started(seed, w.number + jobs, jobs, known, wanted))
                    continue
                w.number, w.since = number, now
                if rows is not None:
                    yield number, seconds, rows
                elif now >= end:
                    w.process.kill()
                    workers.remove(w)
            for w in workers:
                if now - w.since > HANGS:
                    w.process.kill()
    finally:
        for w in workers:
            w.process.kill()


def collected(args: argparse.Namespace, commit: str) -> tuple[list[dict[str, Any]], float]:
    """Rows of as many families as there is time for, those in the file first, and processor seconds."""
    done: dict[int, list[dict[str, Any]]] = {}
    seen: set[str] = set()
    seconds = 0.0

    def keep(number: int, spent: float, rows: list[dict[str, Any]]) -> None:
        nonlocal seconds
        done[number] = rows
        seconds += spent
        seen.update(r["digest"] for r in rows if r["verdict"] in ANSWERS)

    end = time.monotonic() + args.seconds
    for line in args.work.read_text().splitlines() if args.work.exists() else ():
        entry = json.loads(line)
        if entry["seed"] == args.seed and entry["commit"] == commit:
            keep(entry["family"], entry["seconds"], entry["rows"])
    with args.work.open("a") as file:
        said = time.monotonic()
        for number, spent, rows in answers(args.seed, args.jobs, set(done), frozenset(args.wanted), end):
            keep(number, spent, rows)
            entry = {"commit": commit, "seed": args.seed, "family": number, "seconds": spent, "rows": rows}
            file.write(json.dumps(entry) + "\n")
            file.flush()
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{len(seen)} programs", flush=True)
            if len(seen) >= args.programs:
                break
    return [r for n in sorted(done) for r in done[n]], seconds


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

    def by(name: str) -> dict[str, dict[str, int]]:
        return {k: table(r for r in judged_ if r[name] == k) for k in sorted({r[name] for r in judged_})}

    return {
        "all": whole,
        "false_rejects_share": round(whole["false_rejects"] / max(whole["programs"], 1), 4),
        "false_rejects_share_of_right": round(whole["false_rejects"] / max(whole["right"], 1), 4),
        "not_judged": sum(r["verdict"] == "unjudged" for r in all_of),
        "raised": [r for r in all_of if r["verdict"] == "raised"],
        "too_long": [r["text"] for r in all_of if r["verdict"] == "too long"],
        "mix": {
            "as written": table(r for r in judged_ if not r["damage"]),
            "damaged": table(r for r in judged_ if r["damage"]),
            "drawn for one primitive": table(r for r in judged_ if r["wanted"]),
            "drawn for none": table(r for r in judged_ if not r["wanted"]),
        },
        "by_contract": by("contract"),
        "wrong_how": dict(Counter(r["wrong"] for r in judged_ if r["wrong"]).most_common()),
        "refused_with": dict(Counter(r["code"] for r in judged_ if r["code"]).most_common()),
        "by_primitive": {p: table(r for r in judged_ if p in r["primitives"]) for p in sorted(primitives())},
        "by_damage": {d: table(r for r in judged_ if d in r["damage"].split(" and ")) for d in DAMAGE},
        "by_kernel": by("kernel"),
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
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="until it ends; less than a minute more"
    )
    parser.add_argument("--programs", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--commit", default="", help="where git is not there to say")
    parser.add_argument("--work", type=Path, default=Path("prover-record.jsonl"))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parents[1] / "results" / "prover-record.json"
    )
    parser.add_argument("--with", dest="wanted", nargs="*", default=[])
    args = parser.parse_args()
    commit = (
        args.commit
        or subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    rows, seconds = collected(args, commit)
    document = {
        "what": (__doc__ or "").strip().split("\n")[0],
        "command": f"python -m benchmarks.prover.record --seed {args.seed} --jobs {args.jobs} "
        f"--seconds {args.seconds:g}",
        "commit": commit,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seed": args.seed,
        "processor_minutes": round(seconds / 60, 1),
        "drawn": {
            "kernels": len(adversary.KERNELS),
            "primitives": len(primitives()),
            "share_drawn_for_one_primitive": adversary.DRAWN_FOR,
            "contracts": adversary.CONTRACTS,
            "longest_program": adversary.LONGEST,
            "damaged_versions_a_program": 3,
            "damages": len(DAMAGE),
            "sizes": adversary.SIZES,
        },
        **summary(rows),
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({k: document[k] for k in ("all", "false_rejects_share")}))


if __name__ == "__main__":
    main()
