"""`sim`: device code run on the CPU, thread by thread.

`build` compiles CUDA text as host C++ whose memory accesses call hooks of ours; `execute` runs launches
under race, bounds, initialisation, alignment and barrier checks; `tracing` measures the memory traffic of
sampled blocks at real sizes; `plain` runs host C++ (the reference) without checks. `native/` holds the
device header and the runtime, `child` is the process that runs them, `conformance` accepts a compiler.
"""
