"""Which candidates are worth a measurement: the time model as a filter in front of the GPU.

Before a compiled candidate is measured its estimated time is known. `Prefilter` learns, from what this run
measured, how measured times relate to estimates, and skips a candidate only when even the most favourable of
these relations leaves it too slow to be of use. It is a fold over what a log holds (`Seen`, in the order of
proposals), so a resumed run decides as an uninterrupted one.

*Useful* is what is at most `Policy.useful` times as slow as the fastest so far, not only what may win: the
search also needs parents and occupied cells. Parents are drawn by rank, each half as likely as the one before
(`population.archive.select`), so what is more than twice as slow as the champion is bred from only where an
island holds next to nothing better. A stricter limit saves little more
(`benchmarks/results/prefilter-h200.json`).

*Optimistic*: the lowest ratio measured/estimated among the `Policy.neighbours` programs with the nearest
estimates. Were the ratios of neighbours exchangeable, one candidate in neighbours + 1 would be faster than
read so (the argument of conformal prediction: Vovk et al. 2005). Neighbours, because the model errs most on
programs that are slow anyway: their errors say little about the fast.

Of what would be skipped a random share is measured all the same, the audit: it corrects the ratios where
nothing else is measured, and tells what skipping cost.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import comb, exp, isfinite, log
from typing import Any, Literal

from evolve.population.rng import stream

Action = Literal["measure", "audit", "skip"]
"""`audit`: measure although it would be skipped."""

Reason = Literal["no_estimate", "few", "ranking", "tie", "useful", "slow"]
"""Why: no estimate; too few measured; the model ranked badly in this run; the model cannot tell it from
something useful; it may be useful; even read optimistically it is too slow (the only one for a skip)."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Policy:
    """When to skip; see the module's text.

    useful      a candidate is of use up to this multiple of the fastest measured time
    least       measured programs before anything is skipped
    neighbours  how many measured programs with near estimates give the optimistic ratio
    tie         times closer than this fraction are the same
    agreement   least rank correlation (`Prefilter.agreement`) at which anything is skipped
    window      how many measured programs back the correlation looks
    audit       share of the skips that is measured all the same
    """

    useful: float = 2.0
    least: int = 16
    neighbours: int = 32
    tie: float = 0.02
    agreement: float = 0.5
    window: int = 200
    audit: float = 0.125


@dataclass(frozen=True)
class Seen:
    """What the log says of a candidate that was decided on; `measured_us` None for a skipped one, and for one
    without a time (wrong, or set aside)."""

    proposal: int
    estimate_us: float | None
    measured_us: float | None
    action: Action = "measure"


