"""What this thread has found out before, by content: isl objects are alike if they are the same sets."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")
_state = threading.local()


def remembered(kind: str, key: object, keep: int, ask: Callable[[], T]) -> T:
    """The answer to a question of this kind, which `key` says all of. The `keep` last ones are remembered;
    what raises an error is asked again."""
    memo: OrderedDict[object, object] | None = getattr(_state, kind, None)
    if memo is None:
        memo = OrderedDict()
        setattr(_state, kind, memo)
    if key in memo:
        memo.move_to_end(key)
        return cast(T, memo[key])
    answer = ask()
    memo[key] = answer
    if len(memo) > keep:
        memo.popitem(last=False)
    return answer


def forget() -> None:
    """Drops all of it: for tests and timings."""
    _state.__dict__.clear()
