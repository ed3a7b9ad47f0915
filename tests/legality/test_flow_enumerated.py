"""Bases and contributions of every read of random nests, against walking through all instances."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import islpy as isl

from evolve.ir.poly import sizes_of
from evolve.ir.stmt import Block, For, If, Reduce, Stmt, Store
from evolve.ir.visit import loads
from evolve.legality.flow import Flow
from evolve.legality.model import Model
from tests.legality.brute import Run
from tests.legality.test_random_nests import nest

Instance = tuple[str, tuple[int, ...]]
"""A statement's name in the model, and its loop variables."""


def instances(
    judge: Run, s: Stmt, names: dict[int, str], env: dict[str, int]
) -> Iterator[tuple[Any, str, dict[str, int]]]:
    """All instances of leaves in order, with the model's names for them."""
    match s:
        case Block():
            for x in s.stmts:
                yield from instances(judge, x, names, env)
        case For():
            for i in range(judge.index(s.extent, env)):
                yield from instances(judge, s.body, names, {**env, s.var: i})
        case If():
            if judge.index(s.cond, env):
                yield from instances(judge, s.body, names, env)
        case Store() | Reduce():
            yield s, names[id(s)], env
        case _:
            raise AssertionError(s)


def pairs(relation: Any) -> set[tuple[Instance, Instance]]:
    """A bounded union map as pairs of instances (or of an instance and a cell)."""
    out: set[tuple[Instance, Instance]] = set()

    def one(m: Any) -> None:
        n = m.dim(isl.dim_type.in_)
        left, right = m.get_tuple_name(isl.dim_type.in_), m.get_tuple_name(isl.dim_type.out)

        def point(p: Any) -> None:
            at = [
                p.get_coordinate_val(isl.dim_type.set, i).to_python()
                for i in range(p.get_space().dim(isl.dim_type.set))
            ]
            out.add(((left, tuple(at[:n])), (right, tuple(at[n:]))))

        m.wrap().foreach_point(point)

    relation.foreach_map(one)
    return out


def test_every_read_of_random_nests() -> None:
    rng = random.Random("flow")
    reads = 0
    for _ in range(60):
        kernel = nest(rng)
        model = Model(kernel, sizes_of(kernel, ()))
        flow = Flow(model, 1_000_000)
        judge = Run(kernel, {})
        names = {id(st.leaf): st.name for st in model.statements}
        if len(names) != len(model.statements):
            continue
        last: dict[tuple[str, int], Instance] = {}
        since: dict[tuple[str, int], set[Instance]] = {}
        base: dict[tuple[str, int], set[tuple[Instance, Instance]]] = {}
        adds: dict[tuple[str, int], set[tuple[Instance, Instance]]] = {}
        for s, name, env in instances(judge, kernel.body, names, {}):
            here: Instance = (name, tuple(env.values()))
            for slot, load in enumerate(loads(s.value)):
                cell = (load.buffer, judge.index(load.indices[0], env))
                start = last.get(cell, (f"@{load.buffer}", (cell[1],)))
                base.setdefault((name, slot), set()).add((here, start))
                adds.setdefault((name, slot), set()).update((here, x) for x in since.get(cell, ()))
            cell = (s.buffer, judge.index(s.indices[0], env))
            if isinstance(s, Store):
                last[cell] = here
                since[cell] = set()
            else:
                since.setdefault(cell, set()).add(here)
        for st in model.statements:
            for r in st.reads:
                value = flow.last(st, r)
                assert pairs(value.base) == base.get((st.name, r.slot), set())
                assert pairs(value.adds) == adds.get((st.name, r.slot), set())
                reads += 1
    assert reads > 100
