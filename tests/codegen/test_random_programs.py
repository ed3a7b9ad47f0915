"""Random programs that the prover accepts: their text must run clean and agree with the reference."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.dsl.parser import parse_statement
from evolve.frontend.lift import lift
from evolve.ir.expr import conjunction
from evolve.ir.kernel import Module, Variant
from evolve.legality.barriers import place
from evolve.legality.prove import prove
from evolve.toolchain.nvrtc import compile_cuda
from evolve.transforms import moves
from evolve.transforms.apply import apply
from evolve.transforms.names import NameTable
from tests.codegen.test_pipeline import KERNELS, check

PREFERRED = ("bind", "vectorize", "block_", "warp_", "unroll", "specialize", "stage")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["softmax", "transpose", "row_sum", "column_sum", "stencil"])
@pytest.mark.parametrize("seed", range(4))
def test_proved_programs_run_clean(
    file: str, seed: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "FIXED_SIZES", (32, 64, 128))
    rng = random.Random(f"{file} {seed}")
    lifted = lift(KERNELS / f"{file}.cu")
    kernel, names = lifted.kernel, NameTable()
    for _ in range(rng.randint(4, 12)):
        legal = moves.legal_moves(kernel, names)
        good = [m for m in legal if m.startswith(PREFERRED)]
        if not legal:
            break
        statement = rng.choice(good if good and rng.random() < 0.6 else legal)
        kernel, names = apply(kernel, parse_statement(statement), names)
    target = place(kernel)
    if prove(lifted.kernel, target).status.name != "PROVED":
        pytest.skip("not proved, so never rendered")
    k = lifted.kernel
    variants = (Variant(conjunction(lifted.no_wrap), (target,)),)
    try:
        rendered = render(Module(variants, lifted.original, k.params, k.buffers, k.scalars))
    except CodegenError as e:
        pytest.skip(e.message)
    done = compile_cuda(rendered.text)
    assert done.ok, done.log
    sizes = [{"rows": 5, "cols": 33}]
    sizes += [{"rows": r, "cols": c} for r, c in itertools.product((32, 64, 128), repeat=2)]
    reached = [s for s in sizes if concretise(rendered, s)[0] == 0][:2]
    for scalars in reached:
        check(lifted, rendered, dict(scalars), 0, cache)
