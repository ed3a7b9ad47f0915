"""Who writes an element of a buffer: the loops around its stores as functions of the subscripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import Linear, expression, linear, simplify
from evolve.ir.expr import Const, Expr, Var, floordiv, index, mod, mul, sub
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Leaf, Stmt
from evolve.ir.visit import Site, leaves, variables
from evolve.transforms.edit import all_sites, declared_in, less, touched
from evolve.transforms.once import once

NUMBERED = "each element must be written at one iteration of the loops around"


@dataclass(frozen=True)
class Digits:
    """One dimension of a subscript: `rest` plus loops that are digits of one number, the greatest first.

    Each digit is a loop's variable, its stride and its extent.
    """

    rest: Expr
    loops: tuple[tuple[str, int, Expr], ...]

    def at(self, cell: Expr) -> tuple[dict[str, Expr], tuple[Expr, ...]]:
        """The variables where the subscript is `cell`, and the conditions for there being that iteration."""
        value = sub(cell, self.rest)
        by: dict[str, Expr] = {}
        for position, (name, stride, extent) in enumerate(self.loops):
            digit = value if stride == 1 else floordiv(value, stride)
            by[name] = mod(digit, extent) if position else digit
        if not self.loops:
            return by, ()
        _, stride, extent = self.loops[0]
        return by, (less(index(-1), value), less(value, mul(extent, stride)))


@dataclass(frozen=True)
class Producer:
    """A statement of the block of a buffer's declaration that writes the buffer.

    `whole` is a block of it alone; `loops` are those that choose the element, each inside the one before and
    alone in it; `body` is what is in the last; `digits` are the dimensions of the subscript.
    """

    stmt: Stmt
    whole: Block
    loops: tuple[For, ...]
    body: Block
    digits: tuple[Digits, ...]

    def at(self, cell: tuple[Expr, ...]) -> tuple[Mapping[str, Expr], tuple[Expr, ...]]:
        """The loops' variables where `cell` is written, and the conditions for there being such a place."""
        by: dict[str, Expr] = {}
        conditions: tuple[Expr, ...] = ()
        for digits, c in zip(self.digits, cell, strict=True):
            more, when = digits.at(c)
            by |= more
            conditions += when
        return by, conditions


def declaration(kernel: Kernel, buffer: Buffer) -> tuple[Site, Block]:
    """Where a buffer of the kernel's own is declared, and the block that it is declared in.

    Raises RefusedError E-VISIBLE for an argument.
    """
    if buffer.name not in declared_in(kernel.body):
        raise RefusedError(
            "E-VISIBLE",
            f"{buffer.name} is an argument: what it holds is seen when the kernel has ended",
            repair="name an array that the kernel declares itself",
        )
    for site in all_sites(kernel):
        if isinstance(site.stmt, Alloc) and site.stmt.buffer.name == buffer.name:
            return site, _block_of(kernel, site)
    raise AssertionError(buffer.name)


def _block_of(kernel: Kernel, site: Site) -> Block:
    """The innermost block of statements that has the declaration."""
    if not site.path:
        return kernel.body
    last = site.path[-1]
    inside_else = isinstance(last, If) and site.in_else[-1]
    return last.orelse if isinstance(last, If) and inside_else else last.body


def producers(kernel: Kernel, buffer: Buffer) -> tuple[Producer, ...]:
    """What writes a buffer of the kernel's own, in the order of the text. Raises RefusedError E-PRODUCER."""
    return once(kernel, ("producers", buffer), lambda: _producers(kernel, buffer))


def _producers(kernel: Kernel, buffer: Buffer) -> tuple[Producer, ...]:
    site, block = declaration(kernel, buffer)
    found = tuple(_producer(kernel, buffer, site, s) for s in block.stmts if buffer.name in touched(s)[1])
    written = sum(leaf.buffer == buffer.name for leaf, _ in leaves(kernel.body))
    if not found or written != sum(_writes(p.whole, buffer.name) for p in found):
        raise RefusedError("E-PRODUCER", f"{buffer.name} is not written beside its declaration")
    return found


def _writes(block: Block, buffer: str) -> int:
    return sum(leaf.buffer == buffer for leaf, _ in leaves(block))


def _producer(kernel: Kernel, buffer: Buffer, site: Site, s: Stmt) -> Producer:
    whole = Block((s,))
    found = [(leaf, below) for leaf, below in leaves(whole) if leaf.buffer == buffer.name]
    all_digits = [_digits(kernel, leaf, (*site.path, *below.path), len(site.path)) for leaf, below in found]
    digits = all_digits[0]
    if any(d != digits for d in all_digits):
        raise RefusedError("E-PRODUCER", f"{buffer.name} is written at several places in one loop")
    wanted = {name for d in digits for name, _, _ in d.loops}
    loops: list[For] = []
    body = whole
    while wanted - {x.var for x in loops}:
        (only,) = body.stmts if len(body.stmts) == 1 else (None,)
        if not isinstance(only, For) or only.var not in wanted:
            inner = ", ".join(sorted(wanted - {x.var for x in loops}))
            raise RefusedError(
                "E-PRODUCER",
                f"{inner}, which chooses the element of {buffer.name}, is not an outermost loop: {NUMBERED}",
            )
        loops.append(only)
        body = only.body
    return Producer(s, whole, tuple(loops), body, digits)


def _digits(kernel: Kernel, leaf: Leaf, path: tuple[For | If, ...], depth: int) -> tuple[Digits, ...]:
    """The dimensions of what a leaf writes. Raises RefusedError E-PRODUCER."""
    ranges = ranges_at(kernel, path)
    inner = {x.var: simplify(x.extent, ranges) for x in path[depth:] if isinstance(x, For)}
    out: list[Digits] = []
    used: list[str] = []
    for subscript in leaf.indices:
        form = linear(subscript, ranges)
        moving = [t for t in form.terms if variables(t[0]) & inner.keys()]
        moving.sort(key=lambda t: -t[1])
        stride, digits = 1, list[tuple[str, int, Expr]]()
        for position, (atom, c) in reversed(list(enumerate(moving))):
            extent = inner.get(atom.name) if isinstance(atom, Var) else None
            if not isinstance(atom, Var) or extent is None or c != stride or atom.name in used:
                raise RefusedError(
                    "E-PRODUCER", f"`{print_stmt(leaf)}` goes to {print_expr(subscript)}: {NUMBERED}"
                )
            used.append(atom.name)
            digits.insert(0, (atom.name, c, extent))
            if position and not isinstance(extent, Const):
                raise RefusedError("E-PRODUCER", f"`{print_stmt(leaf)}`: {atom.name} has no constant extent")
            stride *= int(extent.value) if isinstance(extent, Const) else 1
        still = Linear(tuple(t for t in form.terms if t not in moving), form.constant)
        out.append(Digits(expression(still), tuple(digits)))
    return tuple(out)
