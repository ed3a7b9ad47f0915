"""Programs small enough to run every instance of them, right and wrong, and the prover's answers beside that.

A family is a random program (moves from `evolve.transforms.moves`, alone or after a good program) under a
random contract and a few damaged versions of its result, damaged before or after barriers are placed. A part
of the families is drawn for one primitive, each as often: after a good program with it where there is one,
and it is the next move wherever it can be. Each is judged by running it at several small sizes
(`tests.legality.judge`): accepted and wrong is a false accept, refused and right at all sizes tried a false
reject.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse, parse_statement
from evolve.dsl.registry import primitives
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Call, Cast, conjunction
from evolve.ir.kernel import Kernel
from evolve.ir.poly import fixed_scalars
from evolve.ir.scaled import Scaled
from evolve.ir.settled import compared, data_facts, decided, held
from evolve.ir.types import DType
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import leaves, loop_sites, subexpressions
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Verdict
from evolve.transforms.apply import apply, apply_program
from evolve.transforms.moves import MoveLimits, candidates
from evolve.transforms.names import NameTable
from evolve.workload.model import Contract
from tests.illegal.lifted import NAMES, source
from tests.illegal.mutate import DAMAGE
from tests.illegal.templates import TEMPLATES
from tests.legality.judge import FaultError, Launch, UnjudgedError, contents_for, false_claim, why_wrong
from tests.transforms.fixtures import KERNELS as FIXTURE

FIXTURES = ("vecadd", "softmax", "transpose", "matmul", "stencil", "saxpy", "activation")
"""Kernels of `tests.transforms.fixtures`, drawn beside those that are lifted from text."""
KERNELS = (*NAMES, *(f"fixture {n}" for n in FIXTURES))
CONTRACTS: dict[Contract, int] = {"reassociate": 16, "fast": 2, "mixed": 1, "exact": 1}
"""How often each is drawn."""
DRAWN_FOR = 0.4
"""The share of families that are drawn for one primitive."""
ORDERS = ("reversed", "permuted", "interleaved")
"""Of threads and blocks: every program is run forward and in one of these."""
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 33, 70, 260, 600)
FIXED = (4, 6, 8, 12, 16, 32)
WIDE = (32, 64, 96)
"""Sizes that `specialize` may fix where a reduction over whole warps is to be possible."""
ALGEBRAIC = frozenset(("online",))
"""Those after which values are the same by algebra: programs with them are judged with numbers."""
NUMBERS = {
    "specialize.condition.equals": FIXED,
    "specialize.condition.multiple_of": (2, 4),
    "persistent.blocks": (2, 3, 5),
    "split.factor": (2, 3, 4, 8, 32),
    "tile.sizes": (2, 3, 4),
    "unroll.loop": (16,),
}
"""Those of the moves of `dsl_spec/` for small sizes, odd ones among them."""
PARAMETERS = (0, 1, 2, 3)
"""Values of parameters that are no sizes and decide something."""
MOST_CELLS = 700
"""Product of the sizes that a kernel is run at, fixed ones apart."""
MOST_FIXED = 6000
"""The same with the fixed ones."""
SLOW = {"attention": 64, "blur": 130, "scores": 300, "batched_matmul": 300}
"""Fewer, of kernels that do much with a cell."""
MOST_LOOPS = 20
LONGEST = 12
"""Statements in a random program."""


@dataclass(frozen=True)
class Case:
    """A scheduled kernel: barriers placed, and how it came about.

    `wanted` is the primitive that it was drawn for, if for one.
    """

    kernel_name: str
    text: str
    primitives: frozenset[str]
    damage: str
    kernel: Kernel
    contract: Contract = "reassociate"
    wanted: str = ""


@dataclass(frozen=True)
class Judged:
    """The prover's verdict, and what is wrong with the program (None: nothing at the sizes tried).

    `wrong` is a fault, `value`, `contract` (it rescales sums though roundings count, or approximates though
    that is not allowed), or `claim`: the results are right, but statements are not the instances of the
    source that they claim to be, which is what a proof is of.
    """

    case: Case
    verdict: Verdict
    wrong: str | None
    sizes: tuple[dict[str, int | float], ...]

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
        return FIXTURE[name.removeprefix("fixture ")]()
    return source(name).kernel


def family(rng: random.Random, damaged: int = 3) -> Iterator[Case]:
    """A random program of a random kernel, then damaged versions of it."""
    wanted = rng.choice(list(primitives())) if rng.random() < DRAWN_FOR else ""
    contract = rng.choices(list(CONTRACTS), list(CONTRACTS.values()))[0]
    if wanted == "set_precision":
        contract = rng.choice(("fast", "mixed"))
    name, kernel, lines = program_for(wanted, contract, rng)
    used = frozenset(primitive_of(x) for x in lines)
    text = f"# {name}, {contract}\n" + "".join(f"{x}\n" for x in lines)
    whole = finish(kernel)
    case = Case(name, text, used, "", whole, contract, wanted)
    yield case
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
            yield replace(case, text=said, damage=" and ".join(kinds), kernel=bad)


def primitive_of(statement: str) -> str:
    """The primitive that a statement calls."""
    found = re.match(r"(?:[\w., ]+ = )?(\w+)\(", statement)
    assert found is not None, statement
    return found[1]


def program_for(wanted: str, contract: Contract, rng: random.Random) -> tuple[str, Kernel, list[str]]:
    """A kernel's name, the kernel after a program, and the program's statements."""
    good = with_primitive(wanted) if wanted else ()
    name = rng.choice(KERNELS)
    if wanted == "assume":
        name = "fixture activation"
    if good and rng.random() < 0.7:
        name, text = rng.choice(good)
        kernel, names, lines = _after(name, text)
        length = rng.choice((0, 0, 1, 2, 3))
    elif not wanted and name in TEMPLATES and rng.random() < 0.4:
        kernel, names, lines = _after(name, rng.choice(TEMPLATES[name]))
        length = rng.choice((0, 0, 1, 2, 3))
    else:
        kernel, names, lines = original(name), NameTable(), list[str]()
        sizes = [s.name for s in kernel.scalars if s.is_size and not s.implied]
        wide = rng.choice(sizes) if rng.random() < 0.3 and name not in SLOW else ""
        for n in sizes:
            if n == wide or rng.random() < 0.4:
                lines.append(f"specialize({n} == {rng.choice(WIDE if n == wide else FIXED)})")
                kernel, names = apply(kernel, parse_statement(lines[-1]), names)
        length = rng.randint(1, LONGEST)
    deciding = {n: (rng.choice(PARAMETERS),) for n in parameters(original(name))}
    while found := next(iter(decided(kernel, deciding)), None):
        # What a branch on a parameter does is proved where an assumption decides it.
        parameter, op, value = found
        lines.append(f"assume({parameter} {op.value} {value})")
        kernel, names = apply(kernel, parse_statement(lines[-1]), names)
    limits = MoveLimits(numbers=NUMBERS, numerics=contract, data=deciding)
    for _ in range(length):
        if len(loop_sites(kernel.body)) > MOST_LOOPS:
            break
        kernel, names = _move(kernel, names, limits, wanted, rng, lines)
        if lines and primitive_of(lines[-1]) == wanted:
            wanted = ""
    return name, kernel, lines


def _after(name: str, text: str) -> tuple[Kernel, NameTable, list[str]]:
    """A kernel after a good program."""
    applied = apply_program(original(name), parse(text))
    return applied.kernel, applied.names, [x for x in text.split("\n") if x]


@cache
def with_primitive(wanted: str) -> tuple[tuple[str, str], ...]:
    """The good programs that use a primitive, with their kernels."""
    return tuple(
        (name, text)
        for name, texts in TEMPLATES.items()
        for text in texts
        if any(primitive_of(x) == wanted for x in text.split("\n") if x)
    )


@cache
def parameters(kernel: Kernel) -> tuple[str, ...]:
    """The scalars that are no sizes and that the kernel compares with something."""
    return tuple(dict.fromkeys(n for n, _, _ in compared(kernel)))


def _move(
    kernel: Kernel, names: NameTable, limits: MoveLimits, wanted: str, rng: random.Random, lines: list[str]
) -> tuple[Kernel, NameTable]:
    """One legal move, the wanted primitive if it can be, else primitives equally likely; none where six
    draws are refused."""
    by: dict[str, list[str]] = {}
    for group in candidates(kernel, limits):
        for text in group:
            by.setdefault(primitive_of(text), []).append(text)
    for turn in range(6 if by else 0):
        primitive = wanted if wanted in by and turn < 3 else rng.choice(list(by))
        text = rng.choice(by[primitive])
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
    verdict = prove(start, case.kernel, Limits(numerics=case.contract))
    if _breaks_contract(case, start):
        return Judged(case, verdict, "contract", ())
    wanted = _witnessed(verdict, start) if not verdict.proved else []
    numbers = bool(case.primitives & ALGEBRAIC)
    ran: list[dict[str, int | float]] = []
    if start.contents and not verdict.proved:
        tries += 4  # what index arrays hold may hide what is wrong
    for _ in range(tries + len(wanted)):
        sizes = _launch(case.kernel, wanted.pop() if wanted else {}, rng)
        if sizes is None or (sizes in ran and not start.contents):
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
                contract=case.contract,
            )
            first = not ran
            if wrong is None and (first or not verdict.proved):
                claims = false_claim(start, case.kernel, launch, numbers=numbers, contract=case.contract)
                wrong = "claim" if claims else None
        except UnjudgedError:
            continue
        ran.append(sizes)
        if wrong is not None:
            return Judged(case, verdict, wrong, tuple(ran))
    return Judged(case, verdict, None, tuple(ran)) if ran else None


def _breaks_contract(case: Case, start: Kernel) -> bool:
    """Whether it computes in numbers, where nothing would show, what its contract does not allow."""
    if not case.primitives & ALGEBRAIC:
        return False
    if case.contract == "exact":
        return bool(Scaled.of(case.kernel).sums)
    loose = _loose(case.kernel) - _loose(start)
    allowed = {"reassociate": (), "fast": loose - {"bf16"}, "mixed": loose}[case.contract]
    return not loose <= set(allowed)


def _loose(kernel: Kernel) -> set[str]:
    """Approximate functions that are called, and `bf16` where something is rounded to that."""
    parts = [x for leaf, _ in leaves(kernel.body) for x in subexpressions(leaf.value)]
    narrow = {x.dtype.value for x in parts if isinstance(x, Cast) and x.dtype is DType.BF16}
    return narrow | {x.fn for x in parts if isinstance(x, Call) and x.fn.startswith("fast_")}


def _holds(kernel: Kernel, sizes: dict[str, int | float]) -> bool:
    return bool(evaluate(conjunction(kernel.assumptions), sizes))


def _cells(sizes: Mapping[str, int | float]) -> float:
    cells = 1.0
    for n in sizes.values():
        cells *= n
    return cells


def _launch(kernel: Kernel, given: dict[str, int], rng: random.Random) -> dict[str, int | float] | None:
    """Sizes under the kernel's assumptions, few cells in all (or those given), and parameters that decide."""
    fixed = {**fixed_scalars(kernel.assumptions), **given}
    free = [s.name for s in kernel.scalars if s.is_size and s.name not in fixed]
    dtypes = {s.name: s.dtype for s in kernel.scalars if not s.is_size}
    deciding = [n for n in dtypes if n in parameters(kernel) or n in data_facts(kernel.assumptions)]
    for _ in range(400):
        drawn = {n: rng.choice(SIZES) for n in free}
        values = {n: held(rng.choice(PARAMETERS), dtypes[n]) for n in deciding}
        sizes = drawn | {n: v for n, v in fixed.items() if n not in dtypes}
        small = _cells(drawn) <= SLOW.get(kernel.name, MOST_CELLS) and _cells(sizes) <= MOST_FIXED
        if small and _holds(kernel, sizes | values):
            return sizes | values
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


__all__ = [
    "KERNELS", "Case", "FaultError", "Judged", "family", "judged", "original", "primitive_of", "program_for",
]  # fmt: skip
