"""Programs small enough to run every instance of them, right and wrong, and the prover's answers beside that.

A family is a random program (moves from `evolve.transforms.moves`, alone or after a good program) and a few
damaged versions of its result, damaged before or after barriers are placed. Each is judged by running it at
several small sizes (`tests.legality.judge`): accepted and wrong is a false accept, refused and right at all
sizes tried a false reject.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse, parse_statement
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import conjunction
from evolve.ir.kernel import Kernel
from evolve.ir.poly import fixed_scalars
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import loop_sites
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Verdict
from evolve.transforms.apply import apply, apply_program
from evolve.transforms.moves import MoveLimits, candidates
from evolve.transforms.names import NameTable
from tests import kernels_ir
from tests.illegal.lifted import NAMES, source
from tests.illegal.mutate import DAMAGE
from tests.illegal.templates import TEMPLATES
from tests.legality.judge import FaultError, Launch, UnjudgedError, contents_for, false_claim, why_wrong

FIXTURES = ("vecadd", "softmax", "transpose", "matmul", "stencil", "saxpy_in_place")
"""Kernels of `tests.kernels_ir`, drawn beside those that are lifted from text."""
KERNELS = (*NAMES, *(f"fixture {n}" for n in FIXTURES))
ORDERS = ("reversed", "permuted", "interleaved")
"""Of threads and blocks: every program is run forward and in one of these."""
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17)
FIXED = (4, 6, 8, 12, 16, 32)
WIDE = (32, 64, 96)
"""Sizes that `specialize` may fix where a reduction over whole warps is to be possible."""
LEFT_OUT = frozenset[str]()
"""Primitives that are not drawn."""
ALGEBRAIC = frozenset(("online",))
"""Those after which values are the same by algebra: programs with them are judged with numbers."""
MOVES = MoveLimits(
    numbers={
        "specialize.condition.equals": FIXED,
        "specialize.condition.multiple_of": (2, 4),
        "split.factor": (2, 3, 4, 8, 32),
        "tile.sizes": (2, 3, 4),
        "unroll.loop": (16,),
    }
)
"""The moves of `dsl_spec/`, with numbers for small sizes, odd ones among them."""
MOST_CELLS = 700
"""Product of the sizes that a kernel is run at, fixed ones apart."""
MOST_FIXED = 6000
"""The same with the fixed ones."""
MOST_LOOPS = 20
LONGEST = 12
"""Statements in a random program."""


@dataclass(frozen=True)
class Case:
    """A scheduled kernel: barriers placed, and how it came about."""

    kernel_name: str
    text: str
    primitives: frozenset[str]
    damage: str
    kernel: Kernel


@dataclass(frozen=True)
class Judged:
    """The prover's verdict, and what is wrong with the program (None: nothing at the sizes tried).

    `wrong` is a fault, `value`, or `claim`: the results are right, but statements are not the instances of
    the source that they claim to be, which is what a proof is of.
    """

    case: Case
    verdict: Verdict
    wrong: str | None
    sizes: tuple[dict[str, int], ...]

    @property
    def false_accept(self) -> bool:
        return self.verdict.proved and self.wrong is not None

    @property
    def false_reject(self) -> bool:
        return not self.verdict.proved and self.wrong is None


@cache
def original(name: str) -> Kernel:
    """The kernel that programs start from."""
    if name.startswith("fixture "):
        made: Kernel = getattr(kernels_ir, name.removeprefix("fixture "))()
        return made
    return source(name).kernel


def family(rng: random.Random, damaged: int = 3) -> Iterator[Case]:
    """A random program of a random kernel, then damaged versions of it."""
    name = rng.choice(KERNELS)
    kernel, lines = _program(name, rng)
    primitives = frozenset(primitive_of(x) for x in lines)
    text = f"# {name}\n" + "".join(f"{x}\n" for x in lines)
    whole = finish(kernel)
    yield Case(name, text, primitives, "", whole)
    for _ in range(damaged):
        late = rng.random() < 0.4
        kinds = [rng.choice(list(DAMAGE)) for _ in range(rng.choice((1, 1, 1, 2)))]
        try:
            bad = whole if late else kernel
            for what in kinds:
                bad = DAMAGE[what](bad, rng)
            bad = bad if late else finish(bad)
            verify(bad)
        except (MalformedKernelError, LookupError):
            continue
        if bad != whole:
            when = "# barriers placed\n" if late else ""
            said = text + when + "".join(f"# then {x}\n" for x in kinds)
            yield Case(name, said, primitives, " and ".join(kinds), bad)


def primitive_of(statement: str) -> str:
    """The primitive that a statement calls."""
    found = re.match(r"(?:[\w., ]+ = )?(\w+)\(", statement)
    assert found is not None, statement
    return found[1]


def _program(name: str, rng: random.Random) -> tuple[Kernel, list[str]]:
    kernel, names, lines = original(name), NameTable(), list[str]()
    if name in TEMPLATES and rng.random() < 0.4:
        lines = [x for x in rng.choice(TEMPLATES[name]).split("\n") if x]
        applied = apply_program(kernel, parse("\n".join(lines)))
        kernel, names = applied.kernel, applied.names
        length = rng.choice((0, 0, 1, 2, 3))
    else:
        sizes = [s.name for s in kernel.scalars if s.is_size and not s.implied]
        wide = rng.choice(sizes) if rng.random() < 0.3 else ""
        for n in sizes:
            if n == wide or rng.random() < 0.4:
                lines.append(f"specialize({n} == {rng.choice(WIDE if n == wide else FIXED)})")
                kernel, names = apply(kernel, parse_statement(lines[-1]), names)
        length = rng.randint(1, LONGEST)
    for _ in range(length):
        if len(loop_sites(kernel.body)) > MOST_LOOPS:
            break
        kernel, names = _move(kernel, names, rng, lines)
    return kernel, lines


def _move(kernel: Kernel, names: NameTable, rng: random.Random, lines: list[str]) -> tuple[Kernel, NameTable]:
    """One legal move, primitives equally likely; none where six draws are refused."""
    by: dict[str, list[str]] = {}
    for group in candidates(kernel, MOVES):
        for text in group:
            by.setdefault(primitive_of(text), []).append(text)
    by = {primitive: texts for primitive, texts in by.items() if primitive not in LEFT_OUT}
    for _ in range(6 if by else 0):
        text = rng.choice(by[rng.choice(list(by))])
        try:
            kernel, names = apply(kernel, parse_statement(text), names)
        except RefusedError:
            continue
        lines.append(text)
        break
    return kernel, names


def judged(case: Case, rng: random.Random, tries: int = 2) -> Judged | None:
    """The prover's answer and the truth; None where the program cannot be run here."""
    start = original(case.kernel_name)
    verdict = prove(start, case.kernel, Limits())
    wanted = _witnessed(verdict, start) if not verdict.proved else []
    numbers = bool(case.primitives & ALGEBRAIC)
    ran: list[dict[str, int]] = []
    for _ in range(tries + len(wanted)):
        sizes = wanted.pop() if wanted else _sizes(case.kernel, rng)
        if sizes is None or sizes in ran or not _holds(case.kernel, sizes):
            continue
        try:
            launch = Launch(sizes, contents_for(start, sizes, rng))
            wrong = why_wrong(
                start,
                case.kernel,
                launch,
                ("forward", rng.choice(ORDERS)),
                rng.randrange(1 << 30),
                numbers=numbers,
            )
        except UnjudgedError:
            continue
        first = not ran
        ran.append(sizes)
        if wrong is None and (first or not verdict.proved):
            wrong = "claim" if false_claim(start, case.kernel, launch, numbers=numbers) else None
        if wrong is not None:
            return Judged(case, verdict, wrong, tuple(ran))
    return Judged(case, verdict, None, tuple(ran)) if ran else None


