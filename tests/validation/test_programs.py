"""Every program of the repository: its text is read back and proved, or named here with the reason."""

from __future__ import annotations

from evolve.validation.verdict import TextStatus
from tests.validation.suite import made, of, programs

NOT_READ = {
    "spmv-balance": "entries gathered into runs before their segments are updated",
    "template spmv 4": "entries gathered into runs before their segments are updated",
    "template spmv 5": "entries gathered into runs before their segments are updated",
}
"""What is not read back. Nothing may be added: what is proved can only become more."""


def test_every_program_but_these_is_proved() -> None:
    verdicts = {name: made(name).read_back() for name in programs()}
    assert {n: v.reason for n, v in verdicts.items() if not v.proved} == NOT_READ
    assert all(v.status is not TextStatus.REFUTED for v in verdicts.values())
    assert sum(v.proved for v in verdicts.values()) >= 150


def test_requests_ahead_are_of_the_elements_that_were_proved() -> None:
    asked = (
        "specialize(cols == 100)\nasked = prefetch(in, at=r, ahead=2, bytes=64)\nbind(asked.1, thread.x)\n"
    )
    program = of("row_sum", f"{asked}bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)")
    text = program.rendered.text
    assert program.read_back().proved
    (line,) = (x for x in text.splitlines() if "prefetch_l2(&" in x)
    assert program.read_back(text.replace(line, "")).proved  # nothing is lost but time
    assert not program.read_back(text.replace(line, line.replace("* 100", "* 101"))).proved
    assert not program.read_back(text.replace("prefetch.global.L2", "prefetch.global.L1")).proved


def test_updates_by_lanes_together_are_not_read() -> None:
    program = of("histogram", "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\naggregate(hist, warp)")
    verdict = program.read_back()
    assert verdict.status is TextStatus.UNKNOWN and "aggregate_sum" in verdict.reason
