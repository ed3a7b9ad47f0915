"""Folders for arrays that are too large to be left behind.

A process that is killed removes nothing. Each folder holds a file that is locked as long as its process
lives, and whoever makes the next folder removes those whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "evolve-arrays-"
_MARK = "held"


class Scratch:
    """A folder of this process's own, removed by `close`, or by the next process when this one is killed."""

    def __init__(self) -> None:
        sweep()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.path = Path(self._folder.name)
        # A program that is started from here does not inherit it.
        self._lock = os.open(self.path / "new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Before that nobody finds the mark: a folder without one is nobody's to remove.
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / "new").rename(self.path / _MARK)

    def close(self) -> None:
        """Removes it."""
        self._folder.cleanup()
        with suppress(OSError):
            os.close(self._lock)


def sweep() -> None:
    """Removes the folders of this user's processes that have ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    """Raises OSError when it is gone, or is not such a folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    mark = os.open(folder / _MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(mark)
    return True
