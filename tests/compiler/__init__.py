"""Tests of `evolve.compiler`."""
