"""`prove`: run every check on a source and a target kernel and give the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from evolve.dsl.diagnostic import Diagnostic
from evolve.ir.data import rests_on_ends
from evolve.ir.expr import Binary, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.ir.poly import Frame, IslLimitError, NonAffineError, Sizes, fixed_scalars, limited, sizes_of
from evolve.ir.printer import print_expr, print_premise
from evolve.ir.settled import under
from evolve.ir.stmt import Buffer, Reduce
from evolve.ir.types import MAX, MIN
from evolve.legality.analysis import SET_UP, Analysis, analysis_of, facts_of, plain
from evolve.legality.bounds import check_bounds
from evolve.legality.coverage import check_coverage
from evolve.legality.equality import approximations, check_equality
from evolve.legality.flow import Flow
from evolve.legality.instances import ModelError
from evolve.legality.limits import alignments, check_limits, grid_facts
from evolve.legality.memory import remembered
from evolve.legality.model import Model
from evolve.legality.online import check_online
from evolve.legality.placement import check_layout
from evolve.legality.proof import Finding, Original, Proof, unknown
from evolve.legality.races import check_races, check_vector, source_race
from evolve.legality.repairs import repaired
from evolve.legality.uniform import check_uniform
from evolve.legality.value_flow import check_flow
from evolve.legality.verdict import CheckRun, Limits, Status, Verdict
from evolve.workload.model import FAST_CONTRACTS

CHECKS: dict[str, Callable[[Proof], list[Finding]]] = {
    "limits": check_limits,
    "layout": check_layout,
    "uniform": check_uniform,
    "bounds": check_bounds,
    "equality": check_equality,
    "races": check_races,
    "vector": check_vector,
    "online": check_online,
    "coverage": check_coverage,
    "flow": check_flow,
}
"""In the order they run. Flow means something only after races; it is left out when a check before failed."""
BY_LAUNCH = frozenset({"limits", "layout", "uniform", "races", "vector"})
"""What concerns the threads and blocks of one launch: launches are ordered. The others see the whole."""

UNCONTRACTED = "numerics exact: as the kernel compiled without FMA contraction (--fmad=false), bit for bit"
UNSIGNED_ZEROS = "numerics exact: a maximum or minimum that is zero may have the other sign"
RESCALED = "weighted sums do not overflow before they are rescaled: each weight times the terms is a number"

_KEEP_SOURCES = 16
_KEEP_VERDICTS = 2048


def prove(
    source: Kernel, target: Kernel, limits: Limits | None = None, *, skip: Collection[str] = ()
) -> Verdict:
    """Whether `target` (barriers placed) computes what `source` (the lifted kernel) computes.

    The proof holds for all scalars that satisfy the assumptions of the target, which must keep those of the
    source: they become the guard. What these decide in the source is decided (`ir.settled`). Never raises
    for a kernel that passes `evolve.ir.verify`: what cannot be analysed is UNKNOWN. `skip` names checks to
    leave out and is for tests only.
    """
    limits = limits or Limits()
    target = plain(target)
    # Equality of the trees, not of their text: the text leaves out some types.
    key = (source, target, limits, tuple(sorted(skip)))

    def judge() -> Verdict:
        return _in_one_order(source, target, limits, skip, _prove(source, target, limits, skip))

    return remembered("verdicts", key, _KEEP_VERDICTS, judge)


def _prove(source: Kernel, target: Kernel, limits: Limits, skip: Collection[str]) -> Verdict:
    facts = facts_of(target)
    source = under(source, facts)
    runs: list[CheckRun] = []
    findings: list[Finding] = []
    opaque: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()
    proof: Proof | None = None
    start = time.perf_counter()
    try:
        _is_bit_for_bit(source, limits)
        _keeps_assumptions(source, facts)
        with limited(SET_UP * limits.operations):
            original = _original(source, facts, limits, skip)
            analysis = analysis_of(target, facts, limits.operations)
            sizes = analysis.bare.sizes
            with limited(limits.operations):
                _same_parameters(source, target, sizes)
            opaque = sizes.opaque
            if sizes.known.is_empty():
                raise ModelError("E-ASSUME", "no sizes satisfy the assumptions")
            model = analysis.model(target)
            launch = (
                *alignments(target),
                *map(print_expr, grid_facts(target)),
                *map(print_premise, target.contents),
            )
            parts = _parts(target, facts, limits)
            proof = Proof(original, model, analysis, Flow(model, limits.operations), limits, parts)
            findings += proof.claims()
    except (ModelError, NonAffineError, IslLimitError) as e:
        findings.append(_from_error(e))
    runs.append(CheckRun("model", _since(start)))
    premises: tuple[str, ...] = ()
    if not findings:
        assert proof is not None
        for name, check in CHECKS.items():
            if name in skip or (name == "flow" and findings):
                continue
            start = time.perf_counter()
            try:
                with limited(SET_UP * limits.operations):
                    for part in proof.launches if name in BY_LAUNCH else (proof,):
                        findings += check(part)
            except (ModelError, NonAffineError, IslLimitError) as e:
                findings.append(_from_error(e))
            runs.append(CheckRun(name, _since(start)))
        if not findings:
            premises = _premises(proof, limits)
    return Verdict(
        _status(findings),
        tuple(repaired(f.diagnostic) for f in findings),
        _scope(facts),
        _assumptions(facts, opaque, launch),
        tuple(runs),
        premises,
    )


def _in_one_order(
    source: Kernel, target: Kernel, limits: Limits, skip: Collection[str], verdict: Verdict
) -> Verdict:
    """Under `exact`, where a sum of the source stands for none that has its terms in another order, what is
    refused for want of a statement and would else be right is refused for that."""
    codes = {d.code for d in verdict.diagnostics}
    if limits.numerics != "exact" or "E-COVERAGE" not in codes:
        return verdict
    if not prove(source, target, replace(limits, numerics="reassociate"), skip=skip).proved:
        return verdict
    (left_out, *_) = (d for d in verdict.diagnostics if d.code == "E-COVERAGE")
    reason = Diagnostic(
        "E-NUMERICS",
        f"{left_out.message}: what is added up elsewhere in its place may be in another order, and numerics "
        "are exact",
        witness=left_out.witness,
        repair="leave the statement out, or run with --numerics reassociate",
    )
    return replace(verdict, diagnostics=(reason,))


def _premises(proof: Proof, limits: Limits) -> tuple[str, ...]:
    """What a proof rests on that lifting does not say: the ends of arrays that are searched or read, and what
    it takes for equal under the contract and would not without it."""
    ends = rests_on_ends(proof.source.model.rendered, proof.target.rendered)
    return (*ends, *_taken_for_equal(proof, limits))


def _taken_for_equal(proof: Proof, limits: Limits) -> tuple[str, ...]:
    if limits.numerics == "exact":
        return (UNCONTRACTED, UNSIGNED_ZEROS) if _takes_extremes(proof) else (UNCONTRACTED,)
    weighted = (RESCALED,) if _weighs(proof) else ()
    if limits.numerics not in FAST_CONTRACTS:
        return weighted
    return (*weighted, *(f"numerics {limits.numerics}: {x}" for x in approximations(proof)))


def _weighs(proof: Proof) -> bool:
    """Whether weights are summed up relative to a maximum that still grows, where each counts in full."""
    added = (proof.scaled.term(st.leaf) for st in proof.target.statements)
    return any(x is not None and isinstance(x.plain, Binary) for x in added)


def _takes_extremes(proof: Proof) -> bool:
    """Whether anything is reduced to its maximum or minimum, for which 0 and -0 are equal."""
    leaves = (st.leaf for st in proof.target.statements)
    return any(isinstance(x, Reduce) and x.monoid in (MAX, MIN) and x.value.dtype.is_float for x in leaves)


def _parts(target: Kernel, facts: tuple[Expr, ...], limits: Limits) -> tuple[tuple[Model, Analysis], ...]:
    """Each launch alone, where there are several."""
    kernels = launches(target)
    if kernels == (target,):
        return ()
    found = ((k, analysis_of(k, facts, limits.operations)) for k in kernels)
    return tuple((a.model(k), a) for k, a in found)


def _is_bit_for_bit(source: Kernel, limits: Limits) -> None:
    """Raises ModelError, under `exact`, for a source that is not what it was lifted from to the last bit."""
    if limits.numerics == "exact" and source.loosened:
        raise ModelError(
            "E-NUMERICS", f"it was not lifted for exact numerics: {source.loosened[0]}", refuted=False
        )


def _keeps_assumptions(source: Kernel, facts: tuple[Expr, ...]) -> None:
    """Raises ModelError when the target, whose assumptions become the guard, lost one of the source's."""
    for fact in facts_of(source):
        if fact not in facts:
            raise ModelError(
                "E-ASSUME", f"the source relies on {print_expr(fact)}, the target does not say so"
            )


