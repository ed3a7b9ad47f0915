"""assume: a variant for some values of the parameters that are no sizes."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.program import Name, Operation, print_value
from evolve.ir.expr import FALSE, TRUE, Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.settled import data_facts, held, settled, under
from evolve.ir.types import DType
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.knowledge import COMPARISONS, MIRRORED, by_term


@transform("assume")
def assume(call: Call) -> Result:
    """See dsl_spec/assume.yaml."""
    return by_term(call, _with)


def _with(kernel: Kernel, term: Operation) -> Kernel:
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
        lhs, rhs, op = rhs, lhs, MIRRORED[op]
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
    return Binary(COMPARISONS[op], Var(s.name, s.dtype), Const(held(rhs, s.dtype), s.dtype), DType.BOOL)


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
