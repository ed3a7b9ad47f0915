"""Where the next programs come from: the agent, or mutation and crossover of what the archive holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from evolve.agents.base import Agent, Attempt, Context, Desk, Parent, Proposal
from evolve.agents.portfolio.arms import Arm
from evolve.agents.portfolio.bandit import Rates, choose, failures, rests
from evolve.events.schema import Asked, Failed, Idea, Settings
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
Moves = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Plan:
    """The next ask. `arm` is None where operators are asked or all arms rest; `waits`: not yet. `rng` goes on
    where the plan ended."""

    number: int
    island: int
    parents: tuple[Elite, ...]
    by_agent: bool
    arm: Arm | None
    waits: bool
    rng: Random


def plan(state: SearchState, arms: Sequence[Arm]) -> Plan:
    """What is asked next: a pure function of the state.

    Each island's first ask goes to an agent; later ones draw among agent, mutation and crossover. With
    `best-of-n`, the control arm, all go to agents. Among several arms `portfolio.bandit` draws.
    """
    settings = state.settings
    assert settings is not None
    number = state.asks + 1
    island = (number - 1) % settings.islands
    rng = stream(settings.seed, "ask", number)
    parents = select(state.archive, island, _CHILDREN + 1, stream(settings.seed, "select", number))
    by_agent = settings.search == "best-of-n" or not parents or number <= settings.islands
    by_agent = by_agent or rng.random() < _AGENT_SHARE
    arm, waits = _arm(state, settings, arms) if by_agent else (None, False)
    return Plan(number, island, parents, by_agent, arm, waits, rng)


def _arm(state: SearchState, settings: Settings, arms: Sequence[Arm]) -> tuple[Arm | None, bool]:
    """Whom to ask, None if all rest; and whether that has to wait, where all it may have open is."""
    pulls = tuple(state.pulls.values())
    left = {pull.arm for pull in pulls if pull.failed == "left"}
    ready = [
        arm.name for arm in arms if arm.name not in left and not rests(arm.name, pulls, state.agent_asks)
    ]
    if not ready:
        return None, False
    name = choose(ready, pulls, Rates.of(settings), stream(settings.seed, "arm", state.asks + 1))
    arm = next(arm for arm in arms if arm.name == name)
    if not arm.at_once:
        return arm, False
    # Whoever failed is tried with one ask.
    most = min(arm.at_once, 1 if failures(name, pulls) else arm.at_once)
    opened = sum(one.arm == name for one in state.open.values())
    # Each answer brings a program at least: no more are asked for than the budget has left.
    enough = len(state.open) >= settings.budget - state.scored - state.unknown
    return arm, opened >= most or enough or (arm.informed and state.in_work)


def ask_now(
    planned: Plan, state: SearchState, agent: Agent | None, info: ProblemInfo, moves: Moves, desk: Desk
) -> Asked:
    """Asks an agent that answers at once, or operators; where the agent has nothing to add, they step in.

    A pure function of the state, given an agent that is one.
    """
    settings = state.settings
    assert settings is not None
    proposals: Sequence[Proposal] = ()
    failed: Failed = ""
    if agent is not None:
        proposals = agent.propose(context_of(planned, state, info, moves, desk))
    if planned.by_agent and not proposals:
        failed = "resting" if agent is None else "nothing"
    if not proposals and settings.search == "evolve":
        tried = {canonical(one.program) for one in state.proposals.values()}
        shop = Workshop(bench_for(info.kernel), moves, tried.__contains__)
        proposals = _children(planned.parents, shop, planned.rng)
    return Asked(
        ask=planned.number,
        island=planned.island,
        by_agent=planned.by_agent,
        ideas=ideas_of(proposals, state),
        arm=planned.arm.name if planned.arm else "",
        failed=failed,
    )


def ideas_of(proposals: Sequence[Proposal], state: SearchState) -> tuple[Idea, ...]:
    """Proposals as recorded. Raises EvolveError `agent-fault`."""
    known = state.results.keys() | {0}
    return tuple(_idea(proposal, known) for proposal in proposals)


def _children(parents: Sequence[Elite], shop: Workshop, rng: Random) -> Sequence[Proposal]:
    """Two mutants, or two crosses of three parents; fewer where nothing new was found."""
    made: list[Proposal | None] = []
    if len(parents) > 1 and rng.random() >= _MUTATE_SHARE:
        made = [cross(left, right, shop, rng) for left, right in pairwise(parents)]
    if not any(made):
        made = [mutate(parent, shop, rng) for parent in parents[:_CHILDREN]]
    return list({child.text: child for child in made if child is not None}.values())


def context_of(
    planned: Plan, state: SearchState, info: ProblemInfo, moves: Moves, desk: Desk | None
) -> Context:
    """What an agent is shown: the state as it is now."""
    settings = state.settings
    assert settings is not None and planned.arm is not None
    return Context(
        ask=sum(pull.arm == planned.arm.name for pull in state.pulls.values()),
        kernel=info.kernel,
        target=info.target,
        summary=info.summary,
        features=info.features,
        workload=info.workload,
        sol={"time_us": info.sol.time_us, "hard_time_us": info.sol.hard_time_us, "bound": info.sol.bound},
        numerics=info.numerics,
        baseline=state.parent(0),
        best=state.parent(state.champion),
        parents=tuple[Parent, ...](state.parent(one.proposal) for one in planned.parents),
        recent=tuple(state.recent),
        budget_left=max(0, settings.budget - state.scored),
        legal_moves=moves,
        rng=stream(settings.seed, "agent", state.agent_asks),
        desk=desk,
        hypotheses=tuple(state.hypotheses),
        waiting=waiting(state),
        beside=sum(one.arm == planned.arm.name for one in state.open.values()),
    )


def waiting(state: SearchState) -> tuple[Attempt, ...]:
    """What was offered with an expected effect and has no result yet; of a program with holes one filling."""
    in_work = [one for number, one in state.proposals.items() if number not in state.results]
    offered = {one.template or one.proposal: one for one in reversed(in_work)}
    found = [
        Attempt(
            one.proposal, one.program, "", 0.0, note=one.note, expected=one.expected, template=one.template
        )
        for one in reversed(offered.values())
    ]
    found += [
        Attempt(0, idea.program, "", 0.0, note=idea.note, expected=idea.expected) for *_, idea in state.queue
    ]
    return tuple(one for one in found if one.expected)


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
