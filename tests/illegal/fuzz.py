"""Random scheduled kernels, most of them wrong: random programs, refusals ignored, IR damaged.

Whatever the prover accepts of them must run without a finding and compute what the source computes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse, parse_statement
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import BinaryOp, compare, conjunction
from evolve.ir.kernel import Kernel
from evolve.ir.poly import fixed_scalars
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import loop_sites
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status, Verdict
from evolve.transforms.apply import apply, apply_program
from evolve.transforms.moves import MoveLimits, candidates
from evolve.transforms.names import NameTable
from tests.illegal.forcing import forgiving
from tests.illegal.lifted import NAMES, Scalars, source, workload
from tests.illegal.mutate import mutate
from tests.illegal.running import Outcome, run_kernel
from tests.illegal.templates import TEMPLATES

FORGIVABLE = (
    "E-CARRIED", "E-AXIS", "E-SHARED-SCOPE", "E-STAGE-WRITTEN", "E-REDUCE-WIDTH", "E-REDUCE-READ",
    "E-REDUCE-NEST", "E-JAM-APART", "E-JAM-EXTENT", "E-VECTOR-TAIL", "E-VECTOR-BODY", "E-VECTOR-STRIDE",
    "E-LOOP-KIND", "E-GRID-NEST", "E-INSIDE", "E-EXPAND", "E-ACCUMULATE", "E-REORDER-BOUND",
)  # fmt: skip
"""Preconditions that another layer must stand in for."""
WEIGHTS = {
    "bind": 6, "block_reduce": 3, "warp_reduce": 3, "stage": 4, "split": 3, "tile": 2, "vectorize": 3,
    "accumulate_in_register": 3, "distribute": 2, "jam": 2, "scan": 3, "cache_write": 3,
    "grid_reduce": 3, "inline": 3, "compute_at": 3, "aggregate": 2,
}  # fmt: skip
MODES = ("legal", "forgiven", "mutated", "mutated-late", "good-damaged", "good-damaged-late", "good-more")
MOST_LOOPS = 24
FIXED: dict[str, tuple[int, ...]] = {
    "accumulate": (32, 64, 40),
    "attention": (8, 16, 6),
    "batched_matmul": (4, 8, 6),
    "blur": (2, 4, 8),
    "column_sum": (32, 64, 36),
    "conv1d": (4, 32, 36),
    "cross_entropy": (32, 64, 48),
    "cumsum": (32, 64, 40),
    "difference": (16, 32, 24),
    "envelope": (32, 64, 40),
    "embedding": (16, 32, 24),
    "gather": (64, 128, 100),
    "gelu": (64, 128, 100),
    "histogram": (64, 128, 100),
    "layernorm": (32, 64, 96),
    "masked_softmax": (32, 64, 2),
    "matmul": (8, 16, 12),
    "matvec": (32, 64, 40),
    "pooling": (32, 64, 48),
    "recurrence": (17, 33, 9),
    "relax": (16, 32, 20),
    "rmsnorm": (32, 64, 96),
    "rope": (4, 16, 12),
    "row_sum": (32, 64, 40),
    "running_sum": (16, 32, 17),
    "saxpy": (64, 128, 100),
    "scores": (16, 24, 40),
    "segments": (32, 64, 40),
    "softmax": (32, 64, 48),
    "spmv": (32, 64, 40),
    "spread": (32, 64, 48),
    "stencil": (10, 18, 14),
    "stencil3x3": (10, 18, 14),
    "sweep": (5, 9, 8),
    "total": (64, 256, 200),
    "transpose": (16, 32, 24),
    "vecadd": (64, 128, 100),
}
"""Sizes that `specialize` may fix."""
SPLITS = (2, 3, 4, 5, 8, 16, 32)
TILES = (3, 4, 8, 16)


@dataclass(frozen=True)
class Candidate:
    """A scheduled kernel, barriers placed, and how it came about."""

    name: str
    text: str
    kernel: Kernel


@dataclass
class Tally:
    """What became of the candidates; `accepted_wrong` holds those that must not exist."""

    made: int = 0
    status: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    ran: int = 0
    unrendered: Counter[str] = field(default_factory=Counter)
    accepted_wrong: list[tuple[Candidate, Scalars, Outcome]] = field(default_factory=list)


def candidate(rng: random.Random, names_of: Sequence[str] = NAMES) -> Candidate | None:
    """A random schedule of a random kernel; None when nothing came of it."""
    name = rng.choice(names_of)
    mode = rng.choice(MODES)
    codes = frozenset(c for c in FORGIVABLE if rng.random() < 0.3) if mode == "forgiven" else frozenset()
    kernel, names, lines = source(name).kernel, NameTable(), list[str]()
    limits = small_moves(name)
    with forgiving(codes):
        if mode.startswith("good"):
            lines = rng.choice(TEMPLATES[name]).split("\n")
            applied = apply_program(kernel, parse("\n".join(lines)))
            kernel, names = applied.kernel, applied.names
            length = {"good-more": rng.randint(1, 4)}.get(mode, rng.choice((0, 0, 1)))
        else:
            kernel, names = _fixed(kernel, names, rng, lines, FIXED[name])
            length = rng.randint(1, 9)
        kernel = _walk(kernel, names, rng, length, lines, limits, strict=mode != "forgiven")
    text = f"# {name}, {mode} {' '.join(sorted(codes))}\n" + "".join(f"{x}\n" for x in lines if x)
    try:
        if mode in ("mutated", "good-damaged"):
            kernel, text = _damaged(kernel, text, rng)
        kernel = finish(kernel)
        if mode.endswith("-late"):
            kernel, text = _damaged(kernel, text + "# barriers placed\n", rng)
        verify(kernel)
    except (MalformedKernelError, LookupError):
        return None
    return Candidate(name, text, kernel)


def _damaged(kernel: Kernel, text: str, rng: random.Random) -> tuple[Kernel, str]:
    for _ in range(rng.choice((1, 1, 2))):
        kernel, what = mutate(kernel, rng)
        text += f"# then {what}\n"
    return kernel, text


def small_moves(name: str) -> MoveLimits:
    """The search's moves, with numbers for small sizes, odd ones among them."""
    return MoveLimits(
        numbers={
            "specialize.condition.equals": FIXED[name],
            "specialize.condition.multiple_of": (2, 4, 8),
            "split.factor": SPLITS,
            "tile.sizes": TILES,
            "unroll.loop": (16,),
        }
    )


