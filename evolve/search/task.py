"""The real problem behind the search: a lifted kernel, the compiler and a scorer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from evolve.codegen.errors import CodegenError
from evolve.codegen.launcher import render_launcher
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.parser import parse
from evolve.dsl.program import Program, print_program
from evolve.frontend.lift import Lifted
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Kernel, Module, Original
from evolve.ir.ordered import rounds
from evolve.ir.printer import print_expr, print_kernel
from evolve.ir.stmt import For, Reduce
from evolve.ir.visit import local_buffers, walk
from evolve.legality.verdict import Limits
from evolve.scoring.correctness import LARGEST_FIRST_BYTES, too_large
from evolve.scoring.task import Outcome, Task, make_task
from evolve.search.devices import choose_device
from evolve.search.lifting import lifted_as_said
from evolve.search.problem import (
    SAY_LAUNCH,
    Comparison,
    Compiled,
    Device,
    ProblemInfo,
    ProblemRequest,
    Score,
    Sol,
    TextFound,
    Verdict,
)
from evolve.target.limits import REGISTER_FILE
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import MoveLimits, legal_moves
from evolve.workload.model import Workload
from evolve.workload.sizes import size_text
from evolve.workload.structure import uneven
from evolve.workload.toml import to_toml

if TYPE_CHECKING:
    from evolve.scoring.estimated import EstimatedScorer


class KernelProblem:
    """One kernel on one workload and one device. Implements `search.problem.Problem`."""

    def __init__(self, lifted: Lifted, task: Task, device: Device, numerics: str) -> None:
        self.lifted = lifted
        self.task = task
        self.device = device
        self.numerics = numerics
        self.assumed_launch = ""

    @cached_property
    def scorer(self) -> EstimatedScorer:
        """Made when first needed."""
        from evolve.scoring.estimated import EstimatedScorer

        return EstimatedScorer(self.task)

    @property
    def limits(self) -> Limits:
        """What the prover checks programs against."""
        profile, contract = self.task.profile, self.task.workload.numerics
        shared = profile.memory.shared_bytes_per_block_optin
        registers = profile.limits.registers_per_block or REGISTER_FILE
        return Limits(profile.limits.threads_per_block, shared, numerics=contract, registers=registers)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What lifting and the workload assume."""
        return self.task.workload.assumed

    def info(self) -> ProblemInfo:
        """What is known before the search."""
        w, b = self.task.workload, self.task.bounds[0]
        sizes = {s.name: w.timed[0][s.name] for s in self.task.source.kernel.scalars if s.is_size}
        total = sum(x.time_s for x in self.task.bounds)
        hard = sum(x.hard_time_s for x in self.task.bounds)
        estimated = uneven(w) if self.device.timing == "estimated" else ()
        return ProblemInfo(
            entry=w.entry,
            device=self.device,
            sol=Sol(total * 1e6, hard * 1e6, b.binding),
            workload_toml=to_toml(w, assumed_launch=bool(self.assumed_launch)),
            workload=w.as_dict() | {"sizes": sizes},
            assumptions=(*self.assumptions, *estimated),
            summary=print_kernel(self.task.source.kernel),
            features=self.task.features[0].to_json(),
            numerics=self.numerics,
            kernel=self.task.source.kernel,
            target=self.task.profile,
            assumed_launch=self.assumed_launch,
        )

    def parse(self, text: str) -> Program:
        """Raises EvolveError `malformed-program`."""
        return parse(text)

    def canonical(self, program: Program) -> str:
        """The printed program."""
        return print_program(program)

    def compile(self, program: Program) -> Compiled:
        """Applies, proves and packs."""
        return self._compile(program, blame=False)

    def explain(self, program: Program) -> Compiled:
        """As `compile`; a refusal of the result is blamed on a statement, at the price of more proofs."""
        found = self._compile(program, blame=True)
        if found.verdict == "PROVED" or found.diagnostics[0].get("statement") is not None:
            return found
        return self._blamed(program, found)

    def _blamed(self, program: Program, refused: Compiled) -> Compiled:
        """A refusal of what a proved program is rendered to, blamed on the statement that brings it about."""
        codes = {d["code"] for d in refused.diagnostics}
        number = len(program.statements) - 1
        while number > 0:
            before = self._compile(Program(program.statements[:number]), blame=False)
            if not codes & {d["code"] for d in before.diagnostics}:
                break
            number -= 1
        place = {"statement": number, "line": program.statements[number].line}
        return replace(refused, diagnostics=tuple({**d, **place} for d in refused.diagnostics))

    def _compile(self, program: Program, *, blame: bool) -> Compiled:
        done = compile_program(self.task.source, program, self.limits, blame=blame)
        verdict = cast(Verdict, done.verdict.status.name)
        diagnostics = tuple(map(_as_dict, done.verdict.diagnostics))
        if done.module is None:
            return Compiled(verdict, diagnostics)
        try:
            rendered = render(done.module)
        except CodegenError as e:
            refused = Diagnostic("E-RENDER", e.message, repair=e.hint)
            return Compiled("REFUTED", (_as_dict(refused),))
        unused = self._unused(rendered)
        if unused is not None:
            return Compiled("REFUTED", (_as_dict(unused),))
        unchecked = self._unchecked(rendered)
        if unchecked is not None:
            return Compiled("UNKNOWN", (_as_dict(unchecked),))
        return Compiled(verdict, diagnostics, rendered.fingerprint, done.module, done.verdict.premises)

    def _unused(self, rendered: Rendered) -> Diagnostic | None:
        """Why a program is no use here: at no timed size does one of its variants run."""
        if not rendered.variants:
            return None
        timed = self.task.workload.timed
        if any(concretise(rendered, s)[0] >= 0 for s in timed):
            return None
        sizes = "; ".join(", ".join(f"{n} = {v}" for n, v in s.items()) for s in timed)
        guard = print_expr(rendered.variants[0].guard)
        return Diagnostic(
            "E-GUARD-TIMED",
            f"at the timed sizes ({sizes}) the condition {guard} is false, so the original would run",
            repair="specialize to a condition that the timed sizes satisfy",
        )

    def _unchecked(self, rendered: Rendered) -> Diagnostic | None:
        """Why a variant could not be executed: its condition holds at large sizes only."""
        found = too_large(self.task, rendered)
        if found is None:
            return None
        at = ", ".join(f"{n} = {v}" for n, v in found.sizes.items())
        most = f"{found.bytes / 2**20:.0f} MiB of arrays, {found.threads} threads"
        return Diagnostic(
            "E-GUARD-CHECK",
            f"the smallest sizes that satisfy {print_expr(rendered.variants[found.variant].guard)} are {at} "
            f"({most}): too large to be executed under checks",
            repair="specialize to divisors, or to fewer sizes",
        )

    def score(self, compiled: Compiled) -> Score:
        """Builds, executes, checks and estimates."""
        return self._as_score(self.scorer.score(compiled.payload), compiled.payload)

    def begin(self, compiled: Compiled) -> Score | Any:
        """The first stage of `score`: a Score if that decides it, else what `look` and `conclude` take."""
        begun = self.scorer.begin(compiled.payload)
        if isinstance(begun, Outcome):
            return self._as_score(begun, compiled.payload)
        return compiled.payload, begun

    def look(self, begun: Sequence[Any]) -> Sequence[Any]:
        """What one disassembly of all of them shows. May raise EvolveError: then `conclude` looks itself."""
        return self.scorer.look([executed for _, executed in begun])

    def conclude(self, begun: Any, seen: Any | None) -> Score:
        """The last stage of `score`; `seen` is its entry of `look`, or None."""
        module, executed = begun
        return self._as_score(self.scorer.conclude(executed, seen), module)

    def baseline(self) -> Score:
        """The kernel as given."""
        return self._as_score(self.scorer.baseline(), self.task.original)

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        """Of two estimates there is nothing to measure: raises TypeError."""
        raise TypeError("estimates are not compared by measuring again")

    def _as_score(self, o: Outcome, module: Module) -> Score:
        return as_score(o, self._source(module))

    def render(self, compiled: Compiled) -> str:
        """The CUDA text of a proved module, with the host function that picks a variant and launches it."""
        return self._source(compiled.payload)

    def read_back(self, compiled: Compiled) -> TextFound | None:
        """The text of a proved module, launcher and all, compared with it; None for the kernel as given."""
        from evolve.validation.launching import validate_launcher
        from evolve.validation.validate import validate

        module: Module = compiled.payload
        if not module.variants:
            return None
        rendered = render(module)
        found = validate(module, rendered)
        if found.proved:
            found = validate_launcher(module, rendered, with_launcher(rendered))
        return TextFound(found.status.value, found.reason, found.line)

    def _source(self, module: Module) -> str:
        return with_launcher(render(module))

    def inspect(self) -> Mapping[str, Any]:
        """What the tool sees: JSON data."""
        k, w = self.task.source.kernel, self.task.workload
        seen = describe_kernel(self.lifted, k)
        return seen | {
            "features": self.task.features[0].to_json(),
            "workload": w.as_dict(),
            "sol": [b.to_json() | {"sizes": dict(s)} for s, b in zip(w.timed, self.task.bounds, strict=True)],
        }

    def legal_moves(self, text: str) -> Sequence[str]:
        """Statements whose preconditions hold after the program."""
        applied = apply_program(self.task.source.kernel, parse(text))
        w = self.task.workload
        sizes = {s.name: tuple(int(t[s.name]) for t in w.timed) for s in applied.kernel.scalars if s.is_size}
        sms = self.task.profile.sms
        limits = MoveLimits(
            self.limits.threads_per_block,
            self.limits.shared_bytes,
            sizes,
            {"persistent.blocks": (sms, 2 * sms, 4 * sms)},
            checked_bytes=LARGEST_FIRST_BYTES,
            numerics=w.numerics,
            data={s.name: tuple(t[s.name] for t in w.timed) for s in applied.kernel.scalars if not s.is_size},
        )
        return legal_moves(applied.kernel, applied.names, limits)


