"""Counter-based random numbers: a stream is a function of (seed, purpose, number) and nothing else.

So a decision does not depend on how many numbers earlier decisions drew, and a resumed run draws
what an uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib
from random import Random


def stream(seed: int, purpose: str, number: int) -> Random:
    """The random stream for one decision, the same on every machine."""
    key = f"{seed}\x1f{purpose}\x1f{number}".encode()
    return Random(int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big"))
