"""Evaluating C expressions symbolically, on top of what a thread's variables are worth."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.frontend import ctree, library
from evolve.frontend.ctree import CType
from evolve.frontend.polynomial import constant, expression
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import (
    Arr,
    Data,
    Duty,
    Int,
    Ptr,
    Threads,
    Unknown,
    Value,
    as_data,
    choose,
    convert,
    negation,
    operation,
    thread,
)
from evolve.ir.expr import Const, Expr, Load, Unary, UnaryOp
from evolve.ir.types import DType
from evolve.ir.visit import subexpressions


@dataclass(frozen=True)
class Place:
    """An element that can be read or assigned, with what its subscript owes."""

    load: Load
    duties: frozenset[Duty]


def size_of(e: Expr) -> int:
    """The number of nodes in an expression."""
    return sum(1 for _ in subexpressions(e))


class Evaluator:
    """Evaluation of expressions; a subclass knows the variables and inlines functions."""

    threads: Threads

    def read(self, n: ctree.Name) -> Value:
        """The value of a variable now."""
        raise NotImplementedError

    def inline(self, call: ctree.Invoke, args: tuple[Value, ...]) -> Value:
        """The value that a device function returns."""
        raise NotImplementedError

    def value(self, e: ctree.CExpr) -> Value:
        """Evaluate an expression. Raises RefusalError."""
        match e:
            case ctree.Number():
                if e.type is DType.BOOL or e.type.is_float:
                    literal = bool(e.value) if e.type is DType.BOOL else float(e.value)
                    return Data(Const(literal, e.type))
                return Int(constant(int(e.value)), e.type)
            case ctree.Name():
                return self.read(e)
            case ctree.Builtin():
                return Int(thread(e.what, e.axis), DType.U32)
            case ctree.Convert():
                return convert(self.value(e.arg), e.type, e.line)
            case ctree.Operation():
                return self._operation(e)
            case ctree.Conditional():
                cond = as_data(convert(self.value(e.cond), DType.BOOL, e.line), e.line)
                if isinstance(cond.expr, Const):
                    return self.value(e.then if cond.expr.value else e.orelse)
                return choose(cond, self.value(e.then), self.value(e.orelse), e.line)
            case ctree.Element():
                got = self.element(e)
                if isinstance(got, Arr):
                    return got
                return Data(got.load, got.duties)
            case ctree.Invoke():
                return self._call(e)
            case _:
                raise RefusalError(e.line, "assignment", "it must be a statement of its own")

    def combine(self, op: str, a: Value, b: Value, type_: CType, line: int) -> Value:
        """A binary operator on values."""
        for v in (a, b):
            if isinstance(v, Unknown):
                raise RefusalError(line, "value", v.reason)
        return operation(op, a, b, type_, self.threads, line)

    def integer(self, e: ctree.CExpr, what: str) -> Int:
        """An integer made of indices and sizes. Raises RefusalError when it depends on data in memory."""
        v = self.value(e)
        if isinstance(v, Int):
            return Int(self.threads.normal(v.poly), v.type, v.duties)
        raise RefusalError(e.line, what, "it depends on data, not only on indices and sizes")

    def place(self, e: ctree.Element) -> Place:
        """The element that `e` names. Raises RefusalError for a part of an array."""
        got = self.element(e)
        if isinstance(got, Arr):
            raise RefusalError(e.line, "array", "only its elements can be used")
        return got

    def element(self, e: ctree.Element) -> Place | Arr:
        """`base[index]`."""
        base = self.value(e.base)
        at = self.integer(e.index, "subscript")
        if isinstance(base, Ptr):
            flat = self.threads.normal(base.offset.poly + at.poly)
            load = Load(base.buffer, (expression(flat),), base.element)
            return Place(load, at.duties | base.offset.duties)
        if isinstance(base, Arr):
            indices = (*base.indices, at)
            if len(indices) < len(base.extents):
                return Arr(base.buffer, base.element, base.extents, indices)
            duties = {d for i in indices for d in i.duties}
            for i, n in zip(indices, base.extents, strict=True):
                duties.add(Duty(i.poly, 0, n - 1, True, e.line, "subscript of a local array", proved=True))
            load = Load(base.buffer, tuple(expression(i.poly) for i in indices), base.element)
            return Place(load, frozenset(duties))
        raise RefusalError(e.line, "subscript", "the base is not a parameter or a local array")

    def _operation(self, e: ctree.Operation) -> Value:
        args = [self.value(x) for x in e.operands]
        for v in args:
            if isinstance(v, Unknown):
                raise RefusalError(e.line, "value", v.reason)
        if e.op == "neg":
            return negation(args[0], e.type, e.line)
        if e.op == "not":
            cond = as_data(convert(args[0], DType.BOOL, e.line), e.line)
            return Data(negate(cond.expr), cond.duties)
        if e.op == "~":
            d = as_data(args[0], e.line)
            return Data(Unary(UnaryOp.BIT_NOT, d.expr, d.type), d.duties)
        return self.combine(e.op, args[0], args[1], e.type, e.line)

    def _call(self, e: ctree.Invoke) -> Value:
        args = tuple(self.value(a) for a in e.args)
        if e.function is not None:
            return self.inline(e, args)
        if e.name == "__ldg" and len(args) == 1 and isinstance(args[0], Ptr):
            p = args[0]
            load = Load(p.buffer, (expression(self.threads.normal(p.offset.poly)),), p.element)
            return Data(load, p.offset.duties)
        if not isinstance(e.type, DType):
            library.call(e.name, args, DType.I32, e.line)
            raise RefusalError(e.line, f"call of {e.name}", "its result cannot be used")
        return library.call(e.name, args, e.type, e.line)