def _as_dict(d: Diagnostic) -> dict[str, Any]:
    """A reason as data; places in the source only where they were looked for."""
    return {name: value for name, value in asdict(d).items() if name != "spans" or value}


def with_launcher(rendered: Rendered) -> str:
    """The text with the host function that picks a variant and launches it."""
    return f"{rendered.text}\n{render_launcher(rendered, rendered.original.params)}"


def as_score(o: Outcome, source: str) -> Score:
    """An outcome as the search sees it."""
    return Score(
        status=o.status,
        time_us=None if o.time_s is None else o.time_s * 1e6,
        fitness=o.fitness,
        source=source,
        gap=o.gap,
        detail=o.detail,
        message=o.message,
    )


def describe_kernel(lifted: Lifted, kernel: Kernel) -> dict[str, Any]:
    """`kernels`, `loops` and `buffers` of `inspect`."""
    loops = [
        {
            "name": site.stmt.var,
            "extent": print_expr(site.stmt.extent),
            "kind": site.stmt.kind.value,
            "inside": [x.var for x in site.loops],
            "line": site.stmt.span.line if site.stmt.span else None,
        }
        for site in walk(kernel.body)
        if isinstance(site.stmt, For)
    ]
    local = local_buffers(kernel.body)
    buffers = [
        {
            "name": b.name,
            "space": b.space.value,
            "dtype": b.dtype.value,
            "extents": [print_expr(e) for e in b.extents],
        }
        for b in (*kernel.buffers, *local.values())
    ]
    kernels = [{"name": kernel.name, "params": list(kernel.params), "ir": print_kernel(kernel)}]
    if lifted.notes:
        kernels[0]["notes"] = list(lifted.notes)
    return {"kernels": kernels, "loops": loops, "buffers": buffers}


