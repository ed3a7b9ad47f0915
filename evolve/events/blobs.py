"""Content-addressed texts beside the event log: `blobs/<first two hex digits>/<sha256>`."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from evolve.events.disk import replace_file, writing
from evolve.ir.errors import EvolveError

_RESTORE = "restore the run's folder from a copy"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """Stores texts under the hash of their UTF-8 bytes; equal texts are stored once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Where the blob lies. Raises EvolveError `damaged-log` on what is no digest (a run is untrusted)."""
        if not _DIGEST.fullmatch(digest):
            raise EvolveError("damaged-log", f"not a blob name: {digest[:80]!r}", file=str(self.folder))
        return self.folder / digest[:2] / digest

    def put(self, text: str) -> str:
        """Stores `text`, returns its sha256. Raises EvolveError `cannot-write`."""
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        return digest

    def get(self, digest: str) -> str:
        """The text with that hash. Raises EvolveError `damaged-blob` if it is missing or altered."""
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except OSError as cause:
            message = f"a text that the event log refers to cannot be read: {cause.strerror}"
            raise EvolveError("damaged-blob", message, file=str(path), hint=_RESTORE) from cause
        if hashlib.sha256(data).hexdigest() != digest:
            raise EvolveError(
                "damaged-blob", "the content does not match its name", file=str(path), hint=_RESTORE
            )
        return data.decode("utf-8", "surrogatepass")
