"""Rendered kernels run by host execution, under all of its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute

Arrays = Mapping[str, np.ndarray]
Runner = Callable[..., dict[str, np.ndarray]]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host-programs")


@pytest.fixture(scope="session")
def run_rendered(cache: Path) -> Runner:
    """Runs the variant that the sizes select, in all thread orders, and expects no finding."""

    def run(
        rendered: Rendered,
        arrays: Arrays,
        scalars: Mapping[str, int | float],
        writable: set[str],
        *,
        variant: int = 0,
        inout: set[str] | None = None,
    ) -> dict[str, np.ndarray]:
        program = compile_host(rendered.text, list(rendered.signatures), cache)
        chosen, launches = concretise(rendered, scalars)
        assert chosen == variant
        options = ExecOptions(orders=("forward", "reversed", "permuted"), inout=frozenset(inout or ()))
        done = execute(program, launches, arrays, writable, options)
        assert done.findings == ()
        assert done.order_sensitive == ()
        for name in writable:
            assert done.written[name].all(), f"{name} is not written everywhere"
        return done.outputs

    return run
