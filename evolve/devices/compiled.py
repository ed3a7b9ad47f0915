"""The traffic of the machine code: what the compiler made of the accesses that the host traced.

The host runs each access as the text says. The GPU's compiler keeps values in registers, merges neighbours
and sometimes splits a wide store; how often it asks is in the machine code, what one request costs in the
trace. Both are joined line by line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evolve.devices.traffic import SiteTraffic, Traffic
from evolve.devices.trips import Counts, Key, has_lines, key_of, traced_bytes, unavoidable
from evolve.toolchain.sass import Sass


@dataclass
class _Static:
    """`sure`: bytes of accesses that no guard switches off."""

    requests: float = 0.0
    bytes: float = 0.0
    sure: float = 0.0

    def resize(self, total: float) -> None:
        """As many accesses of the same width as make `total` bytes."""
        by = total / self.bytes
        self.requests, self.bytes, self.sure = self.requests * by, total, self.sure * by


def as_compiled(traffic: Traffic, sass: Sass, counts: Counts) -> Traffic:
    """`traffic` with each line's requests as often and as wide as the machine code has them.

    Lines that only one side knows are pooled by memory space and direction. A wide access that was split
    keeps its sectors a request: each part touches all of them. More accesses than traced are scaled down to
    the traced bytes where guards may be the reason; those that every iteration of a loop makes do happen, and
    only their line is in doubt. They are taken for those of lines that lack some: the compiler gives a merged
    load one of its lines.
    """
    lined = has_lines(sass, traffic)
    static: dict[Key, _Static] = defaultdict(_Static)
    always = {i: unavoidable(sass, i) for i in range(len(sass.loops))}
    for number, block in enumerate(sass.blocks):
        if block.cold or counts.blocks[number] <= 0:
            continue
        for instruction in sass.instructions[block.first : block.last + 1]:
            key = key_of(instruction, lined=lined)
            if key is not None:
                static[key].requests += counts.blocks[number]
                moved = counts.blocks[number] * instruction.width / 8
                static[key].bytes += moved
                if block.loop is not None and number in always[block.loop] and not instruction.predicate:
                    static[key].sure += moved
    traced = traced_bytes(traffic, lined=lined)
    known = {k for k in static if traced.get(k, 0.0) > 0}
    pooled: dict[tuple[str, bool], _Static] = defaultdict(_Static)
    for key, s in static.items():
        if key not in known:
            pooled[key[:2]].requests += s.requests
            pooled[key[:2]].bytes += s.bytes
            pooled[key[:2]].sure += s.sure
    loose: dict[tuple[str, bool], float] = defaultdict(float)
    for key, moved in traced.items():
        if key not in known:
            loose[key[:2]] += moved
    _settle(static, traced, known, pooled, loose)
    sites = []
    for site in traffic.sites:
        line_key: Key = (site.space, site.write, site.line if lined else None)
        if line_key in known:
            sites.append(_joined(site, static[line_key], traced[line_key]))
        elif pooled[line_key[:2]].requests > 0:
            sites.append(_joined(site, pooled[line_key[:2]], loose[line_key[:2]]))
        else:
            sites.append(site)
    return replace(traffic, sites=tuple(sites))


def _settle(
    static: Mapping[Key, _Static],
    traced: Mapping[Key, float],
    known: Iterable[Key],
    pooled: Mapping[tuple[str, bool], _Static],
    loose: Mapping[tuple[str, bool], float],
) -> None:
    """Moves accesses from lines that have more of them than were traced to lines that lack some."""
    for where in pooled.keys() | {k[:2] for k in known}:
        lines = [(static[k], traced[k]) for k in known if k[:2] == where]
        if pooled[where].bytes > 0:
            lines.append((pooled[where], loose[where]))
        spare = sum(max(0.0, s.sure - most) for s, most in lines)
        lacking = sum(max(0.0, most - s.bytes) for s, most in lines)
        moved = min(spare, lacking)
        if moved <= 0:
            continue
        for s, most in lines:
            if s.sure > most:
                s.resize(s.bytes - (s.sure - most) * moved / spare)
            elif s.bytes < most:
                s.resize(s.bytes + (most - s.bytes) * moved / lacking)


def _joined(site: SiteTraffic, static: _Static, traced: float) -> SiteTraffic:
    """The site's part of the static requests of its line, in proportion to the bytes it moved."""
    if site.requests <= 0 or traced <= 0 or static.bytes <= 0:
        return site
    width = static.bytes / static.requests
    moved = max(min(static.bytes, traced), static.sure) / traced
    requests = site.requests * site.width * moved / width
    return site.scaled(requests, max(1, round(width)))
