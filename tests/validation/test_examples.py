"""The examples of every primitive and pattern: what is emitted of them is read back and proved."""

from __future__ import annotations

from evolve.codegen.errors import CodegenError
from evolve.codegen.module import render_kernel
from evolve.dsl.parser import parse
from evolve.dsl.registry import patterns, primitives
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.legality.barriers import place
from evolve.transforms.apply import apply_program
from evolve.validation.validate import validate_kernel
from tests.transforms import test_patterns
from tests.transforms.fixtures import KERNELS


def kernels(before: Kernel, program: str) -> tuple[Kernel, ...]:
    """What a program makes of a kernel, barriers placed: whether that is right is another question."""
    return launches(place(apply_program(before, parse(program)).kernel))


def test_every_example_that_is_emitted_is_proved() -> None:
    made = [(e.kernel, KERNELS[e.kernel](), e) for p in primitives().values() for e in p.examples]
    made += [
        (n, test_patterns.source(e.kernel).kernel, e) for n, p in patterns().items() for e in p.spec.examples
    ]
    verdicts = {}
    for name, before, example in made:
        for kernel in kernels(before, example.program) if example.refused is None else ():
            try:
                text, rendered = render_kernel(kernel)
            except CodegenError:  # more registers than a thread has
                continue
            verdicts[name, example.program, kernel] = validate_kernel(kernel, text, rendered)
    assert {x[:2]: str(v) for x, v in verdicts.items() if not v.proved} == {}
    assert len(verdicts) > 120
