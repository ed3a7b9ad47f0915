"""The commands, nothing else. Heavy imports are inside the functions: `evolve --help` must be instant."""
