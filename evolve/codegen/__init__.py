"""Module to CUDA text, and to the float64 reference."""
