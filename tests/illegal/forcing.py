"""Applies and renders programs past every layer's own refusals: for tests that show what these are for.

A forgiven refusal is a `raise RefusedError(code, ...)` or `raise LayoutError(code, ...)` that does
nothing; a `CodegenError` has the code `cannot-render`. The functions that hold one run without it for
a while. E-VECTOR-TAIL goes on without the guard that it is about.
"""

from __future__ import annotations
import __future__

import ast
import copy
import importlib
import inspect
import pkgutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType

import evolve.codegen
import evolve.transforms
from evolve.compiler.compile import finish
from evolve.dsl.program import Program
from evolve.ir import layout
from evolve.ir.kernel import Kernel
from evolve.transforms.apply import apply_program, forget

ERRORS = {"RefusedError": None, "LayoutError": None, "CodegenError": "cannot-render"}
"""Errors that carry a code as first argument, and those of one code."""
SKIPS = frozenset(("E-VECTOR-TAIL",))
"""Refusals after which the rest of the loop's body makes no sense."""


def force(kernel: Kernel, program: Program) -> Kernel:
    """The program's kernel, barriers placed, proved or not. Use it inside `forgiving`."""
    return finish(apply_program(kernel, program).kernel)


@contextmanager
def forgiving(codes: Collection[str]) -> Iterator[None]:
    """Within it, nothing is refused with these codes."""
    saved: list[tuple[FunctionType, CodeType]] = []
    forget()
    try:
        for original, changed in _changed(frozenset(codes)):
            saved.append((original, original.__code__))
            original.__code__ = changed.__code__
        yield
    finally:
        for function, code in saved:
            function.__code__ = code
        forget()


class _Forgive(ast.NodeTransformer):
    def __init__(self, codes: frozenset[str]) -> None:
        self.codes = codes
        self.changed = False

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        match node.exc:
            case ast.Call(func=ast.Name(id=error), args=[first, *_]) if error in ERRORS:
                code = ERRORS[error] or (first.value if isinstance(first, ast.Constant) else None)
                if code in self.codes:
                    self.changed = True
                    return ast.copy_location(ast.Continue() if code in SKIPS else ast.Pass(), node)
        return node


def _changed(codes: frozenset[str]) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Functions and methods that raise one of the codes, and what they are without that."""
    for module, tree in _TREES.items():
        for node in tree.body:
            inside = node.body if isinstance(node, ast.ClassDef) else [node]
            holder = getattr(module, node.name) if isinstance(node, ast.ClassDef) else module
            for definition in inside:
                if isinstance(definition, ast.FunctionDef):
                    original = vars(holder).get(definition.name)
                    new = _without(module, definition, codes)
                    if new is not None and isinstance(original, FunctionType):
                        yield original, new


def _without(module: ModuleType, definition: ast.FunctionDef, codes: frozenset[str]) -> FunctionType | None:
    forgive = _Forgive(codes)
    new = forgive.visit(copy.deepcopy(definition))
    if not forgive.changed:
        return None
    new.decorator_list = []
    unit = ast.fix_missing_locations(ast.Module([new], []))
    code = compile(unit, str(module.__file__), "exec", __future__.annotations.compiler_flag, True)
    space: dict[str, FunctionType] = {}
    exec(code, vars(module), space)
    return space[new.name]


def _modules() -> Iterator[ModuleType]:
    yield layout
    for package in (evolve.transforms, evolve.codegen):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            yield importlib.import_module(info.name)


_TREES = {m: ast.parse(inspect.getsource(m)) for m in _modules()}
