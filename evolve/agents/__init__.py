"""Agents: what offers transform programs to the search.

`base`      the protocol: a context in, proposals out
`holes`     programs with choices left to the tuner
`expert`    sketches for the shape of a kernel's loops; `llm` asks a model; `random` the control
`registry`  by name
"""
