"""NVIDIA's compute-sanitizer on a cubin: accesses out of bounds, shared-memory races, uninitialised reads,
barriers that not all threads reach.

The tools instrument the machine code, so they see what no comparison of results shows: a race that went well,
a read past the end whose value is not used. `memcheck` sees global, local and shared accesses, `racecheck`
shared memory only, `initcheck` global memory only, `synccheck` barriers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from evolve.devices.cuda.alone import Alone, Run, alone, find

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT_S = 120.0
"""For one tool on all runs; a tool takes a few seconds to start."""
MOST_PRINTED = 100

State = Literal["not installed", "clean", "found", "not judged"]

_PREFIX = re.compile(r"={8,}")
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?\b(?! were)")
_RACES = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_CODE = re.compile(
    r"\bat (?:(?P<name>[^\s(+]+)(?:\([^)]*\))?\+)?(?P<offset>0x[0-9a-f]+)"
    r"(?: in (?P<file>\S+?):(?P<line>\d+)(?::(?P<older>[^\s(]+))?)?"
)
_THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_HAZARDS = re.compile(r" \[\d+ hazards?\]")
_QUIET = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Info",
    "Program hit",
    "Target application",
    # There was no room for all records: what is said about those that it has is printed all the same.
    "Warning: Error buffer overflow",
)
"""How lines begin that are no finding."""
_DETAIL = (
    *("at ", "by thread", "and ", "Address", "Access", "Saved host", "Host Frame", "Device Frame"),
    *("Write Thread", "Read Thread", "Current Value", "Incoming Value"),
)
"""How lines begin that belong to the headline above, beside being indented."""

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One thing that a tool found, at one place of the code.

    kind     the tool's own headline
    kernel   the function, '' when unknown; `offset` of the instruction in it; `line` of the compiled text
    thread, block   the first that did it
    count    how often the tool printed it
    """

    tool: str
    kind: str
    kernel: str = ""
    offset: int | None = None
    line: int | None = None
    thread: Dim3 | None = None
    block: Dim3 | None = None
    count: int = 1

    def text(self) -> str:
        """In a sentence."""
        where = f" in {self.kernel}" if self.kernel else ""
        if self.line is not None and f"line {self.line}" not in self.kind:
            where += f", line {self.line}"
        who = "" if self.thread is None else f", by thread {self.thread} of block {self.block}"
        return f"{self.tool}: {self.kind}{where}{who}"


@dataclass(frozen=True)
class Sanitized:
    """What compute-sanitizer said.

    `unjudged`: for each tool that could not judge why not.
    """

    installed: bool
    findings: tuple[Finding, ...] = ()
    unjudged: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def state(self) -> State:
        """All in a word: what was found counts more than what was not judged."""
        if not self.installed:
            return "not installed"
        if self.findings:
            return "found"
        return "not judged" if self.unjudged else "clean"


NOT_INSTALLED = Sanitized(installed=False)


def sanitize(
    cubin: bytes,
    runs: Sequence[Run],
    *,
    ordinal: int = 0,
    tools: Sequence[str] = TOOLS,
    limit_s: float = LIMIT_S,
) -> Sanitized:
    """Runs the tools on launches of a cubin, which should have line information.

    Costs a start of Python under each tool, some seconds, and tens to hundreds of times what the kernels take
    otherwise. `limit_s` is for each tool.
    """
    tool = find("compute-sanitizer")
    if tool is None:
        return NOT_INSTALLED
    findings: list[Finding] = []
    unjudged: dict[str, str] = {}
    with alone(cubin, runs, ordinal) as job:
        for name in tools:
            found, why = _one(job, tool, name, limit_s)
            findings += found
            if why is not None and not found:
                unjudged[name] = why
    return Sanitized(True, tuple(findings), unjudged)


def _one(job: Alone, tool: Path, name: str, limit_s: float) -> tuple[tuple[Finding, ...], str | None]:
    options = [
        *("--tool", name, "--target-processes", "all", "--launch-timeout", "60"),
        *("--print-limit", str(MOST_PRINTED), "--show-backtrace", "no"),
        # Not about the kernel: cuda-bindings asks the driver for functions that an older one lacks, and every
        # tool counts that.
        *("--report-api-errors", "no"),
    ]
    try:
        ended = job.under(tool, options, limit_s)
    except OSError as e:
        return (), f"it cannot be started: {e}"
    found, errors = read(name, ended.log)
    if errors is None:
        return found, ended.error or f"it said nothing: {_last(ended.log or ended.streams)}"
    return found, ended.error


def _last(text: str) -> str:
    lines = [_PREFIX.sub("", x, 1).strip() for x in text.splitlines()]
    return next((x for x in reversed(lines) if x), "no output")[:200]


def read(tool: str, log: str) -> tuple[tuple[Finding, ...], int | None]:
    """The findings in a tool's log, the same ones counted, and how many errors it claims (None: no summary).

    Hazards at the level of information (several threads write the same value) are none.
    """
    claimed = _claimed(log)
    found: dict[Finding, int] = {}
    first: dict[Finding, Finding] = {}
    for record in _records(log):
        one = _finding(tool, record)
        same = replace(one, thread=None, block=None)
        found[same] = found.get(same, 0) + 1
        first.setdefault(same, one)
    findings = tuple(replace(first[same], count=n) for same, n in found.items())
    if claimed == 0:
        return (), 0
    if claimed is None:  # cut short: what names no code is about the tool itself
        return tuple(f for f in findings if f.offset is not None), None
    if claimed and not findings:
        findings = (Finding(tool, f"{claimed} errors that it did not describe"),)
    return findings, claimed


def _claimed(log: str) -> int | None:
    races = _RACES.findall(log)
    if races:
        return sum(int(e) + int(w) for e, w in races)
    errors = _SUMMARY.findall(log)
    return sum(map(int, errors)) if errors else None


def _records(log: str) -> Iterator[list[str]]:
    """Each finding's lines without prefix, its headline first; details are indented."""
    record: list[str] = []
    for line in log.splitlines():
        prefix = _PREFIX.match(line)
        if prefix is None:
            continue
        said = line[prefix.end() :].strip()
        if line[prefix.end() :].startswith("  ") or said.startswith(_DETAIL):
            if record:
                record.append(said)
            continue
        if record:
            yield record
        record = [said] if said and not said.startswith(_QUIET) else []
    if record:
        yield record


def _place(code: re.Match[str]) -> str:
    return f"in line {code['line']}" if code["line"] else f"at {code['offset']}"


def _finding(tool: str, record: Sequence[str]) -> Finding:
    text = " ".join(record)
    code, thread = _CODE.search(text), _THREAD.search(text)
    numbers = tuple(int(n) for n in thread.groups()) if thread else ()
    kind = record[0].rstrip(".")
    if code is not None and code.start() < len(record[0]):
        # A race's headline holds its first access; all accesses together say which race it is.
        kind = _HAZARDS.sub("", " ".join(_CODE.sub(_place, line) for line in record))
    return Finding(
        tool,
        kind,
        (code["name"] or code["older"] or "") if code else "",
        int(code["offset"], 16) if code else None,
        int(code["line"]) if code and code["line"] else None,
        (numbers[0], numbers[1], numbers[2]) if numbers else None,
        (numbers[3], numbers[4], numbers[5]) if numbers else None,
    )
