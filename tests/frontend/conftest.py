"""Lifting a kernel from text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted, lift


@pytest.fixture
def lift_text(tmp_path: Path) -> Callable[..., Lifted]:
    def go(text: str, entry: str | None = None) -> Lifted:
        path = tmp_path / "kernel.cu"
        path.write_text(text)
        return lift(path, entry)

    return go


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")
