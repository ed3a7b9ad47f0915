"""Requests to L2 for a line that is read later, in CUDA: there is no function for it."""

from __future__ import annotations

from evolve.codegen.hinted import CONDITION

PREFETCH = f"""\
// Asks L2 for the line of an element.
#if {CONDITION}
#define prefetch_l2(address) \\
    asm volatile("prefetch.global.L2 [%0];" :: "l"(__cvta_generic_to_global(address)))
#else
#define prefetch_l2(address) ((void)*(const volatile char*)(address))
#endif
"""
