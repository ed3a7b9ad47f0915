"""Who is asked next: budgeted Thompson sampling of gain per cost, on discounted counts.

For each arm a the index

    Beta(1 + G, 1 + N - G) / C      G = sum of w g / s,  N = sum of w  over its asks,  C = their mean cost

is drawn, and the arm with the largest is asked (Xia, Li, Qin, Yu, Liu: Thompson sampling for budgeted
multi-armed bandits, IJCAI 2015, arXiv 1505.00146; the mean cost stands for a draw of it, since what an ask
costs hardly varies). The weight w = 0.95^(asks since) forgets, since gains grow rarer for everybody
(discounted Thompson sampling: Raj, Kalyani, arXiv 1707.09727); for the same reason gains are divided by
s, the largest w g of any arm, at least 0.01, so that the small steps at the end tell arms apart as well as
the large ones at the start (normalised rewards, as in adaptive operator selection: Fialho, Da Costa,
Schoenauer, Sebag, 2010).

- The gain g of an ask is the share that its programs closed of what was left to the speed of light:
  (f - f0) / (1 - f0), at least 0, f0 being the run's best fitness when it was asked, f the best fitness of
  its programs, fillings of their holes included. Fitness is T_attainable / T, so g is in [0, 1]. What
  mutation and crossover make of its programs later is nobody's.
- The cost of an ask is the number of programs that it brought into work plus what its tokens cost in
  programs: the larger of tokens / `tokens_a_program` and USD / `usd_a_program`. One ask costs at least 1.
  Where a run has a limit on tokens or USD, its budget divides that (the shadow price of a run that spends
  both alike); else the two constants below do. An arm's mean has the mean of all asks as one ask before.
- An arm that was never asked comes first, in order. One that failed three times in a row rests for one
  ask, after each further failure for twice as many, up to 64; after a failure that no waiting mends, for 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from evolve.events.schema import Failed, Settings

DISCOUNT = 0.95
LEAST_SCALE = 0.01
TOKENS_A_PROGRAM = 5000
USD_A_PROGRAM = 0.01
FAILURES = 3
"""In a row, after which an arm is left alone for a while."""
MOST_REST = 64
_FAULTS = ("fault", "for-good")


@dataclass
class Pull:
    """One ask of an arm and what came of it so far. `closed_at`: the asks made when it was answered, None as
    long as it is not; `judged`: how many of its programs have a result."""

    arm: str
    before: float
    closed_at: int | None = None
    best: float = 0.0
    failed: Failed = ""
    tokens: int = 0
    usd: float | None = None
    proposals: list[int] = field(default_factory=list)
    judged: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is anything to judge the arm by."""
        return self.closed_at is not None and bool(self.failed or self.judged)

    @property
    def gain(self) -> float:
        """The share of what was left that its programs closed."""
        left = 1.0 - self.before
        return min(1.0, max(0.0, (self.best - self.before) / left)) if left > 0 else 0.0


@dataclass(frozen=True)
class Rates:
    """What a program is worth."""

    tokens_a_program: float = TOKENS_A_PROGRAM
    usd_a_program: float = USD_A_PROGRAM

    @staticmethod
    def of(settings: Settings) -> Rates:
        """By the limits of a run, where it has some."""
        tokens, usd = settings.max_tokens, settings.max_usd
        return Rates(
            tokens / settings.budget if tokens else TOKENS_A_PROGRAM,
            usd / settings.budget if usd else USD_A_PROGRAM,
        )

    def cost(self, pull: Pull) -> float:
        """Of an ask, in programs."""
        paid = max(pull.tokens / self.tokens_a_program, (pull.usd or 0.0) / self.usd_a_program)
        return max(1.0, len(pull.proposals) + paid)


@dataclass(frozen=True)
class Standing:
    """What is known of an arm: asks answered, the discounted `gained` of `weight`, the mean `cost`."""

    asks: int
    gained: float
    weight: float
    cost: float

    @property
    def worth(self) -> float:
        """The mean of what is drawn: gain per cost, with one success and one failure before all else."""
        return (1.0 + self.gained) / (2.0 + self.weight) / self.cost

    def draw(self, rng: Random) -> float:
        """The index."""
        return rng.betavariate(1.0 + self.gained, 1.0 + max(0.0, self.weight - self.gained)) / self.cost


def standings(arms: Sequence[str], pulls: Sequence[Pull], rates: Rates) -> dict[str, Standing]:
    """What the asks so far, in order, say of each arm."""
    known = [pull for pull in pulls if pull.is_known]
    costs = [rates.cost(pull) for pull in known]
    usual = sum(costs) / len(costs) if costs else 1.0
    weighed = [(DISCOUNT**age, pull) for age, pull in enumerate(reversed(known))]
    scale = max((weight * pull.gain for weight, pull in weighed), default=0.0)
    scale = max(scale, LEAST_SCALE)
    found = {}
    for arm in arms:
        own = [(weight, pull) for weight, pull in weighed if pull.arm == arm]
        gained = sum(weight * min(1.0, pull.gain / scale) for weight, pull in own)
        cost = (usual + sum(rates.cost(pull) for _, pull in own)) / (1 + len(own))
        found[arm] = Standing(len(own), gained, sum(weight for weight, _ in own), cost)
    return found


def choose(arms: Sequence[str], pulls: Sequence[Pull], rates: Rates, rng: Random) -> str:
    """The arm to ask; one of `arms`, of which there is at least one."""
    if len(arms) == 1:
        return arms[0]
    asked = {pull.arm for pull in pulls}
    fresh = [arm for arm in arms if arm not in asked]
    if fresh:
        return fresh[0]
    drawn = {arm: standing.draw(rng) for arm, standing in standings(arms, pulls, rates).items()}
    return max(arms, key=drawn.__getitem__)


def failures(arm: str, pulls: Sequence[Pull]) -> int:
    """How often an arm has failed in a row; often enough to be of no use where it failed for good."""
    answered = sorted((p for p in pulls if p.arm == arm and p.closed_at is not None), key=_closed)
    count = 0
    for pull in reversed(answered):
        if pull.failed not in _FAULTS:
            break
        if pull.failed == "for-good":
            return max(count + 1, FAILURES)
        count += 1
    return count


def rests(arm: str, pulls: Sequence[Pull], asks: int) -> bool:
    """Whether an arm is left alone when that many asks have been made."""
    last = max((p for p in pulls if p.arm == arm and p.closed_at is not None), key=_closed, default=None)
    if last is None or last.failed not in _FAULTS:
        return False
    count = failures(arm, pulls)
    rest = 0 if count < FAILURES else min(MOST_REST, 1 << (count - FAILURES))
    return asks < _closed(last) + (MOST_REST if last.failed == "for-good" else rest)


def _closed(pull: Pull) -> int:
    return -1 if pull.closed_at is None else pull.closed_at
