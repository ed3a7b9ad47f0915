"""The timed shapes of a workload's summary in words: a time is of one launch or the sum of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 4
"""Shapes that are named."""


def timed_shapes(workload: Mapping[str, Any]) -> list[dict[str, int | str]]:
    """Sizes, flags and other integers of each timed shape; parameters that are data are left out."""
    given = workload.get("timed")
    known = given if isinstance(given, list | tuple) and given else [workload.get("sizes", workload)]
    return [
        {name: value for name, value in one.items() if isinstance(value, int | str)}
        for one in known
        if isinstance(one, Mapping)
    ]


def shapes_text(workload: Mapping[str, Any], equals: str = "=") -> str:
    """`rows=64, cols=8`, and of more than one shape `sum of 2 launches: n=64, flag=1; n=64, flag=0`."""
    shapes = timed_shapes(workload)
    said = [", ".join(f"{name}{equals}{value}" for name, value in one.items()) for one in shapes]
    if len(said) < 2:
        return "".join(said)
    more = f"; {len(said) - MOST} more" if len(said) > MOST else ""
    return f"sum of {len(said)} launches: {'; '.join(said[:MOST])}{more}"
