"""Agents: what offers transform programs to the search.

`base`      the protocol: a context in, proposals out
`holes`     programs with choices left to the tuner
`expert`    sketches for the shape of a kernel's loops; `llm` asks a model, `human` a person; `random` the
            control
`portfolio` several of them in a run
`registry`  by name
"""
