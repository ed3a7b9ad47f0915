"""A CUDA GPU through PyCUDA, in a worker process that owns the context and can be killed."""
