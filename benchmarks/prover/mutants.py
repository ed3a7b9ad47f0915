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
import ast
import copy
import gc
import importlib
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from evolve.legality.memory import forget

MODULES = (
    "analysis", "asynchronous", "bounds", "cells", "compile", "conflicts", "congruence", "coverage",
    "equality", "exponentials", "finding", "flow", "geometry", "instances", "last_writers", "limits",
    "memory", "model", "online", "order", "pairing", "placement", "producers", "proof", "prove", "races",
    "schedule", "uniform", "value_flow",
)  # fmt: skip
"""Those that decide; placing barriers and wording are not among them."""
PACKAGES = {"compile": "evolve.compiler"}
"""Of the modules that are not in `evolve.legality`; `frontend.x` is in `evolve.frontend`."""
FRONTEND = tuple(
    f"frontend.{x}" for x in ("addresses", "dense", "lengths", "premises", "prove", "tidy", "words")
)
"""What decides how long an array is taken to be, what is assumed of its elements, and what lies within it: a
copy behind an end, or a check that is not made, starts there."""
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
FINDINGS = ("refuted", "unknown", "Finding", "_from_error")
ERRORS = (
    "ModelError", "FlowError", "MismatchError", "NonAffineError", "RefusalError", "UnknownError",
    "WrongError",
)  # fmt: skip
REFUSALS = ("Compiled",)
NARROWING = (
    "intersect", "intersect_domain", "intersect_params", "intersect_range", "subtract", "subtract_range",
    "subtract_domain",
)  # fmt: skip
KINDS = ("finding", "condition", "restriction")
SECONDS = (2.0, 60.0)
"""Processor time of the tests that are tried on a mutant, first and in all: one that lives longer counts as
a survivor."""
LAST = 10
"""Seconds that tests under way have when the time is over."""
HANGS = 180
"""Processor seconds. A child that takes more hangs: killed, and the mutant with it."""
EQUIVALENT = {
    f"{module}.{what}": why
    for module, entries in tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text()).items()
    for what, why in entries.items()
}
"""By the mutant's id: why no test can tell it from the prover."""


@dataclass(frozen=True)
class Mutant:
    """`function` (qualified) of `module` as it would be."""

    id: str
    kind: str
    module: str
    function: str
    line: int
    last_line: int
    whole: ast.Module
    """The module as it is, nodes numbered (`_number`)."""
    number: int
    new: ast.AST
    """What takes the place of the node of that number."""

    def tree(self) -> ast.Module:
        """The module as it would be."""
        changed = _At(self.number, self.new).visit(copy.deepcopy(self.whole))
        assert isinstance(changed, ast.Module)
        return ast.fix_missing_locations(changed)


class _At(ast.NodeTransformer):
    """Replaces one node, found by identity in a copy that keeps `_number`."""

    def __init__(self, number: int, new: ast.AST) -> None:
        self.number, self.new = number, new

    def visit(self, node: ast.AST) -> Any:
        if getattr(node, "_number", None) == self.number:
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)


def mutants(name: str) -> Iterator[Mutant]:
    """All of a module."""
    module = _module(name)
    tree = ast.parse(inspect.getsource(module))
    # Operators stand nowhere: one object serves in all trees.
    for n, node in enumerate(node for node in ast.walk(tree) if hasattr(node, "lineno")):
        node._number = n  # type: ignore[attr-defined]
    seen: Counter[str] = Counter()
    for function, definition in _definitions(tree):
        for kind, what, node, new in _changes(definition):
            number = node._number  # type: ignore[attr-defined]
            line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            where = f"{name}.{function}: {what}"
            seen[where] += 1
            unique = where if seen[where] == 1 else f"{where} ({seen[where]})"
            yield Mutant(unique, kind, name, function, line, last, tree, number, new)


def _module(name: str) -> ModuleType:
    package = "evolve" if "." in name else PACKAGES.get(name, "evolve.legality")
    return importlib.import_module(f"{package}.{name}")


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inside in node.body:
                if isinstance(inside, ast.FunctionDef):
                    yield f"{node.name}.{inside.name}", inside


