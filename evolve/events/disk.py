"""Writing files so that a full disk or a kill leaves the old content or the new, never half of it."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evolve.ir.errors import EvolveError

_HINTS = {
    errno.ENOSPC: "free some space, then `evolve resume` continues the run",
    errno.EDQUOT: "free some quota, then `evolve resume` continues the run",
    errno.EFBIG: "raise the file size limit (ulimit -f), then `evolve resume` continues the run",
    errno.EROFS: "choose another folder with --out",
    errno.EACCES: "choose another folder with --out",
    errno.EPERM: "choose another folder with --out",
    errno.ENOENT: "choose another folder with --out",
    errno.ENOTDIR: "a file is in the way: choose another folder with --out",
    errno.EEXIST: "a file is in the way: choose another folder with --out",
}


def survive_size_limit() -> None:
    """Makes a write over RLIMIT_FSIZE fail with EFBIG instead of killing the process."""
    with suppress(ValueError):  # only the main thread may set handlers; elsewhere it is set already
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def cannot_write(path: Path, cause: OSError) -> EvolveError:
    """The error that says which path could not be written, why, and what to do."""
    reason = os.strerror(cause.errno) if cause.errno else str(cause)
    hint = _HINTS.get(cause.errno or 0)
    return EvolveError("cannot-write", f"cannot write: {reason}", file=str(path), hint=hint)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns any OSError inside into EvolveError `cannot-write` about `path`."""
    try:
        yield
    except OSError as cause:
        raise cannot_write(path, cause) from cause


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte; raises OSError on the first write that fails."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_file(path: Path, data: bytes) -> None:
    """Puts `data` at `path` by a temporary file and a rename; raises EvolveError `cannot-write`."""
    with writing(path):
        descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
        try:
            try:
                write_all(descriptor, data)
                os.fchmod(descriptor, 0o644)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def sync_folder(folder: Path) -> None:
    """Makes new names in `folder` durable, where the file system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
