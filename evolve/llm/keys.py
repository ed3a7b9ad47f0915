"""Keys: taken out of this process's environment, so that no process forked later has them.

Removing a variable leaves its text where the system put it when the process began, which
`/proc/PID/environ` shows and every fork copies. So the text itself is overwritten first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

_SUFFIXES = ("_API_KEY", "_API_TOKEN")


def take_keys() -> Mapping[str, str]:
    """Every variable of the environment that is named like a key, which then has none of them.

    Only for the environment of the process that needs them: keep nothing of it.
    """
    names = [name for name in os.environ if name.upper().endswith(_SUFFIXES)]
    taken = {name: os.environ[name] for name in names}
    for name in names:
        _overwrite(name)
        del os.environ[name]
    return taken


def _overwrite(name: str) -> None:
    libc = ctypes.CDLL(None)
    libc.getenv.argtypes, libc.getenv.restype = (ctypes.c_char_p,), ctypes.c_void_p
    place = libc.getenv(os.fsencode(name))
    if place:
        ctypes.memset(place, ord("-"), len(ctypes.string_at(place)))
