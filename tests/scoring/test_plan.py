"""What a variant is executed on: every family at its smallest shape, and only shapes at which it runs."""

from __future__ import annotations

from pathlib import Path

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.scoring.correctness import variant_plan
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

ROOT = Path(__file__).parents[2]


def test_every_family_and_no_idle_shape() -> None:
    for name in ("softmax", "stencil", "transpose"):
        path = ROOT / "kernels" / f"{name}.cu"
        problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h100-sxm"))
        text = (ROOT / "kernels" / "programs" / f"{name}.dsl").read_text()
        rendered = render(problem.compile(problem.parse(text)).payload)
        plan = variant_plan(problem.task, rendered)
        first = plan[0][0]
        assert [f for s, f in plan if s == first] == list(problem.task.workload.families)
        assert len({tuple(s.items()) for s, _ in plan}) >= 3
        for sizes, _ in plan:
            variant, launches = concretise(rendered, sizes)
            assert variant == 0 and launches
