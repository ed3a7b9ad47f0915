"""Agents: what offers transform programs to the search."""