def _changes(definition: ast.FunctionDef) -> Iterator[tuple[str, str, ast.AST, ast.AST]]:
    """Kind, text, node and what takes its place."""
    stated = {x for n in ast.walk(definition) if isinstance(n, ast.Assert) for x in ast.walk(n)}
    for node in ast.walk(definition):
        if node in stated:
            continue  # what is stated for readers and type checkers decides nothing
        text = ast.unparse(node) if isinstance(node, ast.stmt | ast.expr) else ""
        short = " ".join(text.split())[:110]
        if isinstance(node, ast.Raise) and _calls(node.exc, ERRORS):
            yield "finding", f"not raised: {short}", node, ast.Pass()
        elif isinstance(node, ast.Return) and node.value is not None and _has(node.value, FINDINGS):
            empty: ast.expr = (
                ast.List([], ast.Load()) if isinstance(node.value, ast.List) else ast.Constant(None)
            )
            yield "finding", f"not returned: {short}", node, ast.Return(empty)
        elif isinstance(node, ast.Expr | ast.AugAssign) and _is_kept(node):
            yield "finding", f"not kept: {short}", node, ast.Pass()
        if isinstance(node, ast.BoolOp) and not any(isinstance(v, ast.Constant) for v in node.values):
            for i, value in enumerate(node.values):
                rest = [v for j, v in enumerate(node.values) if j != i]
                new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                yield "condition", f"without `{ast.unparse(value)[:60]}` of {short}", node, new
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return) and _has(node, REFUSALS):
            yield "finding", f"not refused: if {ast.unparse(node.test)[:80]}", node, ast.Pass()
        if isinstance(node, ast.If):
            test = " ".join(ast.unparse(node.test).split())[:80]
            if _is_exit(node.body[0]):
                yield "condition", f"always: if {test}", node.test, ast.Constant(True)
            if _is_exit(node.body[-1]) and not _is_any(node.test) and not _has(node, REFUSALS):
                yield "condition", f"never: if {test}", node.test, ast.Constant(False)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in NARROWING
        ):
            yield "restriction", f"{short}", node, node.func.value


def _is_exit(s: ast.stmt) -> bool:
    """Whether a statement goes on elsewhere and reports nothing."""
    return isinstance(s, ast.Continue) or (isinstance(s, ast.Return) and not _has(s, FINDINGS))


def _is_any(e: ast.expr) -> bool:
    """Whether a condition has operands of which each is reason enough: each is left out by itself."""
    return isinstance(e, ast.BoolOp) and isinstance(e.op, ast.Or)


def _calls(e: ast.AST | None, names: tuple[str, ...]) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id in names


def _has(e: ast.AST, names: tuple[str, ...]) -> bool:
    return any(_calls(x, names) for x in ast.walk(e))


def _is_kept(s: ast.Expr | ast.AugAssign) -> bool:
    """Whether findings are added to others."""
    if isinstance(s, ast.AugAssign):
        return isinstance(s.op, ast.Add) and _named(s.target, "out")
    return _is_append(s.value)


def _is_append(e: ast.AST) -> bool:
    return (
        isinstance(e, ast.Call)
        and isinstance(e.func, ast.Attribute)
        and e.func.attr == "append"
        and any(_has(a, FINDINGS) or _named(a, "found") for a in e.args)
    )


def _named(e: ast.AST, name: str) -> bool:
    return isinstance(e, ast.Name) and e.id == name


def apply(m: Mutant, code: CodeType) -> None:
    """Makes this process's prover the mutant, which has this code."""
    _function(_module(m.module), m.function).__code__ = code