def _same_parameters(source: Kernel, target: Kernel, sizes: Sizes) -> None:
    """Raises ModelError unless both take the same scalars and the same arrays with the same contents, extents
    being equal under the assumptions (a specialized size may appear as its value)."""
    same = source.scalars == target.scalars and len(source.buffers) == len(target.buffers)
    same = same and source.contents == target.contents
    frame = Frame.of("", (), sizes)
    for a, b in zip(source.buffers, target.buffers, strict=False):
        same = same and _but_sizes(a) == _but_sizes(b)
        if not same:
            break
        for x, y in zip(a.extents, b.extents, strict=True):
            differ = sizes.known.subtract(frame.affine(x).eq_set(frame.affine(y)).params())
            same = same and bool(differ.is_empty())
    if not same:
        raise ModelError("E-SIGNATURE", "the kernels do not have the same parameters", refuted=False)


def _but_sizes(b: Buffer) -> tuple[object, ...]:
    return b.name, b.dtype, b.space, len(b.extents), b.padding


def _original(source: Kernel, facts: tuple[Expr, ...], limits: Limits, skip: Collection[str]) -> Original:
    """The source side, from this thread's cache."""
    key = (source, facts, limits.operations, "source-race" in skip)
    found = remembered("sources", key, _KEEP_SOURCES, lambda: _analyse(source, facts, limits, skip))
    if isinstance(found, ModelError):
        raise found
    return found


