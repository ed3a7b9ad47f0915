"""Where NVIDIA's command-line tools lie: in the wheels that were installed with us, or on PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from evolve.ir.errors import EvolveError


def find_tool(name: str) -> Path:
    """The executable `name` (`nvdisasm`, `cuobjdump`), from a wheel first, else from PATH.

    The wheel is preferred because it matches the NVRTC beside it. Raises EvolveError `no-tool`.
    """
    for candidate in in_wheels(name):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    raise EvolveError(
        "no-tool",
        f"{name} was found neither in an installed wheel nor on PATH",
        hint=f"pip install nvidia-cuda-{name}",
    )


def in_wheels(name: str) -> list[Path]:
    """Where installed wheels of NVIDIA's have a file of that name among their programs, newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    roots = [Path(root) for root in spec.submodule_search_locations]
    # CUDA 13 wheels share one folder per major version, older ones have a folder each.
    return [binary for root in roots for binary in sorted(root.glob(f"*/bin/{name}"), reverse=True)]
