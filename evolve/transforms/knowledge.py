"""specialize, assume: a variant for some values of the sizes, or of the parameters that are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Hole, Name, Operation, Value, print_value
from evolve.ir.affine import simplify
from evolve.ir.expr import (
    FALSE,
    TRUE,
    Binary,
    BinaryOp,
    Const,
    Expr,
    Var,
    add,
    floordiv,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.printer import print_expr
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.settled import data_facts, held, settled, under
from evolve.ir.stmt import Buffer
from evolve.ir.types import DType
from evolve.ir.visit import substitute, substitute_block
from evolve.transforms.call import Call, Result, transform

_ARITHMETIC = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}
_COMPARISONS = {
    "==": BinaryOp.EQ,
    "!=": BinaryOp.NE,
    "<=": BinaryOp.LE,
    ">=": BinaryOp.GE,
    "<": BinaryOp.LT,
    ">": BinaryOp.GT,
}
_MIRRORED = {"==": "==", "!=": "!=", "<=": ">=", ">=": "<=", "<": ">", ">": "<"}


@transform("specialize")
def specialize(call: Call) -> Result:
    """See dsl_spec/specialize.yaml."""
    return _by_term(call, _sized)


def _by_term(call: Call, learn: Callable[[Kernel, Operation], Kernel]) -> Result:
    """The kernel that knows each comparison of the statement's condition."""
    kernel = call.kernel
    for term in _terms(call.condition("condition")):
        kernel = learn(kernel, term)
    return kernel, call.names


def _terms(cond: Operation) -> list[Operation]:
    if cond.op != "and":
        return [cond]
    assert isinstance(cond.lhs, Operation) and isinstance(cond.rhs, Operation)
    return [*_terms(cond.lhs), *_terms(cond.rhs)]


def _sized(kernel: Kernel, term: Operation) -> Kernel:
    ranges = ranges_at(kernel)
    known: dict[str, Expr] = {}
    for old in conjuncts(kernel.assumptions):
        known |= _fixes(old) or {}
    fact = substitute(_normal(kernel, term), known)
    decided = simplify(fact, ranges)
    if decided == TRUE:
        raise RefusedError("E-NO-CHANGE", f"{print_value(term)} is already known")
    if decided == FALSE:
        raise RefusedError("E-CONTRADICTION", f"{print_value(term)} contradicts what is already assumed")
    value = _fixes(fact)
    if value is not None:
        for old in conjuncts(kernel.assumptions):
            if simplify(substitute(old, value)) == FALSE:
                raise RefusedError(
                    "E-CONTRADICTION", f"{print_value(term)} contradicts {print_expr(old)}, already assumed"
                )
    kernel = replace(kernel, assumptions=(*kernel.assumptions, fact))
    if value is not None:
        buffers = tuple(_at_size(b, value) for b in kernel.buffers)
        kernel = replace(kernel, body=substitute_block(kernel.body, value), buffers=buffers)
    return kernel


def _fixes(fact: Expr) -> dict[str, Expr] | None:
    """What to substitute where a fact gives a scalar's value."""
    match fact:
        case Binary(op=BinaryOp.EQ, lhs=Var(name=name, dtype=DType.INDEX), rhs=Const()):
            return {name: fact.rhs}
        case _:
            return None


def _at_size(b: Buffer, by: dict[str, Expr]) -> Buffer:
    return replace(b, extents=tuple(simplify(substitute(e, by)) for e in b.extents))


def _normal(kernel: Kernel, term: Operation) -> Expr:
    """The comparison with a constant, if any, on the right, and strict bounds made inclusive."""
    lhs, rhs, op = _arithmetic(kernel, term.lhs), _arithmetic(kernel, term.rhs), term.op
    lhs, rhs = simplify(lhs), simplify(rhs)
    if isinstance(lhs, Const):
        lhs, rhs, op = rhs, lhs, _MIRRORED[op]
    if isinstance(rhs, Const):
        if op == "<":
            return Binary(BinaryOp.LE, lhs, index(int(rhs.value) - 1), DType.BOOL)
        if op == ">":
            return Binary(BinaryOp.GE, lhs, index(int(rhs.value) + 1), DType.BOOL)
    return Binary(_COMPARISONS[op], lhs, rhs, DType.BOOL)


