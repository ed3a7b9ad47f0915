"""What a result rests on, for a reader who does not take it on trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evolve.devices.grounds import grounds_of
from evolve.report.examined import examined_lines
from evolve.report.figures import listed, number, table
from evolve.report.timing import timing_lines
from evolve.report.units import microseconds, sizes

NUMERICS = {
    "exact": "every operation as in the kernel, in its order",
    "reassociate": "sums, products, minima and maxima may be taken in another order, a * b + c may be fused",
    "fast": "as reassociate, and approximate functions may stand for exact ones",
    "mixed": "as fast, and copies of inputs may be kept in bfloat16",
}
_TEXT = 76
_MOST_SHAPES = 6


def evidence_text(found: Mapping[str, Any]) -> str:
    """The sections given, assumed, proved, checked, timed and examined of `runs.evidence`."""
    sections = (
        ("given", _given(table(found.get("given")))),
        ("assumed", _assumed(found)),
        ("proved", _proved(found)),
        ("checked", _checked(found)),
        ("timed", _timed(found)),
        ("examined", _examined(found)),
    )
    lines: list[str] = []
    for title, said in sections:
        for at, sentence in enumerate(said):
            head = title if at == 0 else ""
            lines += [
                f"  {head:<8}  {line}" if n == 0 else f"{'':12}  {line}" for n, line in _wrapped(sentence)
            ]
    return "\n".join(lines)


def _wrapped(sentence: str) -> Iterator[tuple[int, str]]:
    """The lines of a sentence, numbered."""
    line, count = "", 0
    for word in sentence.split():
        if line and len(line) + 1 + len(word) > _TEXT:
            yield count, line
            line, count = word, count + 1
        else:
            line = f"{line} {word}" if line else word
    yield count, line


def _given(given: Mapping[str, Any]) -> Iterator[str]:
    digest = str(given.get("sha256"))[:16]
    yield f"kernel {given.get('kernel')} of {given.get('kernel_file')} (sha256 {digest}…)"
    yield f"agent {given.get('agent')}, seed {given.get('seed')}, evolve {given.get('tool_version')}"


def _assumed(found: Mapping[str, Any]) -> Iterator[str]:
    for one in listed(found.get("assumed")):
        yield f"{one}"
    contract = str(found.get("numerics"))
    yield f"numerics {contract}: {NUMERICS.get(contract, 'an unknown contract')}"


def _proved(found: Mapping[str, Any]) -> Iterator[str]:
    if not found.get("candidate"):
        yield "nothing: the best is the kernel as given"
        return
    proved = table(found.get("proved"))
    verdict = proved.get("verdict")
    if verdict != "PROVED":
        yield f"not on record: the verdict of candidate {found.get('candidate')} is {verdict}"
        return
    yield (
        f"candidate {found.get('candidate')}: its loops compute what the kernel's compute, within the "
        "contract, without races or accesses out of bounds"
    )
    for at, condition in enumerate(listed(proved.get("conditions")), start=1):
        yield f"variant {at} wherever {condition}; elsewhere the original runs"
    for premise in listed(proved.get("premises")):
        yield f"resting on: {premise}"
    yield from _text(proved.get("text"))


def _text(found: Any) -> Iterator[str]:
    """Whether the proof reaches to the CUDA text."""
    said = table(found)
    at = f"line {said.get('line')} of best.cu: " if said.get("line") else ""
    if said.get("status") == "PROVED":
        yield (
            "the CUDA text of its kernels is proved too: read back, by code that shares nothing with what "
            "wrote it, it does what was proved of the loops"
        )
    elif said.get("status") == "UNKNOWN":
        yield (
            "the proof is about the transformed loops; the CUDA text made of them is checked, not proved: it "
            f"is not read back ({at}{said.get('reason')})"
        )
    elif said.get("status") == "REFUTED":
        yield f"the CUDA text is REFUTED: it does something else than the loops ({at}{said.get('reason')})"
    else:
        yield (
            "the proof is about the transformed loops; the CUDA text made of them is checked, not proved: "
            "that it was read back is not on record"
        )


def _checked(found: Mapping[str, Any]) -> Iterator[str]:
    checked, timed = table(found.get("checked")), table(found.get("timed"))
    families = ", ".join(str(x) for x in listed(checked.get("families")))
    on_gpu = timed.get("timing") == "measured"
    how = (
        "on the GPU, with guard bands around the arrays"
        if on_gpu
        else "on the CPU, thread by thread, every access watched (bounds, races, initialisation, barriers)"
    )
    original = table(checked.get("original"))
    yield f"the kernel as given: {_runs(original)}; so what the proof starts from is what the file does"
    if found.get("candidate"):
        yield f"the CUDA text of candidate {found.get('candidate')}: {_runs(checked)}"
    yield f"executed {how}, and compared with a float64 reference" + (
        f"; inputs: {families}" if families else ""
    )
    shapes = [sizes(table(s)) for s in listed(checked.get("shapes"))]
    if shapes:
        more = f" and {len(shapes) - _MOST_SHAPES} more" if len(shapes) > _MOST_SHAPES else ""
        yield f"at {'; '.join(shapes[:_MOST_SHAPES])}{more}"
    if not on_gpu:
        yield "not executed at the timed sizes, only traced there, block by block, for the estimate"


def _runs(checked: Mapping[str, Any]) -> str:
    runs, worst = number(checked.get("runs")), number(checked.get("worst_error"))
    if runs is None:
        return "how often it was executed is not on record"
    error = "" if worst is None else f", the largest error {worst:.2g} of what is allowed"
    return f"{runs:.0f} runs without a finding{error}"


def _examined(found: Mapping[str, Any]) -> Iterator[str]:
    examined = found.get("examined")
    if not isinstance(examined, Mapping):
        return
    yield from (line.strip() for line in examined_lines(examined))
    yield (
        f"its inputs, and all others since the run was last taken up, are drawn from the secret "
        f"{examined.get('secret')}, which nothing that proposes programs could read; `evolve verify` draws "
        "the same ones again"
    )


def _timed(found: Mapping[str, Any]) -> Iterator[str]:
    timed, sol = table(found.get("timed")), table(found.get("sol"))
    shapes = [sizes(table(s)) for s in listed(timed.get("sizes"))]
    where = f" at {'; '.join(shapes)}" if shapes else ""
    if len(shapes) > 1:
        where += f" (times are the sum of {len(shapes)} launches)"
    if timed.get("timing") == "measured":
        yield f"measured on this machine's GPU ({timed.get('profile')}){where}, caches cold"
        yield from timing_lines(table(timed.get("detail")), listed(timed.get("sizes")))
    else:
        yield (
            f"estimated for {timed.get('profile')}{where}, from the machine code and a trace of accesses; "
            "no GPU ran it; of 1502 programs of ten kernels without index arrays, timed on an H200, the "
            "estimate was within 25 % for 78 %"
        )
        rests_on = grounds_of(str(timed.get("profile")))
        if rests_on is not None and rests_on.validated is None:
            yield f"estimates for {rests_on.gpu}: {rests_on.short()}; `evolve inspect` lists them"
    hard = number(sol.get("hard_time_us"))
    bound = f"the speed of light, {microseconds(number(sol.get('time_us')))}, is computed from the kernel's "
    bound += f"meaning and the GPU's rates; what binds is {sol.get('bound')}"
    if hard is not None:
        bound += f"; a time clearly below the hard bound of {microseconds(hard)} is quarantined"
    yield bound
