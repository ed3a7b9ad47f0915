"""Threads of a block that share out the iterations of a loop, or of which only the first one acts.

`for (c = threadIdx.x; c < cols; c += blockDim.x)` runs each iteration once, in some thread, and
`if (threadIdx.x == 0)` its body once. What a block of such code does without barriers is what one
thread does that runs all iterations in order: in a kernel without data races no thread sees another's
writes. Statements around them are repeated by every thread, so they may set variables but write nothing.
"""

from __future__ import annotations

from dataclasses import replace

from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.tidy import used
from evolve.frontend.values import AXES
from evolve.frontend.variables import Thread
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Expr, Var, conjunction
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Block, For, If, Reduce, Stmt, Store
from evolve.ir.visit import local_buffers, variables, walk


def gather(thread: Thread, line: int) -> frozenset[int]:
    """Rewrite `thread.body` to what a whole block does along the axes (0 is x) that are returned.

    Raises RefusalError where threads do something else as well.
    """
    led = _leaders(thread.body)
    others = _used_elsewhere(thread.body)
    # A thread index that does more than pick the first thread is an index like any other.
    axes = frozenset(thread.lanes.values()) | {a for a in led if f"$threadIdx.{AXES[a]}" not in others}
    if axes:
        thread.body = _Gather(thread, axes).block(thread.body, frozenset())
    for name in sorted(used(thread.body)):
        if name in {f"${what}.{AXES[a]}" for what in ("threadIdx", "global") for a in axes}:
            reason = "it is used for more than sharing out loops and picking the first thread"
            raise RefusalError(line, f"threadIdx.{name[-1]}", reason)
    return axes


def _leaders(body: list[Stmt]) -> frozenset[int]:
    """Axes a with an `if (threadIdx.a == 0)`."""
    found = {
        _leader(t) for x in walk(Block(tuple(body))) if isinstance(x.stmt, If) for t in _terms(x.stmt)[0]
    }
    return frozenset(a for a in found if a is not None)


def _used_elsewhere(body: list[Stmt]) -> frozenset[str]:
    """The variables in anything but the `threadIdx.a == 0` of conditions."""
    names: set[str] = set()
    for site in walk(Block(tuple(body))):
        s = site.stmt
        if isinstance(s, If):
            terms, _, _ = _terms(s)
            names |= {n for t in terms if _leader(t) is None for n in variables(t)}
        else:
            names |= used([replace(s, body=Block(()))] if isinstance(s, For) else [s])
    return frozenset(names)


def _terms(s: If) -> tuple[tuple[Expr, ...], Block, Block]:
    """The conditions that must all hold for the first block to run, and the two blocks."""
    if s.body.stmts:
        return conjuncts((s.cond,)), s.body, s.orelse
    return conjuncts((negate(s.cond),)), s.orelse, s.body


def _leader(cond: Expr) -> int | None:
    """The axis a of `threadIdx.a == 0`."""
    match cond:
        case Binary(op=BinaryOp.EQ, lhs=Var(name=name), rhs=Const(value=0)) if name.startswith("$threadIdx."):
            return AXES.index(name[-1])
        case _:
            return None


class _Gather:
    def __init__(self, thread: Thread, axes: frozenset[int]) -> None:
        self._lanes = thread.lanes
        self._axes = axes
        self._registers = local_buffers(Block(tuple(thread.body)))

    def block(self, stmts: list[Stmt] | tuple[Stmt, ...], once: frozenset[int]) -> list[Stmt]:
        """`once`: the axes of which one thread alone runs each of the statements."""
        out: list[Stmt] = []
        for s in stmts:
            match s:
                case If():
                    out += self._branch(s, once)
                case For():
                    axis = self._lanes.get(s.var)
                    if axis is not None:
                        self._alone(s.body, once, axis, _line(s))
                    inner = once if axis is None else once | {axis}
                    out.append(replace(s, body=Block(tuple(self.block(s.body.stmts, inner)))))
                case Store() | Reduce() if s.buffer not in self._registers:
                    for axis in sorted(self._axes - once):
                        what = f"every thread of the block along {AXES[axis]} does it"
                        raise RefusalError(_line(s), "store", what)
                    out.append(s)
                case _:
                    out.append(s)
        return out

    def _branch(self, s: If, once: frozenset[int]) -> list[Stmt]:
        terms, body, orelse = _terms(s)
        leaders = {a for a in map(_leader, terms) if a is not None and a in self._axes}
        if leaders and not orelse.stmts:
            for axis in sorted(leaders):
                self._alone(body, once, axis, _line(s))
            rest = conjunction(tuple(t for t in terms if _leader(t) not in leaders))
            inner = self.block(body.stmts, once | leaders)
            return inner if rest == TRUE else [If(rest, Block(tuple(inner)), span=s.span)]
        then = Block(tuple(self.block(s.body.stmts, once)))
        return [If(s.cond, then, Block(tuple(self.block(s.orelse.stmts, once))), s.span)]

    def _alone(self, body: Block, once: frozenset[int], axis: int, line: int) -> None:
        """Raises RefusalError where what one thread does leaves something to what all of them do next."""
        if axis in once:
            reason = f"it is inside another loop over the threads along {AXES[axis]}"
            raise RefusalError(line, "loop over threads", reason)
        own = local_buffers(body)
        for site in walk(body):
            t = site.stmt
            if isinstance(t, Store | Reduce) and t.buffer in self._registers and t.buffer not in own:
                name = t.buffer.split("#")[0]
                reason = f"{name} is kept from one step to the next, and every thread has its own"
                raise RefusalError(_line(t), "loop over threads", reason)


def _line(s: Stmt) -> int:
    span = getattr(s, "span", None)
    return span.line if span else 0
