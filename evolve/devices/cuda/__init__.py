"""A CUDA GPU through PyCUDA, in a worker process that owns the context and can be killed.

`messages`     what parent and worker say to each other
`client`       the parent's side: whose fault it was, and replacing a worker; `scratch` its large files
`environment`  how a worker is started, and what it does not inherit
`worker`       the process; `faults` what a driver's error means, `lock` one timed job at a time
`memory`       arrays between guard bands; digests, poison, comparisons on the device
`helpers`      our own kernels for that
`launching`    images and prepared launches; `image` what an image may not hold; `views` what the driver says
`timing`       L2 cold and clean, batches; `rules` stop rule and rotation; `nvml` clocks
`alone`        launches in a process of their own (`launch_once`) under a tool: `sanitizer`, `profiler`
`reference`    the float64 reference; `hidden` its results, without an address while a candidate runs
"""
