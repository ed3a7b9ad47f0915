"""The workload of a run: inferred, then what the file's comment says, then what --workload says."""

from __future__ import annotations

from pathlib import Path

from evolve.workload.infer import LiftedKernel, infer
from evolve.workload.model import Workload
from evolve.workload.toml import from_toml, read_file
from evolve.workload.validate import validate


def resolve(
    lifted: LiftedKernel,
    *,
    comment: str | None = None,
    source: str | None = None,
    override_file: str | Path | None = None,
) -> Workload:
    """`comment`: the TOML of a `/* evolve … */` block in the file `source`; `override_file` replaces it.

    Raises EvolveError for a workload that cannot be read or does not fit the kernel.
    """
    workload = infer(lifted)
    file: str | None = None
    if override_file is not None:
        file = str(override_file)
        workload = from_toml(read_file(override_file), workload, file)
    elif comment is not None:
        file = source
        workload = from_toml(comment, workload, file)
    validate(workload, lifted.kernel, lifted.no_wrap, file)
    return workload
