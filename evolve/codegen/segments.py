"""The device functions that find where in a nondecreasing array an entry belongs, and update memory there."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.codegen.ctext import literal
from evolve.ir.types import DType, Monoid


@dataclass(frozen=True)
class Update:
    """How contributions of one type are combined.

    step     the text that combines `total` and `value[i]`
    inner    the statement that updates `target[r]` with `total` where more follows
    last     the same where nothing follows
    """

    monoid: Monoid
    dtype: DType
    step: str
    inner: str
    last: str


def find_text(name: str, dtype: DType) -> str:
    """The function that finds a segment; `value` is in one, or gets any."""
    t = dtype.c_name
    return f"""\
// The r with starts[r] <= value < starts[r + 1], of `segments`.
__device__ __forceinline__ int {name}(const {t}* starts, int segments, long long value) {{
    int low = 0;
    int high = segments;
    while (high - low > 1) {{
        const int middle = low + (high - low) / 2;
        if (starts[middle] <= value) {{
            low = middle;
        }} else {{
            high = middle;
        }}
    }}
    return low;
}}
"""


def runs_text(name: str, find: str, update: Update, starts: DType, number: int) -> str:
    """The function that updates memory with a run of contributions."""
    t = update.dtype.c_name
    return f"""\
// {update.monoid.name} of value[i] into target[r] for each i, where starts[r] <= first + i < starts[r + 1].
// What goes to one r is combined before; from starts[segments] on nothing goes anywhere.
__device__ __forceinline__ void {name}(
    const {t} (&value)[{number}], const {starts.c_name}* starts, int segments, long long first, {t}* target
) {{
    const long long left = starts[segments] - first;
    if (left <= 0) {{
        return;
    }}
    int r = {find}(starts, segments, first);
    long long end = starts[r + 1] - first;
    {t} total = value[0];
    #pragma unroll
    for (int i = 1; i < {number}; ++i) {{
        if (i < left) {{
            if (i >= end) {{
                {update.inner}
                total = {literal(update.monoid.identity(update.dtype), update.dtype)};
                do {{
                    ++r;
                    end = starts[r + 1] - first;
                }} while (i >= end);
            }}
            total = {update.step};
        }}
    }}
    {update.last}
}}
"""
