"""Launches in a process of their own under a tool that watches it: compute-sanitizer, Nsight Compute.

The process is `launch_once`, with an emptied environment and in a process group that is killed when it takes
too long.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolve.codegen.launch import ConcreteLaunch, ScalarArg, scratch_of
from evolve.devices.cuda.environment import tool_environment
from evolve.devices.cuda.launch_once import CUBIN, ENDED, JOB
from evolve.devices.cuda.messages import Array
from evolve.devices.cuda.scratch import Scratch

MOST_READ = 4 << 20
"""Bytes of a tool's output that are looked at."""
_LOG, _STREAMS = "tool.log", "streams.txt"
_OPT = Path("/opt/nvidia/nsight-compute")
_PLACES = ("bin", "compute-sanitizer", "nsight-compute")


@dataclass(frozen=True)
class Run:
    """Launches on arrays of their own: what is in one, a .npy file with that, or how many bytes it has.

    With only a number nothing is written to it.
    """

    launches: tuple[ConcreteLaunch, ...]
    arrays: Mapping[str, Array | Path | int]


@dataclass(frozen=True)
class Ended:
    """How a tool ended.

    status   the exit status, None when it was killed because it took too long
    log      what the tool wrote; `streams`: standard output and error of tool and process
    error    why not everything was launched, None when it was
    """

    status: int | None
    log: str
    streams: str
    error: str | None


def find(name: str) -> Path | None:
    """A tool of the CUDA toolkit on PATH, else in the toolkit's folder, else None."""
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    homes = [os.environ[n] for n in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(n)]
    for home in (*homes, "/usr/local/cuda"):
        for place in _PLACES:
            found = Path(home) / place / name
            if found.is_file() and os.access(found, os.X_OK):
                return found
    # Where Nsight Compute installs itself without a toolkit, a folder each version.
    return next(iter(sorted(_OPT.glob(f"*/{name}"), reverse=True)), None)


class Alone:
    """A folder with what is to be launched; see `alone`."""

    def __init__(self, folder: Path, cubin: bytes, runs: Sequence[Run], ordinal: int) -> None:
        self.folder = folder
        (folder / CUBIN).write_bytes(cubin)
        job = {"ordinal": ordinal, "runs": [self._run(i, r) for i, r in enumerate(runs)]}
        (folder / JOB).write_text(json.dumps(job), encoding="utf-8")

    def _run(self, number: int, run: Run) -> dict[str, object]:
        arrays: dict[str, str | int] = {}
        for name, source in run.arrays.items():
            if isinstance(source, int):
                arrays[name] = source
            elif isinstance(source, Path):
                arrays[name] = str(source.absolute())
            else:
                file = f"{number}.{len(arrays)}.npy"
                np.save(self.folder / file, source)
                arrays[name] = file
        for s in scratch_of(run.launches).values():
            arrays[s.name] = s.nbytes
        return {"arrays": arrays, "launches": [_launch(x) for x in run.launches]}

    def under(self, tool: Path, options: Sequence[str], limit_s: float) -> Ended:
        """Runs it under a tool, which gets `--log-file`. Raises OSError when the tool cannot be started."""
        log, streams, ended = (self.folder / n for n in (_LOG, _STREAMS, ENDED))
        for file in (log, ended):
            file.unlink(missing_ok=True)
        command = [
            *(str(tool), *options, "--log-file", str(log)),
            *(sys.executable, "-P", "-m", "evolve.devices.cuda.launch_once", str(self.folder)),
        ]
        with streams.open("wb") as out:
            process = subprocess.Popen(
                command,
                env=tool_environment(os.environ),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status: int | None
            try:
                status = process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                # Tools start processes of their own; the group is ours.
                _kill_group(process)
        return Ended(status, _read(log), _read(streams), _error(ended, status, limit_s))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def alone(cubin: bytes, runs: Sequence[Run], ordinal: int = 0) -> Iterator[Alone]:
    """What tools can be run on, in a temporary folder."""
    with closing(Scratch()) as folder:
        yield Alone(folder.path, cubin, runs, ordinal)


def _launch(x: ConcreteLaunch) -> dict[str, object]:
    args = [[a.dtype, a.value] if isinstance(a, ScalarArg) else ["buffer", a.name] for a in x.args]
    return {
        "kernel": x.kernel,
        "args": args,
        "grid": x.grid,
        "block": x.block,
        "shared_bytes": x.shared_bytes,
        "carveout": x.carveout,
    }


def _read(file: Path) -> str:
    try:
        with file.open("rb") as f:
            return f.read(MOST_READ).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _error(ended: Path, status: int | None, limit_s: float) -> str | None:
    if status is None:
        return f"it took more than {limit_s:g} s"
    try:
        found = json.loads(ended.read_text(encoding="utf-8"))
        error = found["error"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"the process ended without a word (exit status {status})"
    return None if error is None else str(error)
