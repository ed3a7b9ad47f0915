"""Next moves as a model is offered them: those that differ in their last argument on one line, not too many.

What is offered follows a rule. Lines that differ from a statement of the program in the last argument only
are left out: nothing is done twice. Until the kernel is launched on blocks of threads, only what leads there
is offered, `LAUNCHING`; from then on one line of each primitive that addresses a loss, in the order of the
gap report, then a second of each, and so on, up to so many lines, and the others likewise, in the order of
the language, as far as there is room up to half as many. Of a line's last arguments at most four are kept:
the first, the last and two between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evolve.dsl.parser import parse
from evolve.dsl.program import print_statement

LAUNCHING = ("bind", "block_reduce", "warp_reduce", "split", "tile")
"""The primitives that put loops on blocks and threads, and those that make the loops for it."""
MOST_LASTS = 4
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Family:
    """Moves that differ in their last argument: `split(c, 4)`, `split(c, 8)`."""

    primitive: str
    head: str
    lasts: tuple[str, ...]

    @property
    def moves(self) -> tuple[str, ...]:
        """Each as a statement."""
        return tuple(f"{self.head}{last})" for last in self.lasts)

    def __str__(self) -> str:
        return f"{self.head}{' | '.join(self.lasts)})"


def families(moves: Sequence[str]) -> tuple[Family, ...]:
    """The moves by families, in the order in which each first comes."""
    found: dict[str, list[str]] = {}
    for move in moves:
        at = _last_argument(move)
        found.setdefault(move[:at], []).append(move[at:-1])
    return tuple(Family(head.split("(", 1)[0], head, tuple(lasts)) for head, lasts in found.items())


def offered(
    moves: Sequence[str], program: str, addressed: Sequence[str], launched: bool, most: int
) -> tuple[Family, ...]:
    """Those that a model is offered after a program, by the rule, `most` lines at most.

    `addressed` are the primitives that the gap report names, `launched` says whether the program has blocks
    and threads.
    """
    lines = [print_statement(replace(s, targets=())) for s in parse(program).statements]
    said = {line[: _last_argument(line)] for line in lines}
    found = [family for family in families(moves) if family.head not in said]
    wanted = addressed if launched or not any(f.primitive in LAUNCHING for f in found) else LAUNCHING
    rank = {name: n for n, name in enumerate(dict.fromkeys(wanted))}
    first = _in_turns([f for f in found if f.primitive in rank], rank)[:most]
    others = _in_turns([f for f in found if f.primitive not in rank], {}) if wanted is addressed else []
    return tuple(map(_thinned, [*first, *others[: max(0, most // 2 - len(first))]]))


def _in_turns(found: Sequence[Family], rank: Mapping[str, int]) -> list[Family]:
    """One of each primitive, then the second of each."""
    turns: dict[str, int] = {}
    places = []
    for family in found:
        turns[family.primitive] = turns.get(family.primitive, -1) + 1
        places.append((turns[family.primitive], rank.get(family.primitive, 0)))
    order = sorted(range(len(found)), key=lambda n: places[n])
    return [found[n] for n in order]


def without(choices: Sequence[Family], move: str) -> tuple[Family, ...]:
    """The families without one of their moves."""
    left = (replace(f, lasts=tuple(last for last in f.lasts if f"{f.head}{last})" != move)) for f in choices)
    return tuple(family for family in left if family.lasts)


def _thinned(family: Family) -> Family:
    """With `MOST_LASTS` last arguments at most, evenly spread."""
    count = len(family.lasts)
    if count <= MOST_LASTS:
        return family
    kept = [n * (count - 1) // (MOST_LASTS - 1) for n in range(MOST_LASTS)]
    return replace(family, lasts=tuple(family.lasts[n] for n in kept))


def _last_argument(move: str) -> int:
    """Where the last argument of a call begins."""
    depth, at = 0, move.index("(") + 1
    for i, char in enumerate(move):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and depth == 1:
            at = i + 2
    return at
