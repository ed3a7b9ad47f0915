"""Keys: blotted out of this process, so that no process forked later has them.

Removing a variable leaves its text where the system put it when the process began, which
`/proc/PID/environ` shows, and in the memory of `os.environ`, which is freed and not cleared; every fork
copies both. So the text itself is overwritten first. `blot_keys` makes no other copy of it; `take_keys`
is for who is to hold them.
"""

from __future__ import annotations

import ctypes
import os

_MARKS = frozenset((b"KEY", b"KEYS", b"TOKEN", b"TOKENS", b"SECRET", b"SECRETS", b"PASSWORD", b"CREDENTIALS"))
"""Parts of names such as OPENAI_API_KEY, HF_TOKEN, AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS."""


def has_key(name: str) -> bool:
    """Whether the environment has a key of that name."""
    return bool(os.environb.get(name.encode()))


def blot_keys() -> None:
    """Overwrites and removes every variable of the environment that is named like a key."""
    for name in _names():
        _overwrite(name)
        del os.environb[name]


def take_keys() -> dict[str, str]:
    """The variables that are named like keys, which the environment has no longer."""
    taken = {os.fsdecode(name): os.fsdecode(os.environb[name]) for name in _names()}
    blot_keys()
    return taken


def is_key(name: bytes) -> bool:
    """Whether a variable of that name may hold a key."""
    return not _MARKS.isdisjoint(name.upper().split(b"_"))


def _names() -> list[bytes]:
    return [name for name in os.environb if is_key(name)]


def _overwrite(name: bytes) -> None:
    """Both texts of a variable: the C library's, and the object that `os.environb` holds."""
    libc = ctypes.CDLL(None)
    libc.getenv.argtypes, libc.getenv.restype = (ctypes.c_char_p,), ctypes.c_void_p
    libc.strlen.argtypes, libc.strlen.restype = (ctypes.c_void_p,), ctypes.c_size_t
    place = libc.getenv(name)
    if place:
        ctypes.memset(place, ord("-"), libc.strlen(place))
    held = os.environb[name]
    # The bytes of an object of CPython follow its header. Those of length 1 and 0 are shared by all.
    if len(held) > 1:
        ctypes.memset(id(held) + bytes.__basicsize__ - 1, ord("-"), len(held))
