"""The rules by which `dsl_spec/` says what a parameter of a next move may be.

A rule reads values off a kernel, as texts of arguments: `loops` fit for something, `buffers` used somewhere,
`numbers` that fit an extent. It only leaves out what cannot be meant; the primitive's own preconditions
decide.
"""

from evolve.transforms.domains import buffers, loops, numbers
from evolve.transforms.domains.rule import RULES

__all__ = ["RULES", "buffers", "loops", "numbers"]
