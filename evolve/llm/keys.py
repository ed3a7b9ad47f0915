"""Keys: blotted out of this process, so that no process forked later has them.

Removing a variable leaves its text where the system put it when the process began, which
`/proc/PID/environ` shows, and in the memory of `os.environ`, which is freed and not cleared; every fork
copies both. So the text itself is overwritten first. Nothing here makes another copy of it.
"""

from __future__ import annotations

import ctypes
import os

_SUFFIXES = (b"_API_KEY", b"_API_TOKEN")


def has_key(name: str) -> bool:
    """Whether the environment has a key of that name."""
    return bool(os.environb.get(name.encode()))


def blot_keys() -> None:
    """Overwrites and removes every variable of the environment that is named like a key."""
    for name in [name for name in os.environb if name.upper().endswith(_SUFFIXES)]:
        _overwrite(name)
        del os.environb[name]


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
