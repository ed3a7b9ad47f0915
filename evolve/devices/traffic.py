"""What one launch does to memory, a block on average: the estimate's view of a trace.

A trace of a few sampled blocks gives, for each place in the text that touches memory, how often a warp asks
and how many 32-byte sectors or shared-memory wavefronts that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from evolve.devices.sim.tracing import TraceStats

SECTOR = 32
LINE = 128


@dataclass(frozen=True)
class SiteTraffic:
    """One access in the text, summed over a block (mean over the sampled ones).

    line        1-based line in the compiled text; None when unknown
    width       bytes that one lane moves
    requests    warp-wide requests; `lanes` active lanes in all of them
    sectors     32-byte sectors, summed over requests (global)
    wavefronts  passes through the 32 banks, summed over requests (shared)
    conflict_free   the passes that the same requests need at least
    lines_seen  128-byte lines, summed over requests, when the trace counted them; `partial_seen` those of
                them in which a store fills some sector only in part
    """

    space: Literal["global", "shared"]
    write: bool
    width: int
    requests: float
    lanes: float
    line: int | None = None
    sectors: float = 0.0
    wavefronts: float = 0.0
    conflict_free: float = 0.0
    lines_seen: float | None = None
    partial_seen: float | None = None

    @property
    def bytes(self) -> float:
        """Bytes that its lanes move."""
        return self.lanes * self.width

    @property
    def partial_sectors(self) -> float:
        """Sectors that requests fill only in part: the ends of a shifted range, or all of a scattered one."""
        return min(self.sectors, 2.0 * max(0.0, self.sectors - self.ideal_sectors))

    def scaled(self, requests: float, width: int) -> SiteTraffic:
        """The same pattern with that many requests of that width."""
        if self.requests <= 0:
            return self
        by = requests / self.requests
        # A wide load of one address costs no more passes than a narrow one (H200: 1 for all lanes at one
        # address, 4 for sixteen addresses of 16 bytes twice), but never less than one.
        passes = requests if self.space == "shared" else 0.0
        return replace(
            self,
            width=width,
            requests=requests,
            lanes=self.lanes * by,
            sectors=self.sectors * by,
            wavefronts=max(self.wavefronts * by, passes),
            conflict_free=max(self.conflict_free * by, passes),
            lines_seen=None if self.space == "shared" else self.lines * by,
            # The parts of a split store leave gaps, which the next part fills.
            partial_seen=None if self.space == "shared" else by * self._partial(split=width < self.width),
        )

    @property
    def partial_lines(self) -> float:
        """Lines in which a store fills some sector only in part; guessed where the trace did not count."""
        return self._partial(split=False)

    def _partial(self, *, split: bool) -> float:
        if not self.write:
            return 0.0
        if split:
            return self.lines
        return min(self.lines, self.partial_sectors) if self.partial_seen is None else self.partial_seen

    @property
    def ideal_sectors(self) -> float:
        """Sectors if neighbouring lanes touched neighbouring bytes."""
        return self.bytes / SECTOR

    @property
    def lines(self) -> float:
        """128-byte lines, summed over requests: the tags that L1 looks up.

        Where only sectors are known: fewer sectors than lanes lie four to a line (stride below a sector); one
        sector a lane is a column of a matrix, each in its own line.
        """
        if self.requests <= 0:
            return 0.0
        if self.lines_seen is not None:
            return self.lines_seen
        scattered = self.sectors >= 0.9 * self.lanes and self.sectors > 1.1 * self.ideal_sectors
        return self.sectors if scattered else max(self.requests, self.sectors * SECTOR / LINE)


@dataclass(frozen=True)
class Traffic:
    """A block's traffic, on average.

    sectors_read, sectors_written   distinct global sectors that one block touches
    set_sectors_read, set_sectors_written   distinct sectors that all sampled blocks touch together
    sampled     how many blocks that set has (neighbours in launch order)
    barriers, shuffles, atomics     per block; shuffles in warp instructions, atomics in updates of a lane,
                which are also among the stores
    """

    sites: tuple[SiteTraffic, ...]
    sectors_read: float
    sectors_written: float
    set_sectors_read: float
    set_sectors_written: float
    sampled: int
    warps: float
    barriers: float = 0.0
    shuffles: float = 0.0
    atomics: float = 0.0

    def total(self, space: str, *, write: bool | None = None) -> SiteTraffic:
        """All sites of a space as one (width averaged over lanes)."""
        found = [s for s in self.sites if s.space == space and (write is None or s.write == write)]
        lanes = sum(s.lanes for s in found)
        moved = sum(s.bytes for s in found)
        return SiteTraffic(
            space="shared" if space == "shared" else "global",
            write=bool(write),
            width=round(moved / lanes) if lanes else 0,
            requests=sum(s.requests for s in found),
            lanes=lanes,
            sectors=sum(s.sectors for s in found),
            wavefronts=sum(s.wavefronts for s in found),
            conflict_free=sum(s.conflict_free for s in found),
            lines_seen=sum(s.lines for s in found) if space == "global" else None,
            partial_seen=sum(s.partial_lines for s in found) if space == "global" else None,
        )

    def shared_ends(self) -> float:
        """Sectors at the ends of stored ranges that lie partly outside: another warp writes the rest."""
        stores = [s for s in self.sites if s.space == "global" and s.write]
        return sum(s.partial_lines for s in stores if s.partial_sectors < s.sectors / 2)

    def lines(self, *, write: bool | None = None) -> float:
        """L1 tag look-ups of global accesses."""
        return sum(s.lines for s in self.sites if s.space == "global" and write in (None, s.write))


def traffic_of(stats: TraceStats, warp: int = 32) -> Traffic:
    """The traffic that a trace of sampled blocks saw, for one block."""
    n = max(1, stats.blocks)
    sites = tuple(
        SiteTraffic(
            space="shared" if s.space == "shared" else "global",
            write=s.write,
            width=s.size,
            requests=s.requests / n,
            lanes=s.lanes / n,
            line=s.line,
            sectors=s.sectors / n,
            wavefronts=s.wavefronts / n,
            conflict_free=s.ideal_wavefronts / n,
            lines_seen=s.lines / n if s.space == "global" else None,
            partial_seen=s.partial_lines / n if s.space == "global" else None,
        )
        for s in stats.sites
    )
    return Traffic(
        sites=sites,
        sectors_read=stats.unique_sectors_read,
        sectors_written=stats.unique_sectors_written,
        set_sectors_read=stats.set_sectors_read,
        set_sectors_written=stats.set_sectors_written,
        sampled=n,
        warps=-(-stats.threads // warp),
        barriers=stats.barriers,
        shuffles=stats.shuffles,
        atomics=stats.atomics,
    )
