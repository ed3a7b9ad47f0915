"""The old place of `evolve.ir.evaluate`."""

from evolve.ir.evaluate import Number, evaluate

__all__ = ["Number", "evaluate"]
