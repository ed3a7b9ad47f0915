"""Forked processes: what they may take."""

from __future__ import annotations

import resource
from multiprocessing.connection import Connection

import pytest

from evolve.search.processes import BUILDER_BYTES, fork


def take(pipe: Connection, size: int) -> None:
    """So many bytes, which are never touched."""
    try:
        bytearray(size)
    except MemoryError:
        pipe.send("refused")
    else:
        pipe.send("given")


@pytest.mark.parametrize(
    ("headroom", "found"), [(64 << 20, "refused"), (BUILDER_BYTES, "given"), (None, "given")]
)
def test_a_builder_that_wants_too_much_is_refused_it(headroom: int | None, found: str) -> None:
    """It must not take from the others, or have the parent killed for lack of memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    one = fork(take, (), headroom=headroom)
    try:
        one.pipe.send(1 << 20)
        assert one.pipe.recv() == "given"
        one.pipe.send(256 << 20)
        assert one.pipe.recv() == found
    finally:
        one.end(kill=False)
    assert one.process.exitcode == 0 and resource.getrlimit(resource.RLIMIT_AS) == before
