"""Random programs that the prover accepts: their text must run clean and agree with the reference."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise
from evolve.dsl.parser import parse_statement
from evolve.frontend.lift import Lifted, lift
from evolve.ir.expr import conjunction
from evolve.ir.kernel import Module, Variant
from evolve.ir.launches import launches
from evolve.legality.barriers import place
from evolve.legality.prove import prove
from evolve.toolchain.nvrtc import compile_cuda
from evolve.transforms import moves
from evolve.transforms.apply import apply
from evolve.transforms.names import NameTable
from tests.codegen.test_pipeline import KERNELS, check

PREFERRED = ("bind", "vectorize", "block_", "warp_", "unroll", "specialize", "stage", "shift")


SIZES = [
    {"rows": 5, "cols": 33},
    *({"rows": r, "cols": c} for r, c in itertools.product((32, 64, 128), repeat=2)),
]
DRAWS = 30
LIMITS = moves.MoveLimits(numbers={"specialize.condition.equals": (32, 64, 128)})


def draw(lifted: Lifted, rng: random.Random) -> Rendered | None:
    """A random program's code; None when it is not proved or cannot be rendered."""
    kernel, names = lifted.kernel, NameTable()
    for _ in range(rng.randint(4, 12)):
        legal = moves.legal_moves(kernel, names, LIMITS)
        good = [m for m in legal if m.startswith(PREFERRED)]
        if not legal:
            break
        statement = rng.choice(good if good and rng.random() < 0.6 else legal)
        kernel, names = apply(kernel, parse_statement(statement), names)
    target = place(kernel)
    if prove(lifted.kernel, target).status.name != "PROVED":
        return None
    k = lifted.kernel
    variants = (Variant(conjunction(lifted.no_wrap), launches(target)),)
    try:
        return render(Module(variants, lifted.original, k.params, k.buffers, k.scalars))
    except CodegenError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("file", ["softmax", "transpose", "row_sum", "column_sum", "stencil"])
@pytest.mark.parametrize("seed", range(4))
def test_proved_programs_run_clean(file: str, seed: int, cache: Path) -> None:
    rng = random.Random(f"{file} {seed}")
    lifted = lift(KERNELS / f"{file}.cu")
    for _ in range(DRAWS):
        rendered = draw(lifted, rng)
        reached = [s for s in SIZES if rendered is not None and concretise(rendered, s)[0] == 0][:2]
        if rendered is not None and reached:
            break
    else:
        pytest.fail(f"none of {DRAWS} random programs was proved, rendered and reached by a size")
    done = compile_cuda(rendered.text)
    assert done.ok, done.log
    for scalars in reached:
        check(lifted, rendered, dict(scalars), 0, cache)
