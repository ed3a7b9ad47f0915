"""Where candidates run: `sim` executes emitted CUDA text on the CPU, `cuda` on a GPU."""
