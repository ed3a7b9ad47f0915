"""The device functions that find where in a nondecreasing array an entry belongs, and update memory there.

A search has as many steps as the number of segments has binary digits, each a load that the next one waits
for. Where all lanes of a warp search together they cut what is left in 33 parts a step, and the ends of the
segments that follow the first lane's are loaded at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolve.codegen.ctext import literal
from evolve.codegen.threads import lane_of
from evolve.ir.types import DType, Monoid
from evolve.target.limits import WARP

_ALL = "0xffffffffu"


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


def find_text(name: str, starts: DType) -> str:
    """The function that finds a segment; `value` is in one, or gets any."""
    t = starts.c_name
    return f"""\
// The r with starts[r] <= value < starts[r + 1], of `segments`.
__device__ __forceinline__ int {name}(const {t}* starts, int segments, {_whole(starts)} value) {{
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


def find_together_text(name: str, find: str, starts: DType) -> str:
    """The same for all lanes of a warp at once, fast where they are in order and near to one another."""
    t, whole = starts.c_name, _whole(starts)
    return f"""\
// The r with starts[r] <= value < starts[r + 1], of `segments`: lanes search for the first one's
// value, then look among the {WARP} segments from there on.
__device__ __forceinline__ int {name}(const {t}* starts, int segments, {whole} value) {{
    if (__activemask() != {_ALL}) {{
        return {find}(starts, segments, value);
    }}
    const int lane = {lane_of()};
    const {whole} least = __shfl_sync({_ALL}, value, 0);
    int low = 0;
    int high = segments;
    while (high - low > 1) {{
        const int step = (high - low + {WARP}) / {WARP + 1};
        const int at = min(low + (lane + 1) * step, high);
        const int below = __popc(__ballot_sync({_ALL}, at < high && starts[at] <= least));
        high = min(low + (below + 1) * step, high);
        low += below * step;
    }}
    const {whole} end = starts[min(low + 1 + lane, segments)];
    int r = 0;
    #pragma unroll
    for (int half = {WARP // 2}; half > 0; half /= 2) {{
        if (__shfl_sync({_ALL}, end, r + half - 1) <= value) {{
            r += half;
        }}
    }}
    const {whole} last = __shfl_sync({_ALL}, end, {WARP - 1});
    return value < least || last <= value ? {find}(starts, segments, value) : low + r;
}}
"""


def together_text(name: str, monoid: Monoid, dtype: DType, atomic: str, step: str) -> str:
    """The function that updates memory once for neighbouring lanes with one segment."""
    t = dtype.c_name
    return f"""\
// The {monoid.name} of target[r] and `total`: of lanes that follow one another with one r the first
// does it for all.
__device__ __forceinline__ void {name}({t}* target, int r, {t} total) {{
    if (__activemask() != {_ALL}) {{
        {atomic}(&target[r], total);
        return;
    }}
    const int lane = {lane_of()};
    const int before = __shfl_up_sync({_ALL}, r, 1);
    const bool apart = !__all_sync({_ALL}, lane == 0 || before <= r);
    #pragma unroll
    for (int distance = 1; distance < {WARP}; distance *= 2) {{
        const {t} other = __shfl_down_sync({_ALL}, total, distance);
        const int there = __shfl_down_sync({_ALL}, r, distance);
        if (!apart && lane + distance < {WARP} && there == r) {{
            total = {step};
        }}
    }}
    if (apart || lane == 0 || before != r) {{
        {atomic}(&target[r], total);
    }}
}}
"""


def runs_text(name: str, find: str, update: Update, starts: DType, number: int) -> str:
    """The function that updates memory with a run of contributions."""
    t, whole = update.dtype.c_name, _whole(starts)
    return f"""\
// {update.monoid.name} of value[i] into target[r] for each i, where
// starts[r] <= first + i < starts[r + 1]. What goes to one r is combined before; from
// starts[segments] on nothing goes anywhere.
__device__ __forceinline__ void {name}(
    const {t} (&value)[{number}], const {starts.c_name}* starts, int segments, long long first, {t}* target
) {{
    if (first >= starts[segments]) {{
        return;
    }}
    const {whole} from = ({whole})first;
    const {whole} left = starts[segments] - from;
    int r = {find}(starts, segments, from);
    {whole} end = starts[r + 1] - from;
    {whole} next = starts[min(r + 2, segments)] - from;
    {t} total = value[0];
    #pragma unroll
    for (int i = 1; i < {number}; ++i) {{
        if (i < left) {{
            if (i >= end) {{
                {update.inner}
                total = {literal(update.monoid.identity(update.dtype), update.dtype)};
                do {{
                    ++r;
                    end = next;
                    next = starts[min(r + 2, segments)] - from;
                }} while (i >= end);
            }}
            total = {update.step};
        }}
    }}
    {update.last}
}}
"""


def _whole(starts: DType) -> str:
    """The C type of entries' numbers, which elements of `starts` are compared with."""
    return "int" if starts is DType.I32 else "long long"
