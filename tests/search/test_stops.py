"""Stop rules, and the search as a whole at its edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evolve.agents.base import Context, Proposal
from evolve.events.log import read_log
from evolve.events.schema import Settings
from evolve.ir.errors import EvolveError
from evolve.runs.session import Session, start
from evolve.runs.summary import RunView, fold
from tests.runs.helpers import REQUEST
from tests.search.fake import FakeProblem


class Fixed:
    """Answers by ask number."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers
        self.contexts: list[Context] = []

    def propose(self, context: Context) -> Sequence[Proposal]:
        self.contexts.append(context)
        texts = self.answers[context.ask] if context.ask < len(self.answers) else self.answers[-1]
        return [Proposal(text) for text in texts]


def search(tmp_path: Path, agent: Any, problem: FakeProblem | None = None, **settings: Any) -> RunView:
    fields = {"budget": 20, "search": "best-of-n", **settings}
    session = Session(
        open_problem=lambda request: problem or FakeProblem(), make_agent=lambda settings, prompts: agent
    )
    folder = start(REQUEST, Settings(**fields), tmp_path / "run", session)
    return fold(read_log(folder.log).events)


def test_stops_at_the_speed_of_light(tmp_path: Path) -> None:
    best = "set(tile, 64)\nset(width, 4)\nset(stage, 2)\nset(warps, 8)\n"
    view = search(tmp_path, Fixed([best, "set(tile, 2)\n"]), FakeProblem(limit=0.985))
    assert view.ended == "speed_of_light"
    assert view.state.champion == 1
    assert view.state.scored == 2, "what was in work is not thrown away"


def test_an_agent_with_nothing_new_exhausts_the_search(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed(["set(tile, 2)\n"]))
    assert view.ended == "exhausted"
    assert view.state.funnel["proposed"] <= 201 + 7 and view.state.scored == 1


def test_an_agent_with_nothing_at_all_exhausts_the_search(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed([]))
    assert (view.ended, view.state.scored, view.state.asks) == ("exhausted", 0, 200)


def test_illegal_programs_cost_no_budget_but_have_their_own_cap(tmp_path: Path) -> None:
    class Illegal:
        def propose(self, context: Context) -> Sequence[Proposal]:
            return [Proposal(f"set(tile, 7)\nset(width, {context.ask})\n")]

    view = search(tmp_path, Illegal(), budget=6)
    assert view.ended == "exhausted"
    assert (view.state.scored, view.state.funnel["illegal"]) == (0, 20 * 6)


def test_stops_when_stale(tmp_path: Path) -> None:
    class Slow:
        def propose(self, context: Context) -> Sequence[Proposal]:
            return [Proposal(f"set(width, {5000 + context.ask})\n")]

    view = search(tmp_path, Slow(), budget=50, patience=10)
    assert view.ended == "stagnation"
    assert 10 <= view.state.scored < 10 + 8 + 1


def test_each_filling_of_holes_counts_one_and_the_budget_is_not_overspent(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed(["set(tile, ?[1, 2, 4, 8, 16])\nset(width, ?[1, 2, 4])\n"], []), budget=6)
    assert (view.ended, view.state.scored, view.state.funnel["proposed"]) == ("budget", 6, 6)


def test_the_empty_program_and_respellings_are_duplicates(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed(["# nothing\n", "set(tile, 2)\n", "set(tile, 2)  # again\n"], []))
    results = view.state.results
    assert [(results[n].status, results[n].same_as) for n in (1, 2, 3)] == [
        ("duplicate", 0),
        ("scored", None),
        ("duplicate", 2),
    ]


def test_a_module_rendered_before_is_not_scored_again(tmp_path: Path) -> None:
    problem = FakeProblem()
    one, other = "set(tile, 2)\nset(width, 2)\n", "set(width, 2)\nset(tile, 2)\n"
    view = search(tmp_path, Fixed([one, other], []), problem)
    assert view.state.results[2].status == "duplicate" and view.state.results[2].same_as == 1
    assert view.state.results[2].verdict == "PROVED"
    assert problem.scores == 1


