"""The docstrings of the packages with most modules map them: none is left out."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

PACKAGES = ["ir", "transforms", "legality", "codegen", "validation", "agents.expert"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_left_out_of_the_map(package: str) -> None:
    found = import_module(f"evolve.{package}")
    names = [module.name for module in pkgutil.iter_modules(found.__path__)]
    assert len(names) > 10
    assert [name for name in names if f"`{name}`" not in (found.__doc__ or "")] == []
