"""A run's `best.cu`, which begins with what it is, its worth, and how it was made, and `best.dsl`."""

from __future__ import annotations

from pathlib import PurePath

from evolve.agents.base import Parent
from evolve.events.schema import RunStarted
from evolve.runs.folder import RunFolder


def write_best(folder: RunFolder, started: RunStarted, best: Parent, baseline: Parent, source: str) -> None:
    """Replaces both files. The kernel as given has no heading: it is its author's text."""
    folder.write("best.cu", (heading(started, best, baseline) if best.proposal else "") + source)
    folder.write("best.dsl", best.program)


def heading(started: RunStarted, best: Parent, baseline: Parent) -> str:
    """Lines of comment over a program's CUDA text."""
    ratio = f"{baseline.time_us / best.time_us:.2f} times as fast"
    measured = f"{started.device.timing} on {started.device.profile}{_sizes(started)}"
    name = PurePath(started.kernel_file).name
    lines = [
        f"{started.entry} of {name}, rewritten by evolve {started.tool_version}",
        f"and proved to compute what the original computes (numerics: {started.numerics}).",
        f"{best.time_us:.1f} us, {measured}; {ratio}",
        f"as the original there, {best.fitness:.3f} of the speed of light.",
        *(f"Assumed: {one}." for one in started.assumptions),
        "Made by this program:",
        *(f"    {line}" for line in best.program.splitlines()),
    ]
    return "".join(f"{_comment(line)}\n" for line in lines) + "\n"


def _sizes(started: RunStarted) -> str:
    sizes = started.workload_summary.get("sizes", started.workload_summary)
    at = ", ".join(f"{n} = {v}" for n, v in sizes.items() if isinstance(v, int | str))
    return f" at {at}" if at else ""


def _comment(line: str) -> str:
    """One line of comment, whatever a file's name holds: nothing ends it early, and no backslash, which the
    trigraph ??/ is too, joins the next line to it."""
    return "// " + "".join(c if c.isprintable() else "_" for c in line).rstrip("\\/ ")
