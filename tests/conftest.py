"""Settings of the whole test suite."""

from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("evolve", deadline=None)
settings.load_profile("evolve")
