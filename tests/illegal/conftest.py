from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled host programs of one test run."""
    return tmp_path_factory.mktemp("host-programs")
