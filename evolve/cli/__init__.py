"""The commands, one module each, and nothing else.

Heavy imports are inside the functions: `evolve --help` must be instant.

`main`       dispatch, errors to exit statuses
`options`    options that mean the same everywhere; `inputs` reads what they name
`output`     a text for a person or exactly one JSON document
`searching`  what `run` and `resume` share; `interrupts` Ctrl-C
"""
