"""The control: random walks over the legal moves."""

from __future__ import annotations

from collections.abc import Sequence

from evolve.agents.base import Context, Proposal
from evolve.agents.holes import read_template

MAX_STATEMENTS = 12


class RandomAgent:
    """Appends statements drawn uniformly from the legal next moves, one program a call.

    The length is drawn uniformly from 1 to 12; a walk with no legal move left ends early. Holes in
    a move are filled uniformly.
    """

    def propose(self, context: Context) -> Sequence[Proposal]:
        """One program; none where not even one statement is legal."""
        rng = context.rng
        length = rng.randint(1, MAX_STATEMENTS)
        text = ""
        for _ in range(length):
            moves = context.legal_moves(text)
            if not moves:
                break
            template = read_template(moves[rng.randrange(len(moves))])
            filling = [rng.randrange(len(options)) for options in template.choices]
            text += template.fill(filling).rstrip("\n") + "\n"
        return [Proposal(text, operator="random")] if text else []
