"""A program in, a proved module out, or the reason why not."""

from evolve.compiler.compile import Compiled, compile_program, finish

__all__ = ["Compiled", "compile_program", "finish"]
