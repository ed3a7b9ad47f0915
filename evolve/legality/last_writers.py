"""Which writers reach a reader: isl's search, and what is done where it answers nothing.

isl's `compute_flow` gives each reader its last store and the updates since, or says that there is none. For
some readers it says neither, where no cell of a writer is theirs but for a reason that takes more than one
equation to see (`tests/legality/test_last_writers.py` has one). These are looked for again, by the latest of
all times before. Whether each reader is found at last asks who makes flows of them (`flow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import islpy as isl

from evolve.ir.poly import IslObject, context


def empty() -> IslObject:
    return isl.UnionMap.read_from_str(context(), "{ }")


def reaching(
    sink: IslObject, must: IslObject, may: IslObject, schedule: Sequence[IslObject]
) -> tuple[IslObject, IslObject]:
    """Readers to the writers whose values reach them, and to the cells that nobody stored into before.

    `sink` maps readers to cells, `must` and `may` stores and updates to cells, `schedule` all of these to
    times. Readers that isl gives no answer to are in neither.
    """
    when = reduce(lambda known, m: known.union(isl.UnionMap.from_map(m)), schedule, empty())
    info = isl.UnionAccessInfo.from_sink(sink)
    flow = info.set_must_source(must).set_may_source(may).set_schedule_map(when).compute_flow()
    found, none = flow.get_may_dependence().reverse(), flow.get_may_no_source()
    stored = found.intersect_range(must.domain()).domain()
    lost = sink.domain().subtract(stored).subtract(none.domain())
    if lost.is_empty():
        return found, none
    more, neither = _latest(sink.intersect_domain(lost), must, may, when)
    return found.union(more), none.union(neither)


def _latest(sink: IslObject, must: IslObject, may: IslObject, when: IslObject) -> tuple[IslObject, IslObject]:
    """The same by comparing times: the store at the latest time before, and the updates after it.

    Where there are stores before but isl names no latest, nothing is said: that is no cell as it was.
    """
    before = when.lex_gt_union_map(when)
    stores = sink.apply_range(must.reverse()).intersect(before)
    last = stores.apply_range(when).lexmax()
    base = stores.intersect(last.apply_range(when.reverse()))
    updates = sink.apply_range(may.reverse()).intersect(before)
    since = updates.subtract(last.lex_gt_union_map(when))
    return base.union(since), sink.subtract_domain(stores.domain())
