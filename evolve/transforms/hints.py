"""cache_hint: how long the caches should keep what an array has."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.types import Cache, Priority
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import touched


@transform("cache_hint")
def cache_hint(call: Call) -> Result:
    """See dsl_spec/cache_hint.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    policy, l2 = Cache(call.word("policy")), Priority(call.word("l2"))
    if buffer not in kernel.buffers:
        raise RefusedError("E-CACHE-SPACE", f"{buffer.name} is no array of the kernel's parameters")
    if policy is Cache.READ_ONLY and buffer.name in touched(kernel.body)[1]:
        raise RefusedError(
            "E-CACHE", f"the kernel writes {buffer.name}", repair=f"cache_hint({buffer.name}, streaming)"
        )
    hinted = replace(buffer, cache=policy, l2=l2)
    if buffer == hinted:
        raise RefusedError("E-NO-CHANGE", f"that is what {buffer.name} has already")
    return replace(kernel, buffers=tuple(hinted if b == buffer else b for b in kernel.buffers)), call.names
