"""Launches: what a `<<<>>>` in the file says, and one that covers the domain where there is none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from evolve.frontend.clang import Parsed
from evolve.frontend.domain import Domain, UnboundedError
from evolve.frontend.host import Dims, launch_dims, passed_twice
from evolve.frontend.locate import Found, launches
from evolve.frontend.polynomial import ONE, Poly, canonical, expression, polynomial, variable
from evolve.frontend.prove import Known, nonnegative
from evolve.frontend.refuse import RefusalError
from evolve.frontend.tidy import substitute, used
from evolve.frontend.values import AXES
from evolve.frontend.variables import Thread
from evolve.ir.expr import BinaryOp, Const, Expr, ceildiv, compare, index
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import map_stmt_exprs, variables
from evolve.target.limits import THREADS_MOST

_DEFAULT_BLOCK = {1: (256, 1, 1), 2: (16, 16, 1), 3: (8, 8, 4)}


@dataclass(frozen=True)
class LaunchInfo:
    """A `<<<>>>` that was read off: its line, grid and block over the scalars. None: the workload says so.

    `assumed`: nobody says so, but the kernel's loops let no other block be assumed; notes of the user's.
    """

    line: int | None
    grid: Dims
    block: Dims
    assumed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        if self.assumed:
            return "the assumed launch"
        return "the workload's launch" if self.line is None else f"the launch at line {self.line}"

    @property
    def threads(self) -> dict[int, int]:
        """The constant sizes of a block by axis."""
        return {a: int(e.value) for a, e in enumerate(self.block) if isinstance(e, Const)}


@dataclass
class Geometry:
    """The launch of a kernel as far as it is known.

    launch    the `<<<>>>` of the file
    shared    axes of the block (0 is x) whose threads share out loops: any number of threads will do
    unread    launches in the file that cannot be read off: file and line
    assumed   sizes that the grid is taken to have although nothing in the kernel says so, by index name
    most      threads that a block may have
    """

    launch: LaunchInfo | None
    shared: frozenset[int] = frozenset()
    unread: tuple[tuple[str, int], ...] = ()
    assumed: dict[str, str] = field(default_factory=dict)
    most: int = THREADS_MOST

    def names(self) -> frozenset[str]:
        """The scalars that the launch is computed from."""
        known = (*self.launch.grid, *self.launch.block) if self.launch else ()
        return frozenset(n for e in known for n in variables(e)) | frozenset(self.assumed.values())

    def settle(self, thread: Thread) -> None:
        """gridDim and blockDim replaced by what the launch makes them."""
        if self.launch is None:
            return
        by: dict[str, Poly] = {}
        for a, axis in enumerate(AXES):
            by[f"$gridDim.{axis}"] = polynomial(self.launch.grid[a])
            by[f"$blockDim.{axis}"] = polynomial(self.launch.block[a])
        if not used(thread.body) & by.keys():
            return
        thread.body = [map_stmt_exprs(s, lambda e: substitute(e, by)) for s in thread.body]
        thread.names = [(n, p.substitute(by)) for n, p in thread.names]
        thread.obligations = [
            replace(o, duty=replace(o.duty, poly=o.duty.poly.substitute(by))) for o in thread.obligations
        ]

    def reach(self) -> dict[str, Poly]:
        """How many values each index takes: `$global.x`, `$blockIdx.x`, `$threadIdx.x` and so on."""
        out = {name: variable(scalar) for name, scalar in self.assumed.items()}
        if self.launch is not None:
            for a, axis in enumerate(AXES):
                grid, block = polynomial(self.launch.grid[a]), polynomial(self.launch.block[a])
                out[f"$global.{axis}"] = grid * block
                out[f"$blockIdx.{axis}"] = grid
                out[f"$threadIdx.{axis}"] = block
        return out

    def spare(self, thread: Thread, name: str) -> str | None:
        """The one integer parameter that the kernel does not use: the number of blocks, presumably."""
        if self.launch is not None or self.unread or self.assumed or not name.startswith("$blockIdx"):
            return None
        if name in thread.strided:  # loops take blocks as far as they like
            return None
        names = used(thread.body)
        integers = [s.name for s in thread.scalars if not s.dtype.is_float and s.dtype is not DType.BOOL]
        unused = [n for n in integers if n not in names]
        return unused[0] if len(unused) == 1 else None

    def unbounded(self, error: UnboundedError) -> RefusalError:
        """The error with what is known about why there is no launch to bound the index."""
        if not self.unread:
            return error
        _, line = self.unread[0]
        why = f"the launch at line {line} is computed from more than constants and the kernel's parameters"
        return RefusalError(error.line, error.construct, f"{error.reason}; {why}")

    def dims(self, thread: Thread, domain: Domain, line: int) -> tuple[Dims, Dims]:
        """Grid and block. Raises RefusalError when the file's launch is not what the kernel relies on."""
        if self.launch is not None:
            self._check(self.launch, thread, domain, line)
            return self.launch.grid, self.launch.block
        fixed = thread.threads.block
        free = {a for a in range(3) if a in self.shared or f"$global.{AXES[a]}" in domain.reach}
        sizes: list[Expr] = [index(1)] * 3
        default = _DEFAULT_BLOCK[max(1, max(free, default=0) + 1)]
        if any(f"$threadIdx.{axis}" in domain.reach for axis in AXES):
            default = (1, 1, 1)
        threads = [fixed.get(a, default[a] if a in free else 1) for a in range(3)]
        if prod(threads) > THREADS_MOST:
            threads = [fixed.get(a, 1) for a in range(3)]
        for a in (2, 1, 0):
            while prod(threads) > self.most and a not in fixed and threads[a] > 1:
                threads[a] //= 2
        grid: list[Expr] = [index(1)] * 3
        for a, axis in enumerate(AXES):
            sizes[a] = index(threads[a])
            whole, lane = domain.reach.get(f"$global.{axis}"), domain.reach.get(f"$threadIdx.{axis}")
            blocks = domain.reach.get(f"$blockIdx.{axis}")
            if whole is not None:
                grid[a] = canonical(ceildiv(expression(whole), threads[a]))
            if blocks is not None:
                grid[a] = expression(blocks)
            if lane is not None:
                sizes[a] = expression(lane)
        return (grid[0], grid[1], grid[2]), (sizes[0], sizes[1], sizes[2])

    def needs(self, thread: Thread, domain: Domain, block: Dims, line: int) -> tuple[Expr, ...]:
        """Facts over the scalars under which the launch can be made and covers the domain.

        Raises RefusalError when it never covers it.
        """
        out: list[Expr] = []
        threads = polynomial(block[0]) * polynomial(block[1]) * polynomial(block[2])
        if threads.constant is None:
            out.append(compare(BinaryOp.LE, expression(threads), self.most))
        positive = Known(lowest=tuple((s.name, 1) for s in thread.scalars if s.is_size))
        for size in block:
            if not nonnegative(polynomial(size) - ONE, positive):
                out.append(compare(BinaryOp.GE, size, 1))
        if self.launch is not None:
            have = self.reach()
            for name, need in domain.reach.items():
                spare = have[name] - need
                if name in thread.strided or nonnegative(spare, positive):
                    continue
                if spare.constant is not None:
                    needed, there = (print_expr(expression(p)) for p in (need, have[name]))
                    what = f"it needs {needed} threads or blocks, the launch has {there}"
                    raise RefusalError(line, name[1:], what)
                out.append(compare(BinaryOp.LE, expression(need), expression(have[name])))
        return tuple(out)

    def doubt(self, block: Dims) -> str | None:
        """Why blocks of this size cannot be assumed where no launch says so, if so."""
        threads = prod(int(e.value) for e in block if isinstance(e, Const))
        if (self.launch is None or self.launch.assumed) and threads > self.most:
            return f"its text has blocks of {threads} threads, and at most {self.most} are allowed"
        return None

    def _check(self, launch: LaunchInfo, thread: Thread, domain: Domain, line: int) -> None:
        fixed = thread.threads.block
        for a, axis in enumerate(AXES):
            block, grid = launch.block[a], launch.grid[a]
            if a in fixed and block != index(fixed[a]):
                what = f"it takes blocks of {fixed[a]}, {launch.name} differs"
                raise RefusalError(line, "thread index", what)
            alone = f"$blockIdx.{axis}" in domain.reach
            lane = f"$threadIdx.{axis}" in domain.reach or a in self.shared
            idle = not alone and not lane and f"$global.{axis}" not in domain.reach
            if idle and (grid, block) != (index(1), index(1)):
                what = f"all threads along {axis} do the same, and {launch.name} has several"
                raise RefusalError(line, f"threadIdx.{axis}", what)
            if alone and not lane and block != index(1):
                what = f"all threads along {axis} do the same, and {launch.name} has several"
                raise RefusalError(line, f"blockIdx.{axis}", what)
            if lane and not alone and grid != index(1):
                what = f"all blocks along {axis} do the same, and {launch.name} has several"
                raise RefusalError(line, f"threadIdx.{axis}", what)

    def notes(self, block: Dims) -> tuple[str, ...]:
        """Sentences for the user about the launch."""
        threads = " x ".join(print_expr(x) for x in block if x != index(1)) or "1"
        out: list[str] = []
        if self.launch is not None and self.launch.assumed:
            out += self.launch.assumed
        elif self.launch is not None:
            out.append(f"{self.launch.name} is the one to use: blocks of {threads} threads")
        else:
            covers = "a grid that covers its domain"
            out.append(f"the kernel is launched with blocks of {threads} threads and {covers}")
        for name, scalar in self.assumed.items():
            only = "the only integer parameter that it does not use"
            out.append(
                f"the grid has {scalar} blocks along {name[-1]}: the kernel does not say, {scalar} is {only}"
            )
        return tuple(out)


def find_launch(parsed: Parsed, found: Found) -> LaunchInfo | None:
    """The first launch of the kernel in the file whose sizes are constants and the kernel's parameters.

    Raises RefusalError for a launch that passes an array twice, where the kernel may write it.
    """
    sites = launches(parsed, found)
    for site in sites:
        shared = passed_twice(found, site)
        if shared is not None:
            what = f"the launch passes the array {shared} twice, and one of the two may be written"
            raise RefusalError(site.line, f"launch of {found.name}", what)
    for site in sites:
        if site.shared is not None:
            continue
        dims = launch_dims(found, site)
        if dims is not None:
            grid, block = (tuple(canonical(x) for x in d) for d in dims)
            _, line = parsed.origins.of(site.line)
            return LaunchInfo(line, (grid[0], grid[1], grid[2]), (block[0], block[1], block[2]))
    return None
