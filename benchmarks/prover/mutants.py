"""Mutation of the prover: whichever of its checks is removed, does some test fail?

    python -m benchmarks.prover.mutants [--of frontend] [--jobs N] [--seconds S] [--out FILE.json]
        [--modules MODULE ...] [--kinds KIND ...] [--only SUBSTRING] [--again] [--missing] [--tests TEST ...]

The record is written as it grows. When the time is over, or with any of the options of the second line, it
is brought up to date in part; it says which mutants are of which commit.

A mutant is `evolve.legality`, or with `--of frontend` what says how long arrays are and what their indices
may be, with one thing taken out:

    finding       a finding not reported, an error not raised
    condition     one operand of an `and` or `or` (of a condition: none is a constant that stands in for what
                  is not there), or the whole condition of an early exit, never or always true
    restriction   one intersection or subtraction of isl sets left out

Tests are collected and run once, each with nothing remembered, and the lines that they pass are noted. Then
for each mutant a child process runs those that pass its lines until one fails: first what killed it before,
then what killed most of its function's mutants, the quickest first. What survives some seconds of tests goes
on with the others once all mutants have had theirs. Only tests that judge verdicts are among them (`TESTS`),
no random search over programs.
A survivor is either a hole in the tests or listed in `equivalent.toml` with the reason why nothing can show
it. An entry there of a mutant that is no more is an error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prover.mutation import FRONTEND, KINDS, MODULES, Mutant, mutants
from benchmarks.prover.trials import Plugin

TESTS = (
    "tests/compiler/test_compile.py",
    "tests/compiler/test_explain.py::test_each_reason_is_blamed_on_its_own_statement",
    "tests/illegal/test_forged.py::test_is_refuted",
    "tests/illegal/test_forged.py::test_undamaged_they_are_proved",
    "tests/illegal/test_checks.py",
    "tests/illegal/test_corpus.py",
    "tests/illegal/test_programs.py::test_is_refused_with_its_code",
    "tests/illegal/test_prover_conditions.py",
    "tests/legality/test_atomics.py",
    "tests/legality/test_checks.py",
    "tests/legality/test_conditions.py",
    "tests/legality/test_conditions_of_models.py",
    "tests/legality/test_conditions_of_proofs.py",
    "tests/legality/test_conditions_of_races.py",
    "tests/legality/test_conditions_of_sums.py",
    "tests/legality/test_congruence.py",
    "tests/legality/test_data_loops.py",
    "tests/legality/test_barriers.py",
    "tests/legality/test_beginnings.py",
    "tests/legality/test_finding.py",
    "tests/legality/test_flow.py",
    "tests/legality/test_flow_conditions.py",
    "tests/legality/test_flow_enumerated.py",
    "tests/legality/test_given.py",
    "tests/legality/test_illegal.py",
    "tests/legality/test_last_writers.py::test_a_reader_that_no_writer_reaches_finds_what_was_there",
    "tests/legality/test_last_writers.py::test_it_finds_what_was_there_though_it_is_updated_in_between",
    "tests/legality/test_last_writers.py::test_comparing_times_agrees_with_the_search",
    "tests/legality/test_last_writers.py::test_where_no_latest_time_is_found_nothing_is_said",
    "tests/legality/test_launches.py",
    "tests/legality/test_limits.py",
    "tests/legality/test_meeting_conditions.py",
    "tests/legality/test_narrow.py",
    "tests/legality/test_numerics.py",
    "tests/legality/test_online_conditions.py",
    "tests/legality/test_online_values.py",
    "tests/legality/test_order.py",
    "tests/legality/test_placement.py",
    "tests/legality/test_recompute.py",
    "tests/legality/test_refusals.py",
    "tests/transforms/test_exact.py",
    "tests/transforms/test_online.py",
    "tests/transforms/test_proved.py",
    "tests/transforms/test_reuse.py",
    "tests/transforms/test_scans.py",
)
FRONTEND_TESTS = (
    "tests/frontend/test_atomics.py",
    "tests/frontend/test_bytes.py",
    "tests/frontend/test_extents.py",
    "tests/frontend/test_extents_told.py",
    "tests/frontend/test_geometry.py",
    "tests/frontend/test_index_arrays.py",
    "tests/frontend/test_lengths.py",
    "tests/frontend/test_meaning.py",
    "tests/frontend/test_prove.py",
    "tests/frontend/test_refusals.py",
    "tests/frontend/test_strides.py",
    "tests/frontend/test_variants.py",
)
SUBJECTS = {"prover": (MODULES, TESTS), "frontend": (FRONTEND, FRONTEND_TESTS)}
"""Modules and the tests that judge what they decide."""
EQUIVALENT = {
    f"{module}.{what}": why
    for module, entries in tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text()).items()
    for what, why in entries.items()
}
"""By the mutant's id: why no test can tell it from the prover."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--of", choices=tuple(SUBJECTS), default="prover")
    parser.add_argument("--modules", nargs="+", default=[])
    parser.add_argument("--tests", nargs="+", default=[], help="instead of all that judge verdicts")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until no more are tried")
    parser.add_argument("--commit", default="", help="where git is not there to say")
    parser.add_argument("--again", action="store_true", help="only those that survived in an earlier --out")
    parser.add_argument("--missing", action="store_true", help="only those that an earlier --out lacks")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, help="instead of benchmarks/results/prover-mutants.json, or of")
    args = parser.parse_args()
    modules, tests = SUBJECTS[args.of]
    if others := set(args.modules) - set(modules):
        parser.error(f"{', '.join(sorted(others))}: the modules are {', '.join(modules)}")
    args.out = args.out or Path(__file__).parents[1] / "results" / f"{args.of}-mutants.json"
    every = {m.id: m for name in (*MODULES, *FRONTEND) for m in mutants(name)}
    if stale := [k for k in EQUIVALENT if k not in every]:
        parser.error("equivalent.toml has what is no mutant any more:\n  " + "\n  ".join(stale))
    there = {m.id: m.kind for m in every.values() if m.module in modules}
    end = time.monotonic() + args.seconds
    commit = (
        args.commit
        or subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    )
    known = json.loads(args.out.read_text()).get("mutants", {}) if args.out.exists() else {}
    left = {k for k, v in known.items() if not v["killed_by"]} | set(EQUIVALENT)

    def chosen(m: Mutant) -> bool:
        return (
            m.module in (args.modules or modules)
            and args.only in m.id
            and m.kind in args.kinds
            and (not args.again or m.id in left)
            and (not args.missing or m.id not in known)
        )

    def keep(found: dict[str, dict[str, Any]]) -> None:
        new = {k: {**v, "commit": commit.strip()} for k, v in found.items()}
        results = {k: v for k, v in sorted({**known, **new}.items()) if k in there}
        args.out.write_text(json.dumps(document(args.of, results, there), indent=1) + "\n")

    plugin = Plugin(list(filter(chosen, every.values())), known, args.jobs, end, keep)
    options = ["-o", "addopts=", "-q", "-p", "no:cacheprovider", "-s"]
    status = pytest.main([*options, *(args.tests or tests)], plugins=[plugin])
    if not plugin.results:
        sys.exit(int(status) or 1)
    written = json.loads(args.out.read_text())
    print(json.dumps({k: v for k, v in written.items() if k in ("kinds", "all", "kill_rate")}))


