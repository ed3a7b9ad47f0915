"""Check `equality`: each statement computes the source's expression, operator by operator (`pairing`).

Approximate functions may stand in place of the source's where the contract allows them. What is loaded is the
business of `value_flow`.
"""

from __future__ import annotations

from evolve.ir.approximate import is_approximate
from evolve.ir.expr import Const, Load
from evolve.ir.narrow import NARROW, copied
from evolve.ir.poly import limited
from evolve.ir.printer import print_expr
from evolve.ir.scaled import rescaling
from evolve.ir.visit import subexpressions
from evolve.legality.instances import Statement
from evolve.legality.pairing import MismatchError, compared, monoid_of
from evolve.legality.proof import Finding, Proof, refuted
from evolve.legality.witness import describe, sample_instance
from evolve.workload.model import FAST_CONTRACTS


def check_equality(p: Proof) -> list[Finding]:
    """E-EXPR, E-NUMERICS."""
    out: list[Finding] = []
    for st in p.real:
        src = p.source_of(st)
        assert src is not None
        try:
            with limited(p.limits.operations):
                out += _allowed(p, st, compared(p, st, src).approximate)
        except MismatchError as m:
            witness = None
            if m.where is not None:
                witness = sample_instance(p.target, m.where)
            out.append(refuted("E-EXPR", _difference(st, src, m), witness))
    for st in p.target.statements:
        out += _new(p, st) + _rounded(p, st)
    return out


def _difference(st: Statement, src: Statement, m: MismatchError) -> str:
    """The expressions where they part, or the statements: one may store what the other adds."""
    same = monoid_of(st.leaf) == monoid_of(src.leaf)
    parted = f"computes {print_expr(m.target)} where the source has {print_expr(m.source)}"
    return f"{describe(st)} {parted if same else f'stands for {describe(src)} of the source'}"


def _rounded(p: Proof, st: Statement) -> list[Finding]:
    """Whether a statement that rounds to bfloat16 may: by the contract, and because it copies an input. An
    intermediate result is not rounded."""
    if not _rounds(st):
        return []
    if p.limits.numerics != "mixed":
        message = f"{describe(st)} rounds to bfloat16, and numerics are {p.limits.numerics}"
        return [refuted("E-NUMERICS", message, repair="leave it out, or run with --numerics mixed")]
    load = copied(st.leaf)
    if load is None or load.buffer not in p.target.inputs:
        return [refuted("E-NUMERICS", f"{describe(st)} rounds to bfloat16 what is no input of the kernel")]
    return []


def _rounds(st: Statement) -> bool:
    """Whether what a statement evaluates is bfloat16 and not only a copy of what is."""
    return st.leaf.value.dtype is NARROW and not isinstance(st.leaf.value, Load)


def _allowed(p: Proof, st: Statement, approximate: list[str]) -> list[Finding]:
    """Whether the contract allows what a statement computes approximately."""
    if not approximate or p.limits.numerics in FAST_CONTRACTS:
        return []
    what = ", ".join(dict.fromkeys(approximate))
    message = f"{describe(st)} computes {what} approximately, and numerics are {p.limits.numerics}"
    return [refuted("E-NUMERICS", message)]


def approximations(p: Proof) -> tuple[str, ...]:
    """What a target that passed the check computes approximately, in words: premises under the contract."""
    out = []
    for st in p.target.statements:
        if _rounds(st):
            out.append(f"{st.reads[-1].load.buffer} may be rounded to bfloat16 in {describe(st)}")
        src = p.source_of(st)
        said = _rescaled(st) if src is None else compared(p, st, src).approximate
        if said:
            out.append(f"{', '.join(dict.fromkeys(said))} may be approximate in {describe(st)}")
    return tuple(dict.fromkeys(out))


def _rescaled(st: Statement) -> list[str]:
    """Approximate functions of a statement without an origin."""
    return [x.fn for x in subexpressions(st.leaf.value) if is_approximate(x)]


def _new(p: Proof, st: Statement) -> list[Finding]:
    """Statements without an origin: copies, starts and combines of partials, none of which converts."""
    known = st.is_copy or st.is_combine or isinstance(st.leaf.value, Const) or rescaling(st.leaf) is not None
    if st.leaf.origin is None and not known:
        return [refuted("E-EXPR", f"{describe(st)} has no origin and is neither copy nor reduction")]
    if st.leaf.origin is None and (found := _allowed(p, st, _rescaled(st))):
        return found
    kept = [p.target.buffers[st.leaf.buffer].dtype, st.leaf.value.dtype] if st.leaf.origin is None else []
    for r in st.reads:
        if p.target.buffers[r.load.buffer].dtype is not r.load.dtype:
            return [refuted("E-EXPR", f"{describe(st, r)} reads another type than is stored")]
    if len(set(kept)) > 1:
        return [refuted("E-EXPR", f"{describe(st)} converts {kept[1].value} to {kept[0].value}")]
    return []
