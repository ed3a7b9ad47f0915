"""What makes mutants of the prover: a function with one of its checks taken out, and its code.

A module's mutants are read off its syntax tree; `MODULES` and `FRONTEND` are those whose checks decide.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

MODULES = (
    "analysis", "asynchronous", "bounds", "cells", "compile", "conflicts", "congruence", "coverage",
    "equality", "exponentials", "finding", "flow", "geometry", "instances", "last_writers", "limits",
    "memory", "model", "online", "order", "pairing", "placement", "producers", "proof", "prove", "races",
    "schedule", "uniform", "value_flow",
)  # fmt: skip
"""Those that decide; placing barriers and wording are not among them."""
PACKAGES = {"compile": "evolve.compiler"}
"""Of the modules that are not in `evolve.legality`; `frontend.x` is in `evolve.frontend`."""
FRONTEND = tuple(
    f"frontend.{x}" for x in ("addresses", "dense", "lengths", "premises", "prove", "tidy", "words")
)
"""What decides how long an array is taken to be, what is assumed of its elements, and what lies within it: a
copy behind an end, or a check that is not made, starts there."""
FINDINGS = ("refuted", "unknown", "Finding", "_from_error")
ERRORS = (
    "ModelError", "FlowError", "MismatchError", "NonAffineError", "RefusalError", "UnknownError",
    "WrongError",
)  # fmt: skip
REFUSALS = ("Compiled",)
NARROWING = (
    "intersect", "intersect_domain", "intersect_params", "intersect_range", "subtract", "subtract_range",
    "subtract_domain",
)  # fmt: skip
KINDS = ("finding", "condition", "restriction")


@dataclass(frozen=True)
class Mutant:
    """`function` (qualified) of `module` as it would be."""

    id: str
    kind: str
    module: str
    function: str
    line: int
    last_line: int
    whole: ast.Module
    """The module as it is, nodes numbered (`_number`)."""
    number: int
    new: ast.AST
    """What takes the place of the node of that number."""

    def tree(self) -> ast.Module:
        """The module as it would be."""
        changed = _At(self.number, self.new).visit(copy.deepcopy(self.whole))
        assert isinstance(changed, ast.Module)
        return ast.fix_missing_locations(changed)


class _At(ast.NodeTransformer):
    """Replaces one node, found by identity in a copy that keeps `_number`."""

    def __init__(self, number: int, new: ast.AST) -> None:
        self.number, self.new = number, new

    def visit(self, node: ast.AST) -> Any:
        if getattr(node, "_number", None) == self.number:
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)


def mutants(name: str) -> Iterator[Mutant]:
    """All of a module."""
    module = module_of(name)
    tree = ast.parse(inspect.getsource(module))
    # Operators stand nowhere: one object serves in all trees.
    for n, node in enumerate(node for node in ast.walk(tree) if hasattr(node, "lineno")):
        node._number = n  # type: ignore[attr-defined]
    seen: Counter[str] = Counter()
    for function, definition in _definitions(tree):
        for kind, what, node, new in _changes(definition):
            number = node._number  # type: ignore[attr-defined]
            line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            where = f"{name}.{function}: {what}"
            seen[where] += 1
            unique = where if seen[where] == 1 else f"{where} ({seen[where]})"
            yield Mutant(unique, kind, name, function, line, last, tree, number, new)


def module_of(name: str) -> ModuleType:
    package = "evolve" if "." in name else PACKAGES.get(name, "evolve.legality")
    return importlib.import_module(f"{package}.{name}")


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inside in node.body:
                if isinstance(inside, ast.FunctionDef):
                    yield f"{node.name}.{inside.name}", inside


def _changes(definition: ast.FunctionDef) -> Iterator[tuple[str, str, ast.AST, ast.AST]]:
    """Kind, text, node and what takes its place."""
    stated = {x for n in ast.walk(definition) if isinstance(n, ast.Assert) for x in ast.walk(n)}
    for node in ast.walk(definition):
        if node in stated:
            continue  # what is stated for readers and type checkers decides nothing
        text = ast.unparse(node) if isinstance(node, ast.stmt | ast.expr) else ""
        short = " ".join(text.split())[:110]
        if isinstance(node, ast.Raise) and _calls(node.exc, ERRORS):
            yield "finding", f"not raised: {short}", node, ast.Pass()
        elif isinstance(node, ast.Return) and node.value is not None and _has(node.value, FINDINGS):
            empty: ast.expr = (
                ast.List([], ast.Load()) if isinstance(node.value, ast.List) else ast.Constant(None)
            )
            yield "finding", f"not returned: {short}", node, ast.Return(empty)
        elif isinstance(node, ast.Expr | ast.AugAssign) and _is_kept(node):
            yield "finding", f"not kept: {short}", node, ast.Pass()
        if isinstance(node, ast.BoolOp) and not any(isinstance(v, ast.Constant) for v in node.values):
            for i, value in enumerate(node.values):
                rest = [v for j, v in enumerate(node.values) if j != i]
                new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                yield "condition", f"without `{ast.unparse(value)[:60]}` of {short}", node, new
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return) and _has(node, REFUSALS):
            yield "finding", f"not refused: if {ast.unparse(node.test)[:80]}", node, ast.Pass()
        if isinstance(node, ast.If):
            test = " ".join(ast.unparse(node.test).split())[:80]
            if _is_exit(node.body[0]):
                yield "condition", f"always: if {test}", node.test, ast.Constant(True)
            if _is_exit(node.body[-1]) and not _is_any(node.test) and not _has(node, REFUSALS):
                yield "condition", f"never: if {test}", node.test, ast.Constant(False)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in NARROWING
        ):
            yield "restriction", f"{short}", node, node.func.value


def _is_exit(s: ast.stmt) -> bool:
    """Whether a statement goes on elsewhere and reports nothing."""
    return isinstance(s, ast.Continue) or (isinstance(s, ast.Return) and not _has(s, FINDINGS))


def _is_any(e: ast.expr) -> bool:
    """Whether a condition has operands of which each is reason enough: each is left out by itself."""
    return isinstance(e, ast.BoolOp) and isinstance(e.op, ast.Or)


def _calls(e: ast.AST | None, names: tuple[str, ...]) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id in names


def _has(e: ast.AST, names: tuple[str, ...]) -> bool:
    return any(_calls(x, names) for x in ast.walk(e))


def _is_kept(s: ast.Expr | ast.AugAssign) -> bool:
    """Whether findings are added to others."""
    if isinstance(s, ast.AugAssign):
        return isinstance(s.op, ast.Add) and _named(s.target, "out")
    return _is_append(s.value)


def _is_append(e: ast.AST) -> bool:
    return (
        isinstance(e, ast.Call)
        and isinstance(e.func, ast.Attribute)
        and e.func.attr == "append"
        and any(_has(a, FINDINGS) or _named(a, "found") for a in e.args)
    )


def _named(e: ast.AST, name: str) -> bool:
    return isinstance(e, ast.Name) and e.id == name


def apply(m: Mutant, code: CodeType) -> None:
    """Makes this process's prover the mutant, which has this code."""
    _function(module_of(m.module), m.function).__code__ = code


def code_of(m: Mutant) -> CodeType:
    """Of its function."""
    flags = importlib.import_module("__future__").annotations.compiler_flag
    code = compile(m.tree(), str(module_of(m.module).__file__), "exec", flags, True)
    return next(c for c in _codes(code) if c.co_qualname == m.function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield c
            yield from _codes(c)


def _function(module: ModuleType, qualified: str) -> FunctionType:
    holder: Any = module
    *around, last = qualified.split(".")
    for part in around:
        holder = getattr(holder, part)
    found = vars(holder)[last]
    if isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    assert isinstance(found, FunctionType), qualified
    return found