def _arithmetic(kernel: Kernel, v: Value) -> Expr:
    match v:
        case int():
            return index(v)
        case Name():
            # No launch could ask for an implied size.
            sizes = [s.name for s in kernel.scalars if s.is_size and not s.implied]
            if v.text not in sizes:
                raise RefusedError(
                    "E-NAME",
                    f"{v.text} is not a size of the kernel",
                    repair=f"sizes: {', '.join(sizes)}" if sizes else None,
                )
            return var(v.text)
        case Operation():
            lhs, rhs = _arithmetic(kernel, v.lhs), _arithmetic(kernel, v.rhs)
            if v.op in ("//", "%") and not (isinstance(rhs, Const) and int(rhs.value) > 0):
                raise RefusedError("E-DIVISOR", f"{print_value(v)} must divide by a positive constant")
            return _ARITHMETIC[v.op](lhs, rhs)
        case Hole():
            raise RefusedError("E-HOLE", f"the hole {print_value(v)} is not filled")
        case _:
            raise RefusedError("E-DIVISOR", f"{print_value(v)} is not arithmetic")


@transform("assume")
def assume(call: Call) -> Result:
    """See dsl_spec/assume.yaml."""
    return _by_term(call, _given)


def _given(kernel: Kernel, term: Operation) -> Kernel:
    fact = _fact(kernel, term)
    known = settled(fact, data_facts(kernel.assumptions))
    if known == TRUE:
        raise RefusedError("E-NO-CHANGE", f"{print_value(term)} is already known")
    if known == FALSE:
        raise RefusedError("E-CONTRADICTION", f"{print_value(term)} contradicts what is already assumed")
    result = replace(kernel, assumptions=(*kernel.assumptions, fact))
    result = under(result, result.assumptions)
    if result.body == kernel.body:
        raise RefusedError("E-NO-CHANGE", f"{print_value(term)} decides nothing that the kernel does")
    return result


def _fact(kernel: Kernel, term: Operation) -> Expr:
    """`scalar op number`, in the scalar's own type."""
    lhs, rhs, op = term.lhs, term.rhs, term.op
    if isinstance(lhs, int):
        lhs, rhs, op = rhs, lhs, _MIRRORED[op]
    if not isinstance(lhs, Name) or not isinstance(rhs, int):
        raise RefusedError("E-FACT", f"{print_value(term)} does not compare a parameter with a number")
    s = _scalar(kernel, lhs.text)
    if s.dtype is DType.BOOL and (op not in ("==", "!=") or rhs not in (0, 1)):
        raise RefusedError("E-FACT", f"{s.name} is true or false: {s.name} == 0 or {s.name} == 1")
    low, high = (-(2**53), 2**53) if s.dtype.is_float else s.dtype.limits
    if not low <= rhs <= high or held(rhs, s.dtype) != rhs:
        raise RefusedError("E-FACT", f"{s.name}, of type {s.dtype.value}, is never exactly {rhs}")
    if s.dtype is DType.BOOL:
        return Binary(
            BinaryOp.EQ, Var(s.name, s.dtype), Const((rhs == 1) == (op == "=="), s.dtype), DType.BOOL
        )
    return Binary(_COMPARISONS[op], Var(s.name, s.dtype), Const(held(rhs, s.dtype), s.dtype), DType.BOOL)


def _scalar(kernel: Kernel, name: str) -> Scalar:
    data = {s.name: s for s in kernel.scalars if not s.is_size}
    if name in data:
        return data[name]
    if any(s.name == name and not s.implied for s in kernel.scalars):
        raise RefusedError("E-FACT", f"{name} is a size", repair=f"specialize({name} ...)")
    raise RefusedError(
        "E-NAME",
        f"{name} is no parameter that is passed by value",
        repair=f"parameters: {', '.join(sorted(data))}" if data else None,
    )
