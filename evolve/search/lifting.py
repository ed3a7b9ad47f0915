"""The kernel lifted as its workload says, and the workload that fits it."""

from __future__ import annotations

import re
from functools import partial
from typing import cast

from evolve.frontend.geometry import LaunchInfo
from evolve.frontend.lift import Lifted, lift
from evolve.frontend.locate import comment_block
from evolve.frontend.refuse import CannotLiftError
from evolve.search.problem import SAY_LAUNCH, ProblemRequest
from evolve.workload.model import Contract, LaunchSpec, Workload
from evolve.workload.resolve import resolve
from evolve.workload.toml import launch_of

_OF_A_LAUNCH = re.compile(r"\b(block|grid|thread|launch)", re.IGNORECASE)


def lifted_as_said(request: ProblemRequest) -> tuple[Lifted, Workload]:
    """The kernel and its workload, which may say how the kernel is launched, instead of the file, and whether
    numerics are exact.

    Raises EvolveError as `lift` and `resolve` do; where a launch might help, the hint says how to say it.
    """
    lift_ = partial(lift, request.kernel_file, request.entry, request.kernel_text, _told(_said(request)))
    try:
        lifted = lift_()
    except CannotLiftError as refusal:
        swept = "grid-stride" in refusal.message  # refused whatever the launch is
        if _said(request) is None and not swept and _OF_A_LAUNCH.search(refusal.message):
            refusal.hint = SAY_LAUNCH
        raise
    workload = _resolved(request, lifted)
    if workload.numerics == "exact":
        lifted = lift_(exact=True)
        workload = _resolved(request, lifted)
    return lifted, workload


def _told(launch: LaunchSpec | None) -> LaunchInfo | None:
    return None if launch is None else LaunchInfo(None, launch.grid, launch.block)


def _said(request: ProblemRequest) -> LaunchSpec | None:
    """The launch in the workload's file, or in the kernel file's comment where there is none."""
    if request.workload_text is not None:
        return launch_of(request.workload_text, request.workload_file)
    comment = comment_block(request.kernel_text)
    return None if comment is None else launch_of(comment, request.kernel_file, comment=True)


def _resolved(request: ProblemRequest, lifted: Lifted) -> Workload:
    return resolve(
        lifted,
        comment=lifted.comment_block,
        source=request.kernel_file,
        override=request.workload_text,
        override_file=request.workload_file,
        numerics=cast(Contract | None, request.numerics),
    )
