"""The page of `inspect`."""

from __future__ import annotations

from pathlib import Path

from evolve.events.schema import as_json
from evolve.report.inspected import inspected
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

KERNELS = Path(__file__).parents[2] / "kernels"


def page(name: str) -> str:
    path = KERNELS / f"{name}.cu"
    problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))
    return "\n".join(inspected(as_json(problem.inspect()), problem.info().summary))


def test_a_page_says_what_is_seen_once() -> None:
    text = page("softmax")
    lines = [line.strip() for line in text.splitlines()]
    assert text.startswith("kernel softmax(x, y, rows, cols)\n")
    assert "c_2  0..cols  serial    in row     8192 times  line 14" in lines
    assert (
        "x  in   f32[rows, cols]  268.4 MB read, each element 3 times, neighbouring threads far apart"
        in lines
    )
    assert "max into m over c" in lines and "timed at rows=8192, cols=8192" in lines
    assert "launched with grid ((rows + 255) // 256, 1, 1) and block (256, 1, 1)" in lines
    assert sum("arrays do not overlap" in line for line in lines) == 1
    assert any(line.endswith("bound by DRAM; no run below 98.7 us (data sheet, DRAM)") for line in lines)
    assert not any(raw in text for raw in ("this_input", "hard_terms", "None", "{", "time_s"))
    assert len(lines) < 60
