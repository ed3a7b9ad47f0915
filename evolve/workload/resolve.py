"""The workload of a run: inferred, then what the file's comment or the user's TOML says instead."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.errors import EvolveError
from evolve.workload.decisions import decides_by_values
from evolve.workload.infer import NOT_GIVEN, LiftedKernel, infer
from evolve.workload.model import EVERY_FAMILY, FAMILIES, Contract, Workload
from evolve.workload.toml import from_toml
from evolve.workload.validate import validate


def resolve(
    lifted: LiftedKernel,
    *,
    comment: str | None = None,
    source: str | None = None,
    override: str | None = None,
    override_file: str | None = None,
    numerics: Contract | None = None,
) -> Workload:
    """`comment`: the TOML of a `/* evolve … */` block in the file `source`; `override`, the text of
    `override_file`, replaces it; `numerics`, where given, replaces the contract of either.

    Raises EvolveError for a text that is no workload or does not fit the kernel.
    """
    inferred, file = infer(lifted), None
    workload = inferred
    if override is not None:
        file = override_file
        _check_says_something(override, file)
        workload = from_toml(override, workload, file)
    elif comment is not None:
        file = source
        workload = from_toml(comment, workload, file, comment=True)
    if workload.timed != inferred.timed:
        workload = replace(workload, assumed=tuple(a for a in workload.assumed if not a.endswith(NOT_GIVEN)))
    if numerics is not None:
        workload = replace(workload, numerics=numerics)
    if workload.numerics == "exact" and workload.families == FAMILIES and decides_by_values(lifted.kernel):
        workload = replace(workload, families=EVERY_FAMILY)
    validate(workload, lifted.kernel, lifted.no_wrap, file)
    return workload


def _check_says_something(text: str, file: str | None) -> None:
    """Raises EvolveError `bad-workload` for a file without a key, as one cut short."""
    if all(line.lstrip().startswith("#") for line in text.splitlines() if line.strip()):
        hint = "say sizes, as `timed = [{ n = 4096 }]`, or leave --workload out"
        raise EvolveError("bad-workload", "the workload file says nothing", file=file, hint=hint)
