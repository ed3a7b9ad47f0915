"""A module in, an outcome out: compiled, executed under checks, compared, timed, scored.

`task`         what is being optimised, on what, against which speed of light
`references`   float64 results with tolerances, computed once
`correctness`  execution of every variant under checks
`fitness`      times to a score, and the physics floor
`estimated`    scoring without a GPU; `measured` with one
"""
