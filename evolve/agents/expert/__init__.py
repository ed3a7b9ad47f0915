"""The built-in expert: sketches of known schedules for the shape of a kernel's loops, with holes.

`shape` reads the loops; `counts`, `sparse`, `totals`, `maps`, `windows`, `kept`, `stencils`, `rows`,
`columns`, `scans`, `tiles` and `products` each know one family of nests and offer programs when the kernel
has that shape; `fixed` gives sizes their values where the prover needs numbers; `agent` puts them in order.
"""

from evolve.agents.expert.agent import Expert

__all__ = ["Expert"]
