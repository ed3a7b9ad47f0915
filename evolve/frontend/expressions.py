"""Evaluating C expressions symbolically, on top of what a thread's variables are worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from evolve.frontend import ctree, library
from evolve.frontend.ctree import CType
from evolve.frontend.indices import BYTE, index_of
from evolve.frontend.operations import choose, negation, operation
from evolve.frontend.polynomial import constant, expression
from evolve.frontend.prove import negate
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import (
    INTEGERS,
    Arr,
    Data,
    Duty,
    Either,
    Int,
    Ptr,
    Threads,
    Unknown,
    Value,
    as_data,
    convert,
    thread,
)
from evolve.ir.data import reads
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


class Evaluator(ABC):
    """Evaluation of expressions; a subclass knows the variables and inlines functions."""

    threads: Threads

    @abstractmethod
    def read(self, n: ctree.Name) -> Value:
        """The value of a variable now."""

    @abstractmethod
    def inline(self, call: ctree.Invoke, args: tuple[Value, ...]) -> Value:
        """The value that a device function returns."""

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
                return self._element(self.value(e.base), self.value(e.index), e.line)
            case ctree.Invoke():
                return self._call(e)
            case _:
                raise RefusalError(e.line, "assignment", "it must be a statement of its own")

    def combine(self, op: str, a: Value, b: Value, type_: CType, line: int) -> Value:
        """A binary operator on values."""
        for v in (a, b):
            if isinstance(v, Unknown):
                raise RefusalError(line, "value", v.reason)
        if isinstance(a, Ptr) and isinstance(b, Data):
            b = self._index(b, f"operator {op} on pointers", line)
        elif isinstance(b, Ptr) and isinstance(a, Data):
            a = self._index(a, f"operator {op} on pointers", line)
        return operation(op, a, b, type_, self.threads, line)

    def integer(self, e: ctree.CExpr, what: str) -> Int:
        """An integer made of indices, sizes and elements of index arrays. Raises RefusalError."""
        v = self.value(e)
        return self._index(v, what, e.line)

    def _index(self, v: Value, what: str, line: int) -> Int:
        if isinstance(v, Int):
            return Int(self.threads.normal(v.poly), v.type, v.duties)
        if isinstance(v, Either):
            raise RefusalError(line, what, "a condition chooses it; write the condition as an if")
        if isinstance(v, Unknown):
            raise RefusalError(line, "value", v.reason)
        if isinstance(v, Data) and v.type in INTEGERS:
            found = index_of(v, self.threads, what, line)
            return Int(self.threads.normal(found.poly), found.type, found.duties)
        if isinstance(v, Data) and v.type is DType.U8:
            raise RefusalError(line, what, BYTE)
        raise RefusalError(line, what, "it depends on data, not only on indices and sizes")

    def place(self, e: ctree.Element) -> Place:
        """The element that `e` names. Raises RefusalError for a part of an array."""
        base = self.value(e.base)
        if isinstance(base, Either):
            raise RefusalError(e.line, "store", "a condition chooses where; write the condition as an if")
        got = self.element(base, self.integer(e.index, "subscript"), e.line)
        if isinstance(got, Arr):
            raise RefusalError(e.line, "array", "only its elements can be used")
        if any(reads(i) for i in got.load.indices):
            why = "where it stores is read from memory, so two threads may store into one element"
            raise RefusalError(e.line, "store", why)
        return got

    def _element(self, base: Value, at: Value, line: int) -> Value:
        """The value of `base[at]`, or a part of an array. Of a choice, the choice between the elements."""
        if isinstance(base, Either):
            first, second = (self._element(x, at, line) for x in (base.then, base.orelse))
            return choose(base.cond, first, second, line)
        if isinstance(at, Either):
            first, second = (self._element(base, x, line) for x in (at.then, at.orelse))
            return choose(at.cond, first, second, line)
        got = self.element(base, self._index(at, "subscript", line), line)
        return got if isinstance(got, Arr) else Data(got.load, got.duties)

    def element(self, base: Value, at: Int, line: int) -> Place | Arr:
        """`base[at]`. Raises RefusalError for other bases than pointers and arrays."""
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
                if reads(expression(i.poly)):
                    raise RefusalError(line, "subscript of a local array", "it is read from memory")
                duties.add(Duty(i.poly, 0, n - 1, True, line, "subscript of a local array", proved=True))
            load = Load(base.buffer, tuple(expression(i.poly) for i in indices), base.element)
            return Place(load, frozenset(duties))
        raise RefusalError(line, "subscript", "the base is not a parameter or a local array")

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
        if e.function is None and e.name in library.UPDATES:
            reason = "it depends on the order of the threads; an update is lifted where nobody looks at it"
            raise RefusalError(e.line, f"value of {e.name}", reason)
        args = tuple(self.value(a) for a in e.args)
        if e.function is not None:
            return self.inline(e, args)
        if e.name == "__ldg" and len(args) == 1 and isinstance(args[0], Ptr | Either):
            return self._element(args[0], Int(constant(0), DType.I32), e.line)
        if not isinstance(e.type, DType):
            library.call(e.name, args, DType.I32, e.line)
            raise RefusalError(e.line, f"call of {e.name}", "its result cannot be used")
        return library.call(e.name, args, e.type, e.line)
