"""A module in, an outcome out: compiled, executed under checks, compared, timed, scored.

`task`           what is being optimised, on what, against which speed of light
`references`     float64 results with tolerances, computed once
`correctness`    execution of every variant under checks
`fitness`        times to a score, and the physics floor
`model`          the time model on a module: estimates, and what a measured time consists of
`estimated`      scoring without a GPU
`measured`       scoring with one, of these parts:
`built`          a module as text and machine code
`duel`           which of two is faster
`small_sizes`    many shapes and input families, compared on the device
`timed`          the timed sizes: resident inputs with what they must give
`timed_sizes`    a candidate's results there; `agreed` whether the driver sees the same kernels
`reference_gpu`  the float64 reference where it is too large for the host
`audit`          whether a timing is to be believed
`detail`         what a score says beside its time
`selftest`       whether a task can tell right from wrong at all
`final`          the end of a measured run, of these parts:
`held_out`       sizes that nothing was checked or timed at
`perturbed`      one input element changed
`profiled`       the GPU's counters for what a measured time consists of
"""
