"""evolve: a CUDA kernel in, a faster one that provably computes the same thing out."""