def code_of(m: Mutant) -> CodeType:
    """Of its function."""
    flags = importlib.import_module("__future__").annotations.compiler_flag
    code = compile(m.tree(), str(_module(m.module).__file__), "exec", flags, True)
    return next(c for c in _codes(code) if c.co_qualname == m.function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield c
            yield from _codes(c)


def _function(module: ModuleType, qualified: str) -> FunctionType:
    holder: Any = module
    *around, last = qualified.split(".")
    for part in around:
        holder = getattr(holder, part)
    found = vars(holder)[last]
    if isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    assert isinstance(found, FunctionType), qualified
    return found


Keep = Callable[[dict[str, dict[str, Any]]], None]
Lines = set[tuple[str, int]]
"""By module."""


@contextmanager
def watched(passed: Lines) -> Iterator[None]:
    """Notes the prover's lines that are passed meanwhile."""

    files = {str(_module(name).__file__): name for name in (*MODULES, *FRONTEND)}

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        name = files.get(frame.f_code.co_filename)
        if name is None:
            return None
        passed.add((name, frame.f_lineno))

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            passed.add((name, frame.f_lineno))
            return line

        return line

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def passes(passed: Lines, m: Mutant) -> bool:
    """Whether a test passes a mutant's lines."""
    return any((m.module, n) in passed for n in range(m.line, m.last_line + 1))


@dataclass(frozen=True)
class Timed:
    """A test that passes without a mutant: processor seconds, and the prover's lines that it passes."""

    seconds: float
    item: pytest.Item
    passed: Lines


@dataclass
class Trial:
    """A mutant, its tests, how many of them have been tried, and how often it was looked at."""

    mutant: Mutant
    items: list[pytest.Item] | None = None
    done: int = 0
    turn: int = 0


class Plugin:
    """Runs the collected tests once as they are, then for every mutant in a child."""

    def __init__(
        self,
        chosen: list[Mutant],
        known: dict[str, dict[str, Any]],
        jobs: int,
        end: float,
        keep: Keep,
    ) -> None:
        self.chosen, self.known, self.jobs, self.end, self.keep = chosen, known, jobs, end, keep
        self.results: dict[str, dict[str, Any]] = {}
        self.tests: list[Timed] = []
        self.kills: Counter[tuple[str, str, str]] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        start = time.monotonic()
        self.tests = surveyed(session.items, self.jobs)
        print(f"{len(self.tests)} tests in {time.monotonic() - start:.0f} s", flush=True)
        gc.collect()
        gc.freeze()
        todo = [Trial(m) for m in self.chosen]
        todo.sort(key=lambda t: KINDS.index(t.mutant.kind))
        later: list[Trial] = []
        under_way: dict[int, tuple[Trial, int]] = {}
        while todo or later or under_way:
            while (todo or later) and len(under_way) < self.jobs and time.monotonic() < self.end:
                trial = todo.pop(0) if todo else later.pop(0)
                trial.items = trial.items or self._tests_for(trial.mutant)
                pid, pipe = _start(trial, self.end)
                under_way[pid] = (trial, pipe)
            if not under_way:
                break
            pid, status = os.wait()
            trial, pipe = under_way.pop(pid)
            with os.fdopen(pipe, "rb") as file:
                by, _, done = file.read().decode().partition("\n")
            self._note(trial.mutant, by or ("hangs or dies" if status else ""))
            trial.done, trial.turn = int(done or 0), trial.turn + 1
            if not by and not status and trial.items and trial.done < len(trial.items):
                later += [trial] if trial.turn < len(SECONDS) else []
        return True

    def _tests_for(self, m: Mutant) -> list[pytest.Item]:
        """Those that pass its lines, the likeliest to kill it first."""
        before = self.known.get(m.id, {}).get("killed_by")
        tests = [t for t in self.tests if passes(t.passed, m)]
        tests.sort(
            key=lambda t: (
                t.item.nodeid != before,
                t.seconds / (1 + self.kills[m.module, m.function, t.item.nodeid]),
            )
        )
        return [t.item for t in tests]

    def _note(self, m: Mutant, by: str) -> None:
        self.kills[m.module, m.function, by] += 1
        self.results[m.id] = {"kind": m.kind, "line": m.line, "killed_by": by}
        self.keep(self.results)
        print(f"{'killed  ' if by else 'SURVIVED'} {m.module}:{m.line} {m.id}", flush=True)


def surveyed(items: list[pytest.Item], jobs: int) -> list[Timed]:
    """The tests without a mutant, shared out among children; those that fail are left out."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(job) for job in range(jobs)]
        for job, path in enumerate(files):
            if os.fork() == 0:
                path.write_bytes(
                    pickle.dumps([(n, *_survey(items[n])) for n in range(job, len(items), jobs)])
                )
                os._exit(0)
        for _ in files:
            os.wait()
        for path in files:
            for n, seconds, passed in pickle.loads(path.read_bytes()):
                if seconds is None:
                    print(f"left out, as it fails without a mutant: {items[n].nodeid}", flush=True)
                else:
                    out.append(Timed(seconds, items[n], passed))
    return sorted(out, key=lambda t: t.seconds)


def _survey(item: pytest.Item) -> tuple[float | None, Lines]:
    """Processor seconds of a test, None if it fails, and the prover's lines that it passes."""
    forget()
    passed: Lines = set()
    start = time.process_time()
    with watched(passed):
        reports = runtestprotocol(item, log=False, nextitem=None)
    return (None if any(r.failed for r in reports) else time.process_time() - start), passed


def _start(trial: Trial, end: float) -> tuple[int, int]:
    """A child that tries a mutant: its process, and a pipe from which the test that fails, and how many did
    not, can be read."""
    code = code_of(trial.mutant)
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    by, done = "", trial.done
    assert trial.items is not None
    try:
        signal.setitimer(signal.ITIMER_PROF, HANGS)  # the machine may have other things to do
        most = time.process_time() + SECONDS[trial.turn]
        apply(trial.mutant, code)
        forget()
        for item in trial.items[trial.done :]:
            if time.process_time() > most or time.monotonic() > end + LAST:
                break
            if any(r.failed for r in runtestprotocol(item, log=False, nextitem=None)):
                by = item.nodeid
                break
            done += 1
    except BaseException as e:
        by = f"error: {type(e).__name__}"
    os.write(write, f"{by}\n{done}".encode())
    os._exit(0)


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
