"""Blocks, dominators and natural loops of one kernel's instructions.

A loop is a set of blocks with one entry (its header) to which control returns along a back edge: an edge
whose target dominates its source (Aho, Lam, Sethi, Ullman, Compilers, section 9.6). A cycle with several
entries, which NVIDIA's compiler does not make from structured source, is no natural loop and stays unmarked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolve.toolchain.instructions import Instruction, Mix


@dataclass(frozen=True)
class Block:
    """Instructions `first` to `last` (indices, both included) that run together, and who may come next.

    `loop` is the index of the innermost loop around it, None outside of loops. `cold` says that it is reached
    only through a call or a divergence hand-off: the slow path of a division, say.
    """

    first: int
    last: int
    successors: tuple[int, ...]
    loop: int | None
    cold: bool


@dataclass(frozen=True)
class Loop:
    """A natural loop. `start` is its header's address, `end` the address behind its last instruction.

    `depth` is 1 for an outermost loop; `parent` is the index of the loop around it; `blocks` are all its
    blocks, inner loops' too; `mix` counts its own instructions once, without those of inner loops.
    """

    start: int
    end: int
    depth: int
    parent: int | None
    blocks: tuple[int, ...]
    mix: Mix


def find_blocks(code: Sequence[Instruction]) -> tuple[tuple[Block, ...], tuple[Loop, ...]]:
    """The reachable blocks of `code` in address order, and its loops as they stand in the code, an
    outer one before those inside it.

    Padding behind the last exit is not reachable and so in no block. A jump through a register (a
    switch's table) counts as going to every block that nothing else leads to.
    """
    if not code:
        return (), ()
    spans = _spans(code)
    starts = {code[first].address: index for index, (first, _) in enumerate(spans)}
    edges, cold_edges = _edges(code, spans, starts)
    hot = _reach(edges, [0])
    everything = _reach([e + c for e, c in zip(edges, cold_edges, strict=True)], [0])
    kept = sorted(everything)
    number = {old: new for new, old in enumerate(kept)}
    nexts = [tuple(number[s] for s in edges[old] if s in number) for old in kept]
    roots = [0, *sorted({number[t] for old in kept for t in cold_edges[old] if t in number})]
    # Out of a hand-off control comes back behind it, which makes no other entry of the loop around it.
    cold = [old not in hot for old in kept]
    within = [tuple(n for n in s if cold[n] or not cold[b]) for b, s in enumerate(nexts)]
    bodies = _loop_bodies(within, roots)
    inside = _nesting(bodies)
    # Block numbers follow addresses, so paths of headers sort as the loops stand in the code.
    order = sorted(bodies, key=lambda header: inside[header])
    index_of = {header: index for index, header in enumerate(order)}
    blocks = tuple(
        Block(*spans[old], nexts[new], index_of[inside[new][-1]] if new in inside else None, old not in hot)
        for new, old in enumerate(kept)
    )
    return blocks, tuple(_loop(bodies[header], inside[header], index_of, blocks, code) for header in order)


def _nesting(bodies: dict[int, set[int]]) -> dict[int, tuple[int, ...]]:
    """For each block in a loop, the headers of the loops around it, outermost first."""
    inside: dict[int, tuple[int, ...]] = {}
    # Two natural loops with different headers are disjoint or nested, so a larger one is never the inner.
    for header in sorted(bodies, key=lambda header: -len(bodies[header])):
        path = (*inside.get(header, ()), header)
        for block in bodies[header]:
            inside[block] = path
    return inside


def _loop(
    body: set[int],
    path: tuple[int, ...],
    index_of: dict[int, int],
    blocks: Sequence[Block],
    code: Sequence[Instruction],
) -> Loop:
    own = [blocks[b] for b in sorted(body) if blocks[b].loop == index_of[path[-1]]]
    return Loop(
        start=code[blocks[path[-1]].first].address,
        end=_end(code, max(blocks[b].last for b in body)),
        depth=len(path),
        parent=index_of[path[-2]] if len(path) > 1 else None,
        blocks=tuple(sorted(body)),
        mix=Mix.of(i for block in own for i in code[block.first : block.last + 1]),
    )


def _end(code: Sequence[Instruction], last: int) -> int:
    step = code[1].address - code[0].address if len(code) > 1 else 16
    return code[last].address + step


def _spans(code: Sequence[Instruction]) -> list[tuple[int, int]]:
    index_of = {instruction.address: index for index, instruction in enumerate(code)}
    leaders = {0}
    for index, instruction in enumerate(code):
        if instruction.ends_block:
            leaders.add(index + 1)
        if instruction.target is not None and instruction.target in index_of:
            leaders.add(index_of[instruction.target])
    bounds = sorted(leader for leader in leaders if leader < len(code))
    return list(zip(bounds, [b - 1 for b in bounds[1:]] + [len(code) - 1], strict=True))


def _edges(
    code: Sequence[Instruction], spans: Sequence[tuple[int, int]], starts: dict[int, int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Per block: where control normally goes, and where only calls and divergence hand-offs go."""
    normal: list[list[int]] = []
    cold: list[list[int]] = []
    jumps: list[int] = []
    for index, (_, last) in enumerate(spans):
        end = code[last]
        follows = [index + 1] if index + 1 < len(spans) else []
        target = [starts[end.target]] if end.target is not None and end.target in starts else []
        if not end.ends_block:
            normal.append(follows)
            cold.append([])
        elif end.is_call or "DIV" in end.modifiers or "CONV" in end.modifiers:
            normal.append(follows)
            cold.append(target)
        elif end.is_indirect:
            jumps.append(index)
            normal.append(follows if end.is_conditional else [])
            cold.append([])
        else:
            normal.append(target + (follows if end.is_conditional else []))
            cold.append([])
    if jumps:
        led_to = {0, *(t for edges in (*normal, *cold) for t in edges)}
        table = [
            block
            for block, (first, last) in enumerate(spans)
            if block not in led_to and any(i.opcode != "NOP" for i in code[first : last + 1])
        ]
        for jump in jumps:
            normal[jump] = [*normal[jump], *table]
    return normal, cold


def _reach(edges: Sequence[Sequence[int]], roots: Sequence[int]) -> set[int]:
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting.extend(edges[block])
    return seen


def _loop_bodies(edges: Sequence[Sequence[int]], roots: Sequence[int]) -> dict[int, set[int]]:
    """Header to the blocks of its loop; back edges to one header make one loop."""
    dominators = _dominators(edges, roots)
    before: list[list[int]] = [[] for _ in edges]
    for block, successors in enumerate(edges):
        for successor in successors:
            before[successor].append(block)
    bodies: dict[int, set[int]] = {}
    for block, successors in enumerate(edges):
        for header in successors:
            if header in dominators[block]:
                body = bodies.setdefault(header, {header})
                waiting = [block]
                while waiting:
                    inside = waiting.pop()
                    if inside not in body:
                        body.add(inside)
                        waiting.extend(before[inside])
    return bodies


def _dominators(edges: Sequence[Sequence[int]], roots: Sequence[int]) -> list[set[int]]:
    """Per block the blocks on every way to it from a root (kernel entry or subroutine), itself included."""
    everything = set(range(len(edges)))
    before: list[list[int]] = [[] for _ in edges]
    for block, successors in enumerate(edges):
        for successor in successors:
            before[successor].append(block)
    found = [{block} if block in roots else set(everything) for block in range(len(edges))]
    changed = True
    while changed:
        changed = False
        for block in range(len(edges)):
            if block in roots:
                continue
            common = set.intersection(*(found[b] for b in before[block])) if before[block] else set()
            new = common | {block}
            if new != found[block]:
                found[block] = new
                changed = True
    return found