def _analyse(
    source: Kernel, facts: tuple[Expr, ...], limits: Limits, skip: Collection[str]
) -> Original | ModelError:
    try:
        with limited(SET_UP * limits.operations):
            model = Model(source, sizes_of(source, facts), source=True, prefix="#S")
        if "source-race" not in skip:
            race = source_race(model, limits.operations)
            if race is not None:
                return SourceError(race.diagnostic)
        return Original.of(model, limits.operations)
    except NonAffineError as e:
        return ModelError(
            "E-NONAFFINE", f"the source has an access or bound that is not affine: {e}", refuted=False
        )
    except ModelError as e:
        return e


class SourceError(ModelError):
    """The source itself is not a program with one meaning."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.code, diagnostic.message)
        self.diagnostic = diagnostic


def _from_error(e: Exception) -> Finding:
    if isinstance(e, SourceError):
        return Finding(e.diagnostic)
    if isinstance(e, ModelError):
        return Finding(Diagnostic(e.code, e.message, witness=e.witness), e.refuted)
    if isinstance(e, IslLimitError):
        return unknown("E-LIMIT", f"isl-limit: the question is too large for the prover ({e})")
    return unknown("E-NONAFFINE", f"not affine: {e}")


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def _status(findings: list[Finding]) -> Status:
    if not findings:
        return Status.PROVED
    return Status.REFUTED if any(f.refuted for f in findings) else Status.UNKNOWN


def _scope(facts: tuple[Expr, ...]) -> str:
    fixed = fixed_scalars(facts)
    if not fixed:
        return "symbolic"
    return f"fixed{{{', '.join(f'{k}={v}' for k, v in sorted(fixed.items()))}}}"


def _assumptions(
    facts: tuple[Expr, ...], opaque: tuple[str, ...], launch: tuple[str, ...]
) -> tuple[str, ...]:
    stated = tuple(text for f in facts if (text := print_expr(f)) not in opaque)
    always = ("sizes are at least 1", "distinct buffers do not overlap", "index arithmetic does not wrap")
    return (*always, *stated, *launch)
