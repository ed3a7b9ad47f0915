"""The built-in expert: sketches of known schedules for the shape of a kernel's loops, with holes.

`shape` reads the loops; `counts`, `sparse`, `totals`, `maps`, `windows`, `kept`, `stencils`, `rows`,
`columns`, `scans`, `tiles`, `chains`, `online` and `products` (with `overlapped`) each know one family of
nests and offer programs when the kernel has that shape, `fallback` for all others; `fixed` gives sizes their
values where the prover needs numbers; `premises` says what each begins with; `agent` puts them in order, and
`variations` edits what scored. `sketch`, `text`, `facts` and `grids` are what sketches are made of.
"""

from evolve.agents.expert.agent import Expert

__all__ = ["Expert"]
