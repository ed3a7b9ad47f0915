"""One timed job at a time on a GPU: a file that is locked while somebody measures there."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock_file(pci_bus_id: str) -> Path:
    """The file for a GPU, of the user's: other users of the machine are not waited for."""
    name = re.sub(r"\W", "-", pci_bus_id)
    return Path(tempfile.gettempdir()) / f"evolve-gpu-{os.getuid()}-{name}.lock"


@contextmanager
def exclusive(pci_bus_id: str) -> Iterator[None]:
    """Waits until nobody else of this user measures on the GPU. The end of a process ends its lock.

    Without a folder for temporary files it does not wait.
    """
    try:
        fd = os.open(lock_file(pci_bus_id), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
