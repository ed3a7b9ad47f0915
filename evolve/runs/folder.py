"""A run's folder: `events.jsonl`, `blobs/`, `kernel.cu`, `workload.toml`, `best.cu`, `best.dsl`."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evolve.events.blobs import BlobStore
from evolve.events.disk import cannot_write, replace_file, survive_size_limit, writing
from evolve.events.log import LOG_NAME
from evolve.ir.errors import EvolveError

RUNS = Path("runs")


@dataclass(frozen=True)
class RunFolder:
    """Where a run lies. `name` is what commands take as RUN."""

    path: Path
    name: str

    @property
    def log(self) -> Path:
        """The event log."""
        return self.path / LOG_NAME

    @property
    def blobs(self) -> BlobStore:
        """The texts beside the log."""
        return BlobStore(self.path / "blobs")

    def write(self, name: str, text: str) -> Path:
        """Replaces a file of the folder whole. Raises EvolveError `cannot-write`."""
        path = self.path / name
        replace_file(path, text.encode("utf-8", "replace"))
        return path


def find_run(run: str) -> RunFolder:
    """The folder of RUN, a path or an id under `runs/`. Raises EvolveError `no-such-run`."""
    if not run.strip():
        raise EvolveError("no-such-run", "the name of the run is empty", hint="give an id or a path")
    places = (Path(run), RUNS / run)
    for place in places:
        with suppress(OSError, ValueError):  # an over-long or NUL-holding name is simply not there
            if (place / LOG_NAME).is_file():
                return RunFolder(place, run)
    with suppress(OSError, ValueError):
        if places[0].is_dir():
            raise EvolveError("no-such-run", f"the folder holds no {LOG_NAME}", file=run)
        if places[0].exists():
            raise EvolveError("no-such-run", "this is a file, and a run is a folder", file=run)
    known = sorted(path.parent.name for path in RUNS.glob(f"*/{LOG_NAME}"))
    listed = f"runs here: {', '.join(known[-5:])}" if known else "there are no runs under runs/ here"
    raise EvolveError("no-such-run", f"there is no run {run!r}", hint=f"give an id or a path; {listed}")


@contextmanager
def new_folder(kernel_name: str, out: Path | None) -> Iterator[RunFolder]:
    """Makes the folder of a new run; if the body fails, all it made is taken away again.

    `out` must be absent or an empty folder. Raises EvolveError `cannot-write` or `run-exists`.
    """
    survive_size_limit()
    folder, made = _claim(kernel_name, out)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):
            for entry in folder.path.iterdir():
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


def _claim(kernel_name: str, out: Path | None) -> tuple[RunFolder, list[Path]]:
    """The folder and the paths that were made for it, innermost first."""
    if out is not None:
        made = _make(out)
        with writing(out):
            taken = any(out.iterdir())
        if taken:
            holds = "a run" if (out / LOG_NAME).exists() else "other files"
            hint = "choose an empty folder" + (", or `evolve resume` it" if holds == "a run" else "")
            raise EvolveError("run-exists", f"the folder already holds {holds}", file=str(out), hint=hint)
        return RunFolder(out, str(out)), made
    made = _make(RUNS)
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", kernel_name).strip("-")[:40] or "run"
    base = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    for attempt in range(1, 1000):
        path = RUNS / (base if attempt == 1 else f"{base}-{attempt}")
        try:
            path.mkdir()
            return RunFolder(path, path.name), [path, *made]
        except FileExistsError:
            continue
        except OSError as cause:
            raise cannot_write(path, cause) from cause
    raise EvolveError("cannot-write", "no free run id", file=str(RUNS / base))


def _make(path: Path) -> list[Path]:
    """Makes a folder and its parents; returns those that were missing, innermost first."""
    missing: list[Path] = []
    with writing(path):
        at = path
        while not os.path.lexists(at):
            missing.append(at)
            at = at.parent
        for one in reversed(missing):
            one.mkdir()
        if not path.is_dir():
            raise NotADirectoryError(20, os.strerror(20))
    return missing
