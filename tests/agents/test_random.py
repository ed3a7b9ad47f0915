"""The random agent walks over legal moves only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from evolve.agents.base import Context, Parent
from evolve.agents.random import MAX_STATEMENTS, RandomAgent
from evolve.agents.registry import agent_names, make_agent
from evolve.events.schema import Settings
from evolve.ir.errors import EvolveError
from evolve.population.rng import stream


def context(moves: Callable[[str], Sequence[str]], ask: int = 0) -> Context:
    base = Parent(0, "", 0.1, 10.0)
    return Context(
        ask=ask,
        kernel=None,
        target=None,
        summary="",
        features={},
        workload={},
        sol={},
        numerics="reassociate",
        baseline=base,
        best=base,
        parents=(base,),
        recent=(),
        budget_left=10,
        legal_moves=moves,
        rng=stream(0, "agent", ask),
    )


def test_every_statement_is_a_legal_move_of_what_stands_before_it() -> None:
    def moves(text: str) -> list[str]:
        depth = text.count("\n")
        return [f"m{depth}a(?[1, 2])", f"m{depth}b()"] if depth < 5 else []

    seen = set()
    for ask in range(200):
        (proposal,) = RandomAgent().propose(context(moves, ask))
        lines = proposal.text.splitlines()
        assert 1 <= len(lines) <= 5
        assert all(
            line in (f"m{depth}a(1)", f"m{depth}a(2)", f"m{depth}b()") for depth, line in enumerate(lines)
        )
        seen.add(lines[0])
    assert seen == {"m0a(1)", "m0a(2)", "m0b()"}


def test_it_stops_at_its_limit_and_gives_nothing_without_moves() -> None:
    lengths = [
        len(RandomAgent().propose(context(lambda text: ["x()"], ask))[0].text.splitlines())
        for ask in range(300)
    ]
    assert (min(lengths), max(lengths)) == (1, MAX_STATEMENTS)
    assert RandomAgent().propose(context(lambda text: [])) == []


def test_registry() -> None:
    assert "random" in agent_names()
    assert isinstance(make_agent(Settings(budget=1, agent="random")), RandomAgent)
    with pytest.raises(EvolveError) as caught:
        make_agent(Settings(budget=1, agent="nobody"))
    assert caught.value.code == "unknown-agent" and "random" in (caught.value.hint or "")
