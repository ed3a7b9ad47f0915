"""A run's `best.cu`, which begins with what it is, its worth, and how it was made, and `best.dsl`.

A program that gains nothing is no reason to change a kernel: then both are the kernel as given. So they are
where every champion's text was refuted; else the best champion's whose text was not.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import PurePath

from evolve.agents.base import Parent
from evolve.devices.grounds import unchecked
from evolve.events.schema import ReadBack, RunStarted
from evolve.ir.errors import EvolveError
from evolve.runs.folder import RunFolder
from evolve.runs.shapes import shapes_text
from evolve.target.profile import load_profile

LEAST_GAIN = 1.005
"""Original time over a program's: what is less is said as 1.00, and nobody gains by another kernel."""
_UNCONTRACTED = (
    "Exact is bit for bit what the original computes where no product and sum become one FMA: for other",
    "sizes the original itself runs, and does so if this file is compiled with --fmad=false.",
)


def shipped(champions: Sequence[int], refuted: Container[int]) -> int:
    """The last champion whose text is not refuted; 0, the kernel as given, if there is none."""
    return next((one for one in reversed(champions) if one not in refuted), 0)


def is_gain(best: Parent, baseline: Parent) -> bool:
    """Whether a program is faster than the kernel as given by more than nothing."""
    return bool(best.proposal) and baseline.time_us >= LEAST_GAIN * best.time_us


def write_best(
    folder: RunFolder,
    started: RunStarted,
    best: Parent,
    baseline: Parent,
    source: str,
    original: str,
    refuted: Parent | None = None,
    text: ReadBack | None = None,
) -> None:
    """Replaces both files: with the program's CUDA text `source` or, where it gains nothing, with that of the
    kernel as given, `original`, whose program is empty. `refuted` is what leads and is not shipped; `text` is
    what reading `source` back came to, None where nobody did."""
    gain = is_gain(best, baseline)
    folder.write("best.cu", heading(started, best, baseline, refuted, text) + (source if gain else original))
    folder.write("best.dsl", best.program if gain else "")


def heading(
    started: RunStarted,
    best: Parent,
    baseline: Parent,
    refuted: Parent | None = None,
    text: ReadBack | None = None,
) -> str:
    """Lines of comment over the CUDA text, and an empty one. Lines of the text are named as in the file."""
    gain = is_gain(best, baseline)

    def told(above: int) -> list[str]:
        said = (
            _rewritten(started, best, baseline, text, above) if gain else _as_given(started, best, baseline)
        )
        lines = [*said, *(f"Assumed: {one}." for one in started.assumptions)]
        if refuted is not None:
            lines.append(f"Candidate {refuted.proposal} takes {refuted.time_us:.1f} us and is not used:")
            lines.append("its text, read back, does something else than what was proved.")
        if gain:
            lines += ["Made by this program:", *(f"    {line}" for line in best.program.splitlines())]
        return lines

    return "".join(f"{_comment(line)}\n" for line in told(len(told(0)) + 1)) + "\n"


def _rewritten(
    started: RunStarted, best: Parent, baseline: Parent, text: ReadBack | None, above: int
) -> Iterator[str]:
    yield f"{_kernel(started)}, rewritten by evolve {started.tool_version}"
    yield f"with a program proved to compute what the original computes (numerics: {started.numerics})."
    if started.numerics == "exact":
        yield from _UNCONTRACTED
    yield from _text(text, above)
    yield f"{best.time_us:.1f} us, {_measured(started)};"
    times = f"{baseline.time_us / best.time_us:.2f} times as fast as the original there"
    yield f"{times}, {best.fitness:.3f} of the speed of light."
    yield f"Call launch_{started.entry}, the last function here, with the original's arguments and a stream."
    yield "The comment over each kernel says for which sizes and addresses it is; for others the original,"
    told = f"which is here too, is launched. Include this file in one .cu file{_flags(started)}."
    yield from told.split("\n")


def _flags(started: RunStarted) -> str:
    """What its compiler must be told."""
    try:
        arch = load_profile(started.device.profile).arch
    except EvolveError:
        return ""
    return f", compiled with -arch={arch} and\nno other flag"


def _text(found: ReadBack | None, above: int) -> Iterator[str]:
    """What is known of the text, which `above` lines stand over."""
    if found is None:
        yield "The text of its kernels was executed under checks, and not read back: it is not proved."
    elif found.status == "PROVED":
        yield "The text of its kernels, read back, is proved to do what was proved of the program."
    else:
        at = f"line {found.line + above}: " if found.line else ""
        yield "The text of its kernels was executed under checks, and is not proved. Not read back:"
        yield f"    {at}{found.reason}"


def _as_given(started: RunStarted, best: Parent, baseline: Parent) -> Iterator[str]:
    yield f"{_kernel(started)}, as given: evolve {started.tool_version} found no gain."
    yield f"{baseline.time_us:.1f} us, {_measured(started)}; {baseline.fitness:.3f} of the speed of light."
    if best.proposal:
        yield f"The best program found takes {best.time_us:.1f} us, which is no faster."


def _kernel(started: RunStarted) -> str:
    return f"{started.entry} of {PurePath(started.kernel_file).name}"


def _measured(started: RunStarted) -> str:
    at = shapes_text(started.workload_summary, " = ")
    device = started.device
    where = f"{device.timing} on {device.profile}{unchecked(device.timing, device.profile)}"
    return f"{where}, {at}" if at.startswith("sum of ") else f"{where} at {at}" if at else where


def _comment(line: str) -> str:
    """One line of comment, whatever a file's name holds: nothing ends it early, and no backslash, which the
    trigraph ??/ is too, joins the next line to it."""
    return "// " + "".join(c if c.isprintable() else "_" for c in line).rstrip("\\/ ")
