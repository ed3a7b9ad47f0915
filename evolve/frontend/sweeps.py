"""Grid-stride loops: iterations that the threads (or blocks) of the whole grid share out.

`for (j = i; j < n; j += gridDim.x * blockDim.x)`, from the thread's own index i, runs each j once, in some
thread, but only in its first step j is i. So the loop's variable is an index of its own, `$sweep.x`, while
the kernel is executed. It takes the place of the thread's index afterwards, if nothing depends on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evolve.frontend.polynomial import ONE, Poly, variable
from evolve.frontend.prove import facts_of, negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.tidy import substitute, used
from evolve.frontend.values import AXES, thread_names
from evolve.frontend.variables import Obligation, Step, Sweep, Thread
from evolve.ir.expr import conjunction
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Block, For, If, Reduce, Stmt, Store
from evolve.ir.visit import Site, local_buffers, map_stmt_exprs, variables, walk


def settle_sweeps(thread: Thread) -> None:
    """The variables of grid-stride loops become `$global.x` or `$blockIdx.x`, in all that `thread` holds.

    Raises RefusalError where a thread's (or block's) own index decides something as well, and where something
    is written outside of the loop, which every thread does.
    """
    if not thread.sweeps:
        return
    for sweep in thread.sweeps:
        thread.body = list(_entered(tuple(thread.body), sweep))
    registers = local_buffers(Block(tuple(thread.body)))
    for site in walk(Block(tuple(thread.body))):
        for sweep in thread.sweeps:
            _check_index(site, sweep, thread)
            if isinstance(site.stmt, Store | Reduce) and site.stmt.buffer not in registers:
                _check_inside(site, sweep)
    own = frozenset(name for sweep in thread.sweeps for name in _own(sweep))
    thread.names = [(name, p) for name, p in thread.names if not own & p.names()]
    _rename(thread, {sweep.index: variable(sweep.start) for sweep in thread.sweeps})
    thread.strided |= {sweep.start for sweep in thread.sweeps}


def _entered(stmts: tuple[Stmt, ...], sweep: Sweep) -> tuple[Stmt, ...]:
    """Without a guard around the loop that asks of its start what it asks itself: `if (i >= n) return;`."""
    asked = (sweep.bound - ONE - variable(sweep.start),)
    if sweep.bound.reads:
        return stmts
    out: list[Stmt] = []
    for s in stmts:
        if isinstance(s, If) and sweep.index in used([s]) - _mentioned(s):
            cond, inside, beside = s.cond, s.body, s.orelse
            if sweep.index in used(beside.stmts):
                cond, inside, beside = negate(cond), beside, inside
            if not beside.stmts:
                rest = tuple(t for t in conjuncts((cond,)) if facts_of(t) != asked)
                inner = Block(_entered(inside.stmts, sweep))
                out += [If(conjunction(rest), inner, span=s.span)] if rest else inner.stmts
                continue
        out.append(s)
    return tuple(out)


def _check_index(site: Site, sweep: Sweep, thread: Thread) -> None:
    s, axis = site.stmt, AXES[sweep.axis]
    if sweep.who == "thread" and isinstance(s, For) and thread.lanes.get(s.var) == sweep.axis:
        what = f"the threads along {axis} share out the grid-stride loop over {sweep.name} too"
        raise RefusalError(_line(s), "loop over threads", what)
    if _own(sweep) & _mentioned(s):
        what = f"the grid-stride loop over {sweep.name} takes each {sweep.who} along {axis} further than its"
        why = f"{what} own index, and that one decides here; in the loop, use {sweep.name}"
        raise RefusalError(_line(s) or sweep.line, f"{sweep.who} index", why)


def _own(sweep: Sweep) -> frozenset[str]:
    """The variables that say who runs a step of the loop."""
    names = thread_names(sweep.axis)
    return names if sweep.who == "thread" else names - {f"$threadIdx.{AXES[sweep.axis]}"}


def _check_inside(site: Site, sweep: Sweep) -> None:
    if not any(sweep.index in _mentioned(step) for step in site.path):
        who = f"every {sweep.who} along {AXES[sweep.axis]}"
        what = f"{who} does it: it is outside of the grid-stride loop over {sweep.name}"
        raise RefusalError(_line(site.stmt), "store", what)


def _mentioned(s: Stmt) -> frozenset[str]:
    """The variables in a statement itself, not in what it contains."""
    if isinstance(s, If):
        return variables(s.cond)
    return used([replace(s, body=Block(()))] if isinstance(s, For) else [s])


def _line(s: Stmt) -> int:
    span = getattr(s, "span", None)
    return span.line if span else 0


def _rename(thread: Thread, by: dict[str, Poly]) -> None:
    thread.body = [map_stmt_exprs(s, lambda e: substitute(e, by)) for s in thread.body]
    thread.names = [(name, p.substitute(by)) for name, p in thread.names]
    thread.obligations = list(_renamed(thread.obligations, by))


def _renamed(obligations: list[Obligation], by: dict[str, Poly]) -> Iterator[Obligation]:
    paths: dict[tuple[Step, ...], tuple[Step, ...]] = {}
    for o in obligations:
        if o.path not in paths:
            steps = (map_stmt_exprs(step, lambda e: substitute(e, by)) for step in o.path)
            paths[o.path] = tuple(step for step in steps if isinstance(step, For | If))
        given = tuple(substitute(e, by) for e in o.duty.given)
        yield Obligation(replace(o.duty, poly=o.duty.poly.substitute(by), given=given), paths[o.path])
