"""Transforms: one statement of a program applied to a kernel, IR in and IR out."""
