"""Every program of the repository: its text is read back and proved, or named here with the reason."""

from __future__ import annotations

from evolve.validation.verdict import TextStatus
from tests.validation.suite import made, programs

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
