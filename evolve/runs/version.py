"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """As `pyproject.toml` says; `0+uninstalled` from a source tree that nothing installed."""
    try:
        return version("evolve")
    except PackageNotFoundError:
        return "0+uninstalled"
