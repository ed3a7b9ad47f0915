"""How the worker process is started: with an environment emptied to what CUDA needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import evolve

KEPT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)
"""By name and not by prefix: NVIDIA_API_KEY is a key."""


def worker_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the worker gets of the variables `given`; its driver loads machine code only."""
    # What the driver would translate by itself is not what was examined.
    return tool_environment(given) | {"CUDA_DISABLE_PTX_JIT": "1"}


def tool_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of `given` that CUDA needs, and PYTHONPATH to find what this process finds.

    Tools that watch a launch bring kernels of their own, in PTX.
    """
    kept = {n: given[n] for n in KEPT if n in given}
    # Loading at the first launch would be in its time.
    kept["CUDA_MODULE_LOADING"] = "EAGER"
    # The package's own folder first: it need not be installed, and the current folder is not searched.
    where = [str(Path(evolve.__file__).parents[1]), *(p for p in sys.path if p and Path(p).is_dir())]
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(where))
    return kept


def worker_command(fd: int, ordinal: int) -> list[str]:
    """The command line of a worker that talks on the socket `fd`. -P: nothing from the current folder."""
    return [sys.executable, "-P", "-m", "evolve.devices.cuda.worker", str(fd), str(ordinal)]