def document(of: str, results: dict[str, dict[str, Any]], there: Mapping[str, str]) -> dict[str, Any]:
    """The record of these mutants, of which `there` gives all with their kinds."""
    survivors = {k: v for k, v in results.items() if not v["killed_by"]}
    tally = Counter((v["kind"], bool(v["killed_by"]), k in EQUIVALENT) for k, v in results.items())
    kinds = {
        kind: {
            "mutants": sum(n for (k, _, _), n in tally.items() if k == kind),
            "killed": sum(n for (k, killed, _), n in tally.items() if k == kind and killed),
            "equivalent": sum(
                n for (k, killed, same), n in tally.items() if k == kind and same and not killed
            ),
            "not_tried": sum(there[k] == kind and k not in results for k in there),
        }
        for kind in KINDS
    }
    total = {key: sum(v[key] for v in kinds.values()) for key in next(iter(kinds.values()))}
    return {
        "what": (__doc__ or "").strip().split("\n")[0],
        "command": f"python -m benchmarks.prover.mutants{'' if of == 'prover' else f' --of {of}'}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commits": dict(Counter(v["commit"] for v in results.values())),
        "kinds": kinds,
        "all": total,
        "kill_rate": round(total["killed"] / (total["mutants"] - total["equivalent"]), 4),
        "survivors": {k: {**v, "equivalent": EQUIVALENT.get(k, "")} for k, v in survivors.items()},
        "mutants": results,
    }


if __name__ == "__main__":
    main()