def open_problem(request: ProblemRequest) -> KernelProblem:
    """Lifts the kernel, settles workload and device. Raises EvolveError."""
    lifted, workload = lifted_as_said(request)
    assumed = _assumed_launch(request, lifted, workload)
    if assumed and lifted.doubt is not None:
        message = f"how is it launched? Not with {assumed}, as would be assumed: {lifted.doubt}"
        raise EvolveError("launch-unknown", message, file=request.kernel_file, hint=SAY_LAUNCH)
    if workload.numerics == "exact":
        _refuse_updates(lifted.kernel, request.kernel_file)
    device, profile = choose_device(request.device)
    original = _launched(lifted.original, workload)
    source = Source(lifted.kernel, original, lifted.no_wrap)
    task = make_task(source, workload, profile)
    if device.kind == "cuda":
        from evolve.search.measured_task import MeasuredProblem

        problem: KernelProblem = MeasuredProblem(lifted, task, device, workload.numerics)
    else:
        problem = KernelProblem(lifted, task, device, workload.numerics)
    problem.assumed_launch = assumed
    return problem


def _assumed_launch(request: ProblemRequest, lifted: Lifted, workload: Workload) -> str:
    """Grid and block as a workload has them; "" where the file or the workload says them."""
    texts = (lifted.comment_block, request.workload_text)
    if lifted.launch is not None or any("launch" in tomllib.loads(t) for t in texts if t):
        return ""
    rows = (("grid", workload.launch.grid), ("block", workload.launch.block))
    return " and ".join(f"{name} = {json.dumps([size_text(e) for e in dims])}" for name, dims in rows)


def _refuse_updates(kernel: Kernel, file: str) -> None:
    """Raises EvolveError `exact-sum`: sums that threads make together have no order, so nothing is exact."""
    for site in walk(kernel.body):
        s = site.stmt
        if isinstance(s, Reduce) and s.atomic and rounds(s):
            message = "the kernel adds up floats atomically: in which order, and so to what, nothing says"
            hint = "use numerics reassociate"
            raise EvolveError(
                "exact-sum", message, file=file, line=s.span.line if s.span else None, hint=hint
            )


def _launched(original: Original, workload: Workload) -> Original:
    launch = workload.launch
    return replace(original, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes)
