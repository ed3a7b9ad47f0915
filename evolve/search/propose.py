"""Where the next programs come from: the agent, or mutation and crossover of what the archive holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from evolve.agents.base import Agent, Context, Desk, Parent, Proposal
from evolve.events.schema import Asked, Idea, Settings
from evolve.ir.errors import EvolveError
from evolve.population.archive import Elite, select
from evolve.population.rng import stream
from evolve.search.bench import bench_for
from evolve.search.problem import ProblemInfo
from evolve.search.state import SearchState
from evolve.search.variation import Workshop, canonical, cross, mutate

MAX_PROGRAM_BYTES = 64 * 1024
MAX_NOTE_CHARS = 4000
_AGENT_SHARE = 0.4
_MUTATE_SHARE = 0.7
"""Of what does not come from the agent; the rest is crossover."""

_CHILDREN = 2


def ask(
    state: SearchState,
    agent: Agent,
    info: ProblemInfo,
    moves: Callable[[str], Sequence[str]],
    desk: Desk | None = None,
) -> Asked:
    """Asks for programs. A pure function of the state, given an agent that is one.

    Each island's first ask goes to the agent; later ones draw among agent, mutation and crossover,
    and where the agent has nothing to add, the others step in. With `best-of-n`, the control arm, all
    go to the agent.
    """
    settings = state.settings
    assert settings is not None
    number = state.asks + 1
    island = (number - 1) % settings.islands
    rng = stream(settings.seed, "ask", number)
    parents = select(state.archive, island, _CHILDREN + 1, stream(settings.seed, "select", number))
    by_agent = settings.search == "best-of-n" or not parents or number <= settings.islands
    by_agent = by_agent or rng.random() < _AGENT_SHARE
    proposals: Sequence[Proposal] = ()
    if by_agent:
        proposals = agent.propose(_context(state, settings, info, moves, [e.proposal for e in parents], desk))
    if not proposals and settings.search == "evolve":
        tried = {canonical(one.program) for one in state.proposals.values()}
        proposals = _children(parents, Workshop(bench_for(info.kernel), moves, tried.__contains__), rng)
    known = state.results.keys() | {0}
    ideas = tuple(_idea(proposal, known) for proposal in proposals)
    return Asked(ask=number, island=island, by_agent=by_agent, ideas=ideas)


def _children(parents: Sequence[Elite], shop: Workshop, rng: Random) -> Sequence[Proposal]:
    """Two mutants, or two crosses of three parents; fewer where nothing new was found."""
    made: list[Proposal | None] = []
    if len(parents) > 1 and rng.random() >= _MUTATE_SHARE:
        made = [cross(left, right, shop, rng) for left, right in pairwise(parents)]
    if not any(made):
        made = [mutate(parent, shop, rng) for parent in parents[:_CHILDREN]]
    return list({child.text: child for child in made if child is not None}.values())


def _context(
    state: SearchState,
    settings: Settings,
    info: ProblemInfo,
    moves: Callable[[str], Sequence[str]],
    parents: Sequence[int],
    desk: Desk | None,
) -> Context:
    return Context(
        ask=state.agent_asks,
        kernel=info.kernel,
        target=info.target,
        summary=info.summary,
        features=info.features,
        workload=info.workload,
        sol={"time_us": info.sol.time_us, "hard_time_us": info.sol.hard_time_us, "bound": info.sol.bound},
        numerics=info.numerics,
        baseline=state.parent(0),
        best=state.parent(state.champion),
        parents=tuple[Parent, ...](state.parent(one) for one in parents),
        recent=tuple(state.recent),
        budget_left=max(0, settings.budget - state.scored),
        legal_moves=moves,
        rng=stream(settings.seed, "agent", state.agent_asks),
        alone=(settings.search == "best-of-n" or not parents) and not state.in_work,
        desk=desk,
        hypotheses=tuple(state.hypotheses),
    )


def _idea(proposal: Proposal, known: set[int]) -> Idea:
    """A proposal as recorded. An agent may be a model: its answer is cut to size, its parents checked."""
    text = proposal.text
    if len(text.encode("utf-8", "replace")) > MAX_PROGRAM_BYTES:
        text = f"# cut: the program was over {MAX_PROGRAM_BYTES} bytes\n?"
    text = text.encode("utf-8", "replace").decode()
    unknown = [one for one in proposal.parents if one not in known]
    if unknown:
        raise EvolveError("agent-fault", f"the agent named parents that do not exist: {unknown}")
    note, expected = _kept(proposal.note), _kept(proposal.expected)
    return Idea(
        program=text, operator=proposal.operator, parents=proposal.parents, note=note, expected=expected
    )


def _kept(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:MAX_NOTE_CHARS]
