"""Which level serves what, for traffic written down by hand."""

import pytest

from evolve.devices.cache import PACKET, PARTIAL_PACKET, Local, levels
from evolve.devices.traffic import SECTOR, SiteTraffic, Traffic
from evolve.sol.ceilings import L2_PORT_BYTES
from evolve.target.profile import load_profile

H200 = load_profile("h200-sxm")
BLOCKS = 100_000


def site(sectors: float, *, write: bool = False, requests: float = 8, width: int = 4) -> SiteTraffic:
    return SiteTraffic("global", write, width, requests, 32 * requests, sectors=sectors)


def traffic(
    *sites: SiteTraffic, read: float, written: float = 0, together: float | None = None, sampled: int = 1
) -> Traffic:
    both = read * sampled if together is None else together
    return Traffic(tuple(sites), read, written, both, written * sampled, sampled, warps=8)


def test_streams_come_from_dram_once() -> None:
    t = traffic(site(32), site(32, write=True), read=32, written=32)
    v = levels(H200, t, None, BLOCKS, 8, 0, None)
    assert v.l1_miss == 1 and v.dram_miss == 1
    assert v.dram_read == v.dram_written == 32 * SECTOR * BLOCKS
    assert v.l2_bytes == 64 * SECTOR * BLOCKS
    assert v.port_clocks == pytest.approx(v.l2_bytes / L2_PORT_BYTES)


def test_what_l1_holds_is_fetched_once() -> None:
    v = levels(H200, traffic(site(320, requests=80), read=32), None, BLOCKS, 8, 0, None)
    assert v.l1_miss == pytest.approx(0.1)
    assert v.l2_bytes == pytest.approx(32 * SECTOR * BLOCKS)


def test_shared_memory_takes_room_from_l1() -> None:
    t = traffic(site(8192, requests=256), read=1024)
    roomy = levels(H200, t, None, BLOCKS, 4, 0, None)
    tight = levels(H200, t, None, BLOCKS, 4, 56 * 1024, None)
    assert tight.l1_miss > roomy.l1_miss


def test_neighbours_share_through_l2() -> None:
    alone = levels(H200, traffic(site(32), read=32, sampled=4), None, BLOCKS, 8, 0, None)
    shared = levels(H200, traffic(site(32), read=32, together=56, sampled=4), None, BLOCKS, 8, 0, None)
    assert shared.dram_read == pytest.approx(alone.dram_read / 4, rel=0.01)
    assert shared.l2_bytes == alone.l2_bytes and shared.dram_miss < 0.3


def test_a_small_footprint_is_read_once() -> None:
    v = levels(H200, traffic(site(32), read=32), None, BLOCKS, 8, 0, (1 << 20, 0))
    assert v.dram_read == 1 << 20


def test_the_footprint_moves_at_least() -> None:
    v = levels(H200, traffic(site(1), read=1), None, 8, 8, 0, (1e9, 2e9))
    assert (v.dram_read, v.dram_written) == (1e9, 2e9)


def test_lines_have_their_price() -> None:
    whole = levels(H200, traffic(site(32, write=True), read=0, written=32), None, BLOCKS, 8, 0, None)
    parts = levels(H200, traffic(site(256, write=True), read=0, written=256), None, BLOCKS, 8, 0, None)
    column = levels(H200, traffic(site(256), read=256), None, BLOCKS, 8, 0, None)
    assert whole.port_clocks == pytest.approx(32 * SECTOR / L2_PORT_BYTES * BLOCKS)
    assert parts.port_clocks == column.port_clocks == pytest.approx(256 * PACKET * BLOCKS)
    assert parts.partial_clocks == pytest.approx(256 * PARTIAL_PACKET * BLOCKS)
    assert whole.partial_clocks == column.partial_clocks == 0


def test_a_shifted_row_has_two_partial_sectors() -> None:
    assert site(5, write=True, requests=1).partial_sectors == 2
    assert site(4, write=True, requests=1).partial_sectors == 0
    assert site(32, write=True, requests=1).partial_sectors == 32


def test_lines_of_a_request() -> None:
    assert site(4, requests=1).lines == 1
    assert site(32, requests=1).lines == 32
    assert site(16, requests=1, width=16).lines == 4
    assert site(1, requests=1).lines == 1


def test_local_memory_that_no_cache_holds_is_traffic() -> None:
    t = traffic(site(32), read=32)
    none = levels(H200, t, None, BLOCKS, 8, 0, None)
    few = levels(H200, t, None, BLOCKS, 8, 0, None, Local(moved=1e4, held=1024))
    many = levels(H200, t, None, BLOCKS, 8, 0, None, Local(moved=1e6, held=1 << 20))
    assert (few.l2_bytes, few.dram_read) == (none.l2_bytes, none.dram_read)
    # An SM's 8 MiB against a quarter of one in L1; the GPU's 1.03 GiB against 60 MiB in L2.
    beyond = many.l2_bytes - none.l2_bytes
    assert beyond == pytest.approx(1e6 * BLOCKS * (1 - (256 - 8) / 8192))
    assert many.dram_written - none.dram_written == pytest.approx(beyond / 2 * (1 - 60 / (132 * 8)))
