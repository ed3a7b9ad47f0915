"""What the tool sees in a kernel, as a page; `inspect --json` has all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evolve.report.units import sizes

Data = Mapping[str, Any]


def inspected(seen: Data, summary: str) -> Iterator[str]:
    """The lines of `KernelProblem.inspect`, which is JSON data; `summary` is the kernel's IR."""
    features, workload = seen["features"], seen["workload"]
    yield from (summary.rstrip(), "")
    at = sizes(features.get("scalars", {}))
    yield from _titled(f"loops{f', at {at}' if at else ''}", _columns(_loops(seen["loops"], features)))
    yield from _titled("arrays", _columns(_arrays(workload.get("arrays", {}), features)))
    yield from _titled("reductions", _reductions(features))
    yield from _titled("workload", _workload(workload))
    for bound in seen["sol"]:
        yield from _titled(f"speed of light at {sizes(bound.get('sizes', {}))}", bound.get("text", ()))
    yield from _titled("assumed", workload.get("assumed", ()))


def _titled(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    """A title with its lines below; nothing where there are none."""
    lines = list(lines)
    if lines:
        yield from (title, *(f"  {line}" for line in lines), "")


def _columns(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Rows of equally many texts, aligned."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip()


def _loops(loops: Sequence[Data], features: Data) -> Iterator[tuple[str, ...]]:
    trips = {one["name"]: one["trips"] for one in features.get("loops", ())}
    for one in loops:
        inside = f"in {one['inside'][-1]}" if one["inside"] else "outermost"
        times = f"{trips[one['name']]:.9g} times" if one["name"] in trips else ""
        line = f"line {one['line']}" if one["line"] else ""
        yield one["name"], f"0..{one['extent']}", one["kind"], inside, times, line


def _arrays(arrays: Mapping[str, Data], features: Data) -> Iterator[tuple[str, ...]]:
    used = {one["buffer"]: one for one in features.get("buffers", ())}
    scattered = {x["buffer"] for x in features.get("accesses", ()) if not x["coalesced"]}
    for name, spec in arrays.items():
        shape = f"{spec['dtype']}[{', '.join(spec['extents'])}]"
        yield name, spec["role"], shape, ", ".join(_traffic(used.get(name, {}), name in scattered))


def _traffic(use: Data, scattered: bool) -> Iterator[str]:
    for what in ("read", "written"):
        count = use.get(f"{what}_elements", 0) * use.get("element_bytes", 0)
        if count:
            yield f"{count / 1e6:.4g} MB {what}"
    if use.get("reuse", 0) > 1:
        yield f"each element {use['reuse']:.3g} times"
    if scattered:
        yield "neighbouring threads far apart"


def _reductions(features: Data) -> Iterator[str]:
    for one in features.get("reductions", ()):
        yield f"{one['monoid']} into {one['buffer']} over {', '.join(one['loops'])}"


def _workload(workload: Data) -> Iterator[str]:
    for timed in workload.get("timed", ()):
        yield f"timed at {sizes(timed)}"
    checks = workload.get("check", ())
    if checks:
        few = "; ".join(sizes(one) for one in checks)
        yield f"checked at {few}"
        yield f"inputs: {', '.join(workload.get('families', ()))}"
    launch = workload.get("launch")
    if launch:
        yield f"launched with grid ({', '.join(launch['grid'])}) and block ({', '.join(launch['block'])})"
    if "numerics" in workload:
        yield f"numerics: {workload['numerics']}"