@dataclass(frozen=True)
class Decision:
    """`optimistic_us` is the estimate read optimistically and `useful_us` what it was held against; None
    where it did not come to that."""

    action: Action
    reason: Reason
    optimistic_us: float | None = None
    useful_us: float | None = None

    @property
    def measures(self) -> bool:
        """Whether the candidate goes to the GPU."""
        return self.action != "skip"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, for the log."""
        return asdict(self)


@dataclass(frozen=True)
class Saved:
    """What filtering saved and what it cost.

    seen, measured, audited, skipped   candidates; the audited are among the measured
    useful          audited ones that were useful when they were measured: skipping them would have been wrong
    better          audited ones that beat all that the filter let through, by more than a tie
    regret          by how much, as a fraction, the best of these did: what the run would have lost without
                    the audit
    better_at_most  upper 95 % confidence bound (Clopper and Pearson 1934) on the share of the skipped that
                    would have; 1 when nothing was audited
    agreement       rank correlation of estimates and measured times, see `Prefilter.agreement`
    """

    seen: int
    measured: int
    audited: int
    skipped: int
    useful: int
    better: int
    regret: float
    better_at_most: float
    agreement: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return asdict(self)

    def text(self) -> str:
        """A sentence for people."""
        if not self.skipped:
            return f"the pre-filter skipped none of {self.seen} candidates"
        cost = f"{self.better} beat all others, by {self.regret:.1%}" if self.better else "none was better"
        return (
            f"the pre-filter saved {self.skipped} of {self.seen} measurements; of {self.audited} that it "
            f"would have skipped but audited {cost}, so of the skipped at most {self.better_at_most:.0%} "
            f"would have been ({CONFIDENCE:.0%} confidence)"
        )


@dataclass(frozen=True)
class _Timed:
    """A measured program: log of its estimate, log of measured over estimated, seconds in microseconds."""

    estimate: float
    ratio: float
    measured_us: float


class Prefilter:
    """Decides candidate by candidate; changes only through `observe`.

    `decide` depends on what was observed: to decide alike in a replay, ask it where the log fixes what that
    is, such as when a given earlier result is the last one folded in.
    """

    def __init__(self, seed: int, policy: Policy = Policy(), seen: Iterable[Seen] = ()) -> None:
        self.policy = policy
        self._seed = seed
        self._timed: list[_Timed] = []  # by estimate
        self._latest: deque[_Timed] = deque(maxlen=policy.window)
        self._pairs: deque[tuple[float, int]] = deque(maxlen=policy.window)
        self._actions: Counter[Action] = Counter()
        self._audited: list[float] = []
        self._best = self._best_let_through = float("inf")
        self._useful = self._measured = 0
        for one in seen:
            self.observe(one)

    def observe(self, seen: Seen) -> None:
        """Folds one candidate in."""
        self._actions[seen.action] += 1
        measured = seen.measured_us
        if measured is None or not _positive(measured):
            return
        self._measured += 1
        if seen.action == "audit":
            self._audited.append(measured)
            self._useful += measured <= self.policy.useful * self._best
        else:
            self._best_let_through = min(self._best_let_through, measured)
        self._best = min(self._best, measured)
        estimate = seen.estimate_us
        if estimate is None or not _positive(estimate):
            return
        new = _Timed(log(estimate), log(measured / estimate), measured)
        self._pairs.append(self._compared(new))
        self._latest.append(new)
        insort(self._timed, new, key=_estimate)

    def decide(self, proposal: int, estimate_us: float | None) -> Decision:
        """What to do with a candidate whose estimate is `estimate_us` (None where there is none)."""
        policy = self.policy
        if estimate_us is None or not _positive(estimate_us):
            return Decision("measure", "no_estimate")
        if len(self._timed) < policy.least:
            return Decision("measure", "few")
        agreement = self.agreement
        if agreement is None or agreement < policy.agreement:
            return Decision("measure", "ranking")
        at = log(estimate_us)
        optimistic = estimate_us * exp(min(one.ratio for one in self._near(at)))
        limit = policy.useful * self._best
        if optimistic <= limit:
            return Decision("measure", "useful", optimistic, limit)
        if optimistic <= limit * (1 + policy.tie) or self._like_useful(at, limit):
            return Decision("measure", "tie", optimistic, limit)
        drawn = stream(self._seed, "audit", proposal).random()
        return Decision("audit" if drawn < policy.audit else "skip", "slow", optimistic, limit)

    @property
    def agreement(self) -> float | None:
        """Kendall's rank correlation of estimates and measured times, over pairs that are no ties.

        1: every pair in the right order; -1: every pair reversed. A pair whose measured times tie says
        nothing, one whose estimates tie counts half right. None when no pair says anything.
        """
        told = sum(pairs for _, pairs in self._pairs)
        return sum(score for score, _ in self._pairs) / told if told else None

    def saved(self) -> Saved:
        """The balance so far."""
        tie = 1 + self.policy.tie
        better = sum(one * tie < self._best_let_through for one in self._audited)
        best = min(self._audited, default=float("inf"))
        return Saved(
            seen=sum(self._actions.values()),
            measured=self._measured,
            audited=len(self._audited),
            skipped=self._actions["skip"],
            useful=self._useful,
            better=better,
            regret=self._best_let_through / best - 1 if better else 0.0,
            better_at_most=share_at_most(better, len(self._audited)),
            agreement=self.agreement,
        )

    def _compared(self, new: _Timed) -> tuple[float, int]:
        """Over the latest that differ from `new`: right minus wrong orders, and how many these are."""
        tie = log(1 + self.policy.tie)
        score, told = 0.0, 0
        for old in self._latest:
            by = log(new.measured_us / old.measured_us)
            if abs(by) <= tie:
                continue
            told += 1
            guess = new.estimate - old.estimate
            if abs(guess) > tie:
                score += 1.0 if (guess > 0) == (by > 0) else -1.0
        return score, told

    def _near(self, at: float) -> list[_Timed]:
        """The measured programs whose estimates are nearest to `at`, a logarithm."""
        count = min(self.policy.neighbours, len(self._timed))
        low = high = bisect_left(self._timed, at, key=_estimate)
        while high - low < count:
            below = at - self._timed[low - 1].estimate if low > 0 else float("inf")
            above = self._timed[high].estimate - at if high < len(self._timed) else float("inf")
            if below <= above:
                low -= 1
            else:
                high += 1
        return self._timed[low:high]

    def _like_useful(self, at: float, limit: float) -> bool:
        """Whether something useful was measured whose estimate ties with `at`."""
        tie = log(1 + self.policy.tie)
        first = bisect_left(self._timed, at - tie, key=_estimate)
        for one in self._timed[first:]:
            if one.estimate > at + tie:
                return False
            if one.measured_us <= limit:
                return True
        return False


def share_at_most(found: int, of: int, confidence: float = CONFIDENCE) -> float:
    """The upper confidence bound on a share of which `found` in `of` random draws were seen: the share at
    which so few would be drawn with probability 1 - `confidence` (Clopper and Pearson 1934, one-sided)."""
    if found >= of:
        return 1.0
    low, high = found / of, 1.0
    for _ in range(60):
        share = (low + high) / 2
        few = sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(found + 1))
        low, high = (share, high) if few > 1 - confidence else (low, share)
    return high


def _estimate(one: _Timed) -> float:
    return one.estimate


def _positive(value: float) -> bool:
    return isfinite(value) and value > 0