def _fixed(
    kernel: Kernel, names: NameTable, rng: random.Random, lines: list[str], sizes: Sequence[int]
) -> tuple[Kernel, NameTable]:
    """Some sizes fixed, mostly."""
    if rng.random() < 0.7:
        for s in kernel.scalars:
            if s.is_size and not s.implied and rng.random() < 0.8:
                text = f"specialize({s.name} == {rng.choice(sizes)})"
                kernel, names = apply(kernel, parse_statement(text), names)
                lines.append(text)
    return kernel, names


def _walk(
    kernel: Kernel,
    names: NameTable,
    rng: random.Random,
    length: int,
    lines: list[str],
    limits: MoveLimits,
    *,
    strict: bool,
) -> Kernel:
    """Random moves, added to `lines`."""
    for _ in range(length):
        if len(loop_sites(kernel.body)) > MOST_LOOPS:
            break
        texts = [t for group in candidates(kernel, limits) for t in group]
        by: dict[str, list[str]] = {}
        for t in texts:
            by.setdefault(t.split("(")[0], []).append(t)
        for _ in range(6):
            kind = rng.choices(list(by), [WEIGHTS.get(k, 1) for k in by])[0]
            text = rng.choice(by[kind])
            try:
                kernel, names = apply(kernel, parse_statement(text), names)
            except RefusedError:
                continue
            except Exception:
                # With refusals passed over a transform may trip over what it relied on.
                if strict:
                    raise
                continue
            lines.append(text)
            break
    return kernel


def sizes_for(kernel: Kernel, name: str, rng: random.Random) -> dict[str, int | float] | None:
    """Small sizes under the kernel's assumptions, the uneven ones by preference."""
    # A convolution has a result only where its input is as long as its filter.
    there = (compare(BinaryOp.GE, e, 1) for b in kernel.buffers for e in b.extents)
    fact = conjunction((*kernel.assumptions, *there))
    fixed = fixed_scalars(kernel.assumptions)
    wanted = [s.name for s in kernel.scalars if s.is_size]
    base = dict(workload(name).scalars)
    menu = (1, 2, 3, 5, 7, 8, 12, 13, 16, 24, 33, 40, 48, 64)
    for _ in range(3000):
        drawn = {n: rng.choice((*menu, *FIXED[name])) for n in wanted if rng.random() < 0.7}
        trial = {**base, **drawn, **fixed}
        if evaluate(fact, trial):
            return trial
    return None


def check(
    c: Candidate, rng: random.Random, tally: Tally, cache: Path, *, skip: Collection[str] = ()
) -> Verdict:
    """Proves a candidate, checks in `skip` left out, and runs it if it was accepted."""
    src = source(c.name)
    verdict = prove(src.kernel, c.kernel, Limits(), skip=skip)
    tally.made += 1
    tally.status[verdict.status.value] += 1
    tally.codes.update({d.code for d in verdict.diagnostics})
    if verdict.status is not Status.PROVED:
        return verdict
    for _ in range(2):
        sizes = sizes_for(c.kernel, c.name, rng)
        if sizes is None:
            return verdict
        out = run_kernel(src, c.kernel, workload(c.name, sizes, seed=1), cache)
        tally.ran += 1
        if out.symptoms == {"unrendered"}:
            tally.unrendered[out.detail.split(":")[0][:60]] += 1
            return verdict
        if not out.clean:
            tally.accepted_wrong.append((c, sizes, out))
            return verdict
    return verdict
