"""Reading and writing `events.jsonl`: append-only, chained by hashes, one writer at a time.

Each event is one line, written by one call at the end of the file. Since the kernel keeps written
pages when a process dies, `kill -9` loses at most the event being written; the disk is synchronised
at most twice a second and on close, so a power failure loses little more.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from pydantic import ValidationError

from evolve.events.disk import cannot_write, survive_size_limit, sync_folder, write_all, writing
from evolve.events.schema import EVENT, SCHEMA_VERSION, Body, Event
from evolve.ir.errors import EvolveError

LOG_NAME = "events.jsonl"
LOCK_NAME = "lock"
_SYNC_EVERY_S = 0.5


def line_hash(line: bytes) -> str:
    """The link of the chain: 16 hex digits of the blake2b of a line with its newline."""
    return hashlib.blake2b(line, digest_size=8).hexdigest()


@dataclass(frozen=True)
class Log:
    """What a log holds: its events, the bytes that are whole, and whether a torn line follows them."""

    events: tuple[Event, ...]
    whole_bytes: int
    last_hash: str
    torn: bool


def read_log(path: Path) -> Log:
    """Reads a log. A torn last line is left out; any other damage raises EvolveError `damaged-log`.

    Raises EvolveError `no-such-run` if there is no log, `newer-log` if a newer version wrote it.
    """
    try:
        data = path.read_bytes()
    except OSError as cause:
        message = f"cannot read the event log: {cause.strerror}"
        raise EvolveError("no-such-run", message, file=str(path)) from cause
    lines = data.split(b"\n")
    tail = lines.pop()
    events: list[Event] = []
    whole, prev = 0, ""
    for number, text in enumerate(lines, start=1):
        last = number == len(lines) and not tail
        event = _parse(text, path, number, len(events), tolerate=last)
        if event is None:
            return Log(tuple(events), whole, prev, torn=True)
        here = line_hash(text + b"\n")
        if event.prev != prev:
            # The altered line is this one if the next line does not vouch for it, else the one before.
            vouched = number < len(lines) and f'"prev":"{here}"'.encode() in lines[number]
            at = number - 1 if number > 1 and (vouched or last) else number
            raise _damaged(path, at, "the line does not match the hash kept in the next line")
        events.append(event)
        whole += len(text) + 1
        prev = here
    return Log(tuple(events), whole, prev, torn=bool(tail))


def _parse(text: bytes, path: Path, number: int, seq: int, *, tolerate: bool) -> Event | None:
    try:
        event = EVENT.validate_json(text)
    except ValidationError as cause:
        if tolerate:
            return None
        if f'"v":{SCHEMA_VERSION},'.encode() not in text and text.startswith(b'{"v":'):
            raise EvolveError(
                "newer-log", "another version of evolve wrote this log", file=str(path), line=number
            ) from None
        raise _damaged(path, number, _wrong(cause)) from None
    if event.seq != seq:
        raise _damaged(path, number, f"event {event.seq} stands where event {seq} belongs")
    return event


def _wrong(cause: ValidationError) -> str:
    """What is wrong with a line, in a sentence of ours."""
    first = cause.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"][1:] if part != first["loc"][-1])
    name = str(first["loc"][-1]) if first["loc"] else ""
    match first["type"]:
        case "json_invalid":
            return "it is not a line of JSON"
        case "missing":
            return f"the field {name} is missing"
        case "extra_forbidden":
            return f"the field {name} is not known"
        case "union_tag_invalid" | "union_tag_not_found":
            return "it is an event of no known kind"
        case _ if name:
            return f"the field {f'{field}.' if field else ''}{name} does not hold what it should"
        case _:
            return "it is not an event"


def _damaged(path: Path, line: int, what: str) -> EvolveError:
    return EvolveError(
        "damaged-log",
        f"the event log is damaged before its last line: {what}",
        file=str(path),
        line=line,
        hint="restore the file from a copy; the lines before this one are whole",
    )


class RunLock:
    """Keeps a second process from writing the same run; freed by the system when the process dies.

    A record lock, since forked workers do not inherit those: one that outlives its parent holds nothing.
    """

    _held: ClassVar[set[Path]] = set()  # record locks exclude other processes only; this excludes our own

    def __init__(self, folder: Path) -> None:
        self._path = (folder / LOCK_NAME).resolve()
        if self._path in RunLock._held:  # checked first: closing a second descriptor would free the lock
            raise _in_use(folder, str(os.getpid()))
        with writing(self._path):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as cause:
                owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
                raise _in_use(folder, owner) from cause
            with writing(self._path):
                os.ftruncate(self._descriptor, 0)
                write_all(self._descriptor, f"{os.getpid()}\n".encode())
        except BaseException:
            os.close(self._descriptor)
            raise
        RunLock._held.add(self._path)

    def release(self) -> None:
        """Lets others write. The file stays: removing it would let two processes lock two files."""
        if self._path in RunLock._held:
            RunLock._held.discard(self._path)
            os.close(self._descriptor)


def _in_use(folder: Path, owner: str) -> EvolveError:
    return EvolveError(
        "run-in-use",
        f"another process is writing this run (process {owner or 'unknown'})",
        file=str(folder),
        hint="wait for it to end, or stop it",
    )


class EventWriter:
    """Appends events to the log of a run folder that it holds the lock of.

    Opening an existing log checks it whole and cuts a torn last line off. Raises EvolveError
    `run-in-use`, `damaged-log` or `cannot-write`. After a failed append the file is cut back to
    whole lines.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        survive_size_limit()
        self.path = folder / LOG_NAME
        self._clock = clock
        self._lock = RunLock(folder)
        self._descriptor = -1
        try:
            fresh = not self.path.exists()
            log = Log((), 0, "", torn=False) if fresh else read_log(self.path)
            with writing(self.path):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
                os.ftruncate(self._descriptor, log.whole_bytes)
        except BaseException:
            self.close()
            raise
        if fresh:
            sync_folder(folder)
        self.recorded = log.events
        self._size, self._prev, self._seq = log.whole_bytes, log.last_hash, len(log.events)
        self._synced_at = time.monotonic()

    def append(self, body: Body) -> Event:
        """Writes one event, returns it as stored. Raises EvolveError `cannot-write`."""
        event = Event(seq=self._seq, t=round(self._clock(), 3), prev=self._prev, body=body)
        line = event.model_dump_json(exclude_defaults=False).encode() + b"\n"
        try:
            write_all(self._descriptor, line)
            if time.monotonic() - self._synced_at >= _SYNC_EVERY_S:
                os.fsync(self._descriptor)
                self._synced_at = time.monotonic()
        except OSError as cause:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise cannot_write(self.path, cause) from cause
        self._size += len(line)
        self._prev = line_hash(line)
        self._seq += 1
        return event

    def close(self) -> None:
        """Synchronises, closes and unlocks; safe to call twice."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
