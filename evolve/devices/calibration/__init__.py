"""Measures a GPU: the rates, latencies and overheads of its profile.

`benches`     the microbenchmarks as numbers; their CUDA text lies in `kernels/`
`attributes`  what the driver says of the GPU
`take`        compiles and runs them in a GPU worker: raw `samples`
`figures`     samples to figures, each judged against what the GPU could do at most
`documented`  what is known of an architecture from the profiles of GPUs that have it
`describe`    all of these to a hardware profile that says where each of its fields comes from

`benches`, `figures` and `describe` need no GPU.
"""
