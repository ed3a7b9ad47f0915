"""What code generation rewrites after the proof (sizes put in, tiles parted, guards moved) is proved too."""

from __future__ import annotations

import pytest

from evolve.codegen.prepare import prepare
from evolve.compiler.compile import finish
from evolve.legality.prove import prove
from tests.transforms.fixtures import KERNELS, applied
from tests.transforms.programs import KERNEL_OF, PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernel_that_is_emitted_is_proved(name: str) -> None:
    kernel = finish(applied(KERNEL_OF[name], PROGRAMS[name]).kernel)
    verdict = prove(KERNELS[KERNEL_OF[name]](), prepare(kernel))
    assert verdict.proved, verdict.diagnostics
