"""The transform language: grammar, programs, diagnostics and the primitive registry."""
