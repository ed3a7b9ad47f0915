"""Data as indices: integers that are read from memory and then used in a subscript or a loop's bound.

Integer data stays data until it is needed as an index; then what it was computed from is read again as
integer arithmetic, with the loads as opaque terms (`evolve.ir.data`).
"""

from __future__ import annotations

from evolve.frontend import ctree
from evolve.frontend.operations import integer_operation
from evolve.frontend.polynomial import atom, constant, polynomial
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import INTEGERS, Data, Int, Threads, convert
from evolve.ir.data import term
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load
from evolve.ir.types import DType
from evolve.ir.visit import loads, subexpressions

BYTE = "it depends on a byte read from memory, and only 32 and 64-bit integers can be subscripts"

_OPERATORS = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.DIV: "/",
    BinaryOp.REM: "%",
    BinaryOp.SHL: "<<",
    BinaryOp.SHR: ">>",
    BinaryOp.BIT_AND: "&",
}


def index_of(data: Data, threads: Threads, what: str, line: int) -> Int:
    """Integer data as an index. Raises RefusalError for more than integer arithmetic on elements."""
    found = _index(data.expr, threads, what, line)
    return Int(found.poly, found.type, found.duties | data.duties)


def _index(e: Expr, threads: Threads, what: str, line: int) -> Int:
    match e:
        case Const() if e.dtype in INTEGERS:
            return Int(constant(int(e.value)), e.dtype)
        case Load() if e.dtype in INTEGERS and "#" not in e.buffer:
            return Int(atom(term(e)), e.dtype)
        case Cast() if e.arg.dtype is DType.INDEX and e.dtype in INTEGERS:
            return Int(polynomial(e.arg), e.dtype)
        case Cast() if e.dtype in INTEGERS and e.arg.dtype in INTEGERS:
            inner = convert(_index(e.arg, threads, what, line), e.dtype, line)
            assert isinstance(inner, Int)
            return inner
        case Binary() if e.op in _OPERATORS and e.dtype in INTEGERS:
            a, b = (_index(x, threads, what, line) for x in (e.lhs, e.rhs))
            made = integer_operation(_OPERATORS[e.op], a, b, e.dtype, threads, line)
            if made is not None:
                return made
        case _:
            pass
    if any("#" in x.buffer for x in loads(e)):
        raise RefusalError(line, what, "it depends on a variable that is computed from data as the loop goes")
    if any(x.dtype is DType.U8 for x in loads(e)):
        raise RefusalError(line, what, BYTE)
    raise RefusalError(line, what, "it depends on data in a way that is more than integer arithmetic")


def is_stable(e: Expr) -> bool:
    """Whether integer data is computed from elements of arrays alone, as long as the kernel writes none."""
    if e.dtype not in INTEGERS:
        return False
    for x in subexpressions(e):
        if isinstance(x, Load) and ("#" in x.buffer or x.dtype not in INTEGERS):
            return False
        if not isinstance(x, Load | Const | Cast | Binary) and x.dtype is not DType.INDEX:
            return False
    return bool(loads(e))


def indexing(function: ctree.Function) -> frozenset[int]:
    """Keys of the variables whose values end up in subscripts or loop bounds, through others too."""
    found: set[int] = set()
    flows: list[tuple[int, frozenset[int]]] = []
    _statements(function.body, found, flows, {function.name})
    while more := {k for target, names in flows if target in found for k in names} - found:
        found |= more
    return frozenset(found)


def _statements(
    stmts: tuple[ctree.CStmt, ...],
    found: set[int],
    flows: list[tuple[int, frozenset[int]]],
    seen: set[str],
) -> None:
    for s in stmts:
        match s:
            case ctree.Declare():
                for e in s.init if isinstance(s.init, tuple) else (s.init,) if s.init is not None else ():
                    flows.append((s.key, _names(e)))
                    _expression(e, found, flows, seen)
                    if isinstance(s.type, ctree.Pointer):
                        found |= _names(e)
            case ctree.Evaluate():
                _expression(s.expr, found, flows, seen)
            case ctree.Branch():
                _expression(s.cond, found, flows, seen)
                _statements((*s.then, *s.orelse), found, flows, seen)
            case ctree.Loop():
                _statements((s.init, *s.body, *s.also), found, flows, seen)
                for e in (s.cond, s.step):
                    found |= _names(e)
                    _expression(e, found, flows, seen)
            case ctree.Return(value=e) if e is not None:
                _expression(e, found, flows, seen)
            case ctree.Group():
                _statements(s.body, found, flows, seen)
            case _:
                pass


def _expression(
    e: ctree.CExpr, found: set[int], flows: list[tuple[int, frozenset[int]]], seen: set[str]
) -> None:
    match e:
        case ctree.Element():
            found |= _names(e.index) | _names(e.base)
        case ctree.Assign(target=ctree.Name() as target):
            flows.append((target.key, _names(e.value)))
            if isinstance(target.type, ctree.Pointer):
                found |= _names(e.value)
        case ctree.Invoke(function=function) if function is not None:
            flows += [(p.key, _names(a)) for p, a in zip(function.params, e.args, strict=True)]
            found |= {
                k
                for p, a in zip(function.params, e.args, strict=True)
                if isinstance(p.type, ctree.Pointer)
                for k in _names(a)
            }
            if function.name not in seen:
                seen.add(function.name)
                _statements(function.body, found, flows, seen)
        case _:
            pass
    for part in _parts(e):
        _expression(part, found, flows, seen)


def _parts(e: ctree.CExpr) -> tuple[ctree.CExpr, ...]:
    match e:
        case ctree.Operation():
            return e.operands
        case ctree.Convert():
            return (e.arg,)
        case ctree.Conditional():
            return (e.cond, e.then, e.orelse)
        case ctree.Invoke():
            return e.args
        case ctree.Element():
            return (e.base, e.index)
        case ctree.Assign():
            return (e.target, e.value)
        case _:
            return ()


def _names(e: ctree.CExpr) -> frozenset[int]:
    if isinstance(e, ctree.Name):
        return frozenset((e.key,))
    return frozenset(k for part in _parts(e) for k in _names(part))