def test_the_context_tells_what_happened(tmp_path: Path) -> None:
    agent = Fixed(["set(tile, 7)\n", "set(tile, 32)\n", "what\n"], ["set(tile, 2)\n"], [])
    search(tmp_path, agent, look_ahead=1)
    context = agent.contexts[1]
    assert [one.status for one in context.recent] == ["illegal", "scored", "unparsable"]
    assert context.recent[0].diagnostics[0]["code"] == "E-RACE"
    assert context.best.proposal == 2 and context.best.gap["binding"] == "dram"
    assert context.baseline.program == "" and context.budget_left == 19
    assert context.legal_moves("set(tile, 2)\n")[0].startswith("set(width")


def test_ideas_spread_over_the_islands(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed([f"set(tile, {n})\n" for n in range(1, 10)], []), islands=3)
    islands = [view.state.proposals[n].island for n in range(1, 10)]
    assert sorted(islands) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(view.state.archive.members(island) for island in range(3))


def test_an_oversized_answer_is_cut_and_counts_as_unparsable(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed(["set(tile, 2)\n" * 100_000], []))
    assert view.state.results[1].status == "unparsable"
    assert len(view.state.proposals[1].program) < 100


def test_a_series_of_internal_errors_ends_the_run(tmp_path: Path) -> None:
    class Crashing:
        def propose(self, context: Context) -> Sequence[Proposal]:
            return [Proposal(f"set(tile, 23)\nset(width, {context.ask})\n")]

    with pytest.raises(EvolveError) as caught:
        search(tmp_path, Crashing())
    assert caught.value.code == "internal-faults" and "a bug of ours" in caught.value.message
    view = fold(read_log(tmp_path / "run" / "events.jsonl").events)
    assert view.ended == "error: internal-faults"


def test_evolving_beats_drawing_at_the_same_budget(tmp_path: Path) -> None:
    from evolve.agents.random import RandomAgent

    def mean(how: str) -> float:
        total = 0.0
        for seed in range(8):
            folder = tmp_path / f"{how}{seed}"
            folder.mkdir()
            view = search(folder, RandomAgent(), budget=25, seed=seed, search=how, patience=99)
            total += view.state.best_fitness
        return total / 8

    assert mean("evolve") > mean("best-of-n")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("code", ["cannot-render", "sim.launch", "no-cuda"])
def test_an_error_about_a_program_costs_the_program_one_about_the_machine_pauses_the_run(
    tmp_path: Path, workers: int, code: str
) -> None:
    class Refusing(FakeProblem):
        def score(self, compiled):  # type: ignore[no-untyped-def]
            if dict(compiled.payload.settings)["tile"] == 3:
                raise EvolveError(code, "no", file="x.cu", line=3)
            return super().score(compiled)

    agent = Fixed(["set(tile, 2)\n", "set(tile, 3)\n", "set(tile, 4)\n"], [])
    session = Session(lambda request: Refusing(), lambda settings, prompts: agent, workers=workers)
    settings = Settings(budget=20, search="best-of-n")
    if code == "no-cuda":
        with pytest.raises(EvolveError) as caught:
            start(REQUEST, settings, tmp_path / "run", session)
        assert (caught.value.code, caught.value.file, caught.value.line) == (code, "x.cu", 3)
    else:
        start(REQUEST, settings, tmp_path / "run", session)
    view = fold(read_log(tmp_path / "run" / "events.jsonl").events)
    statuses = [result.status for result in view.state.results.values()]
    if code == "no-cuda":
        assert (view.ended, statuses) == ("error: no-cuda", ["scored"])
    else:
        refused = "compile_failed" if code == "cannot-render" else "quarantined"
        assert statuses == ["scored", refused, "scored"]
        assert code in view.state.results[2].message
