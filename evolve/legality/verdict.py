"""What the prover answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from evolve.dsl.diagnostic import Diagnostic
from evolve.target.limits import REGISTER_FILE, STATIC_SHARED_BYTES, THREADS_MOST
from evolve.workload.model import Contract


class Status(Enum):
    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Limits:
    """What the target and the contract allow, and how much work one isl query may do.

    shared_bytes   per block, all arrays with their padding; above 48 KiB they are dynamic
    registers      per block, of 32 bits
    operations     isl operations a query; beyond, the answer is UNKNOWN
    numerics       the contract: which rewrites of floating-point arithmetic are allowed
    """

    threads_per_block: int = THREADS_MOST
    shared_bytes: int = STATIC_SHARED_BYTES
    operations: int = 100_000
    numerics: Contract = "reassociate"
    registers: int = REGISTER_FILE


@dataclass(frozen=True)
class CheckRun:
    """One check that ran, and for how long (milliseconds)."""

    name: str
    ms: float


@dataclass(frozen=True)
class Verdict:
    """PROVED only when every check ran and found nothing.

    diagnostics   why not, empty when PROVED
    scope         `symbolic`, or `fixed{cols=8192}`
    assumptions   facts the proof rests on, as text
    checks        which ran
    premises      what it rests on that lifting does not say, the ends of arrays that are searched, and what
                  the numerics contract lets it take for the same function, as text
    """

    status: Status
    diagnostics: tuple[Diagnostic, ...]
    scope: str
    assumptions: tuple[str, ...]
    checks: tuple[CheckRun, ...]
    premises: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        return self.status is Status.PROVED