def _holds(kernel: Kernel, sizes: dict[str, int]) -> bool:
    return bool(evaluate(conjunction(kernel.assumptions), sizes))


def _cells(sizes: dict[str, int]) -> int:
    cells = 1
    for n in sizes.values():
        cells *= n
    return cells


def _sizes(kernel: Kernel, rng: random.Random) -> dict[str, int] | None:
    """Sizes under the kernel's assumptions, few cells in all."""
    fixed = fixed_scalars(kernel.assumptions)
    free = [s.name for s in kernel.scalars if s.is_size and s.name not in fixed]
    for _ in range(400):
        drawn = {n: rng.choice(SIZES) for n in free}
        sizes = drawn | fixed
        if _cells(drawn) <= MOST_CELLS and _cells(sizes) <= MOST_FIXED and _holds(kernel, sizes):
            return sizes
    return None


def _witnessed(verdict: Verdict, kernel: Kernel) -> list[dict[str, int]]:
    """The sizes that witnesses name, where all are named and small."""
    names = {s.name for s in kernel.scalars if s.is_size}
    out = []
    for d in verdict.diagnostics:
        found = {k: int(v) for k, v in re.findall(r"([\w.]+)=(\d+)", (d.witness or "").split(", with ")[-1])}
        sizes = {k: v for k, v in found.items() if k in names}
        if sizes.keys() == names and _cells(sizes) <= MOST_FIXED:
            out.append(sizes)
    return out[:2]


__all__ = ["KERNELS", "Case", "FaultError", "Judged", "family", "judged", "original"]
