"""Judging kernels by running every statement of every thread at small sizes. Shares no code with the prover.

Values are symbolic: the content of an input cell is a random number, an operation the hash of its operands,
a reduction the sum of its contributions' numbers (for minimum and maximum the set of them). So equal numbers
mean equal for all inputs and in any order of a reduction, but for a collision of 64-bit hashes. Threads
run one after another, or interleaved statement by statement, up to the next barrier; two accesses of one
cell, one of them a write, by different threads between the same barriers or by different blocks are a race.

A program that runs without a fault and leaves what the source leaves is right at these sizes. Sums that are
rescaled are equal by what exponentials are, of which symbols know nothing: with `numbers`, values are random
floats (`judge_numbers`). The contract says what else is equal: under `exact` each float sum is one chain of
additions, under `fast` and `mixed` an approximate function is the accurate one. Parameters that a launch has
values of, beside the sizes, are these values; others are symbols.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count, product
from operator import eq
from typing import Any

from evolve.ir.expr import Const, Expr, Var
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches, scratch
from evolve.ir.scaled import Scaled
from evolve.ir.stmt import For, Leaf, Store
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import leaves, local_buffers, map_block_exprs, map_expr, walk
from evolve.workload.model import Contract
from tests.legality import judge_numbers
from tests.legality.judge_code import (
    GRIDS,
    THREADS,
    Code,
    UnjudgedError,
    Whole,
    combine,
    index_text,
    name,
    plain,
    whole,
)
from tests.legality.judge_numbers import Numbers, close, number

__all__ = ["FaultError", "Launch", "UnjudgedError", "contents_for", "execute", "false_claim", "why_wrong"]

Cell = tuple[int, ...]
Claim = tuple[str, Cell, bool, int]
"""A statement of the source, its instance, whether it writes an argument of the kernel, and the value."""
WARP = 32
MOST_THREADS = 1024
MOST_RUN = 8192
"""Threads of all blocks together, beyond which a run takes too long."""


class FaultError(Exception):
    """What a program did wrong: bounds, undefined, race, divergence, launch."""


@dataclass
class Now:
    """The thread that runs, and the number of barriers its block has passed."""

    block: int = 0
    epoch: int = 0
    thread: int = 0
    registers: list[dict[str, Local]] = field(default_factory=list)
    shared: dict[str, Local] = field(default_factory=dict)
    folded: dict[Any, Any] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    groups: list[list[list[Any]]] = field(default_factory=list)
    """Asynchronous copies under way, by thread: closed groups, then the open one."""


class Array:
    """A global array. `marks` is None for one that nobody writes; scratch starts undefined, others given."""

    def __init__(
        self, name: str, shape: Cell, now: Now, *, written: bool, given: bool, numbers: DType | None
    ) -> None:
        self.name, self.shape, self.now, self.given = name, shape, now, given
        self.first = judge_numbers.first(numbers) if numbers else hash
        self.combine = judge_numbers.combine if numbers else combine
        self.cells: dict[Cell, Any] = {}
        self.marks: dict[Cell, list[int]] | None = {} if written else None

    def get(self, i: Cell) -> Any:
        if self.marks is not None:
            _read(self.marks, i, self.now)
        return self.content(i)

    def content(self, i: Cell) -> Any:
        try:
            return self.cells[i]
        except KeyError:
            _inside(i, self.shape)
            if not self.given:
                raise FaultError("undefined") from None
            value = self.cells[i] = self.first(("in", self.name, i))
            return value

    def put(self, i: Cell, value: Any) -> None:
        _inside(i, self.shape)
        assert self.marks is not None
        _write(self.marks, i, self.now)
        self.cells[i] = value

    def update(self, i: Cell, monoid: str, identity: int, value: Any) -> None:
        """An atomic update."""
        assert self.marks is not None
        _update(self.marks, i, self.now)
        self.cells[i] = self.combine(monoid, identity, self.content(i), value)


class Local:
    """A shared or register array. A cell holds the tag of the declaration under which it was written."""

    def __init__(self, name: str, shape: Cell, now: Now | None) -> None:
        self.name, self.shape, self.now = name, shape, now
        self.cells: dict[Cell, tuple[Any, Any]] = {}
        self.marks: dict[Cell, list[int]] = {}

    def get(self, i: Cell, tag: Any = ()) -> Any:
        if self.now is not None:
            _read(self.marks, i, self.now)
        return self.content(i, tag)

    def content(self, i: Cell, tag: Any) -> Any:
        found = self.cells.get(i)
        if found is None or found[0] != tag:
            if found is UNDER_WAY:
                raise FaultError("race")
            _inside(i, self.shape)
            raise FaultError("undefined")
        return found[1]

    def put(self, i: Cell, value: Any, tag: Any = ()) -> None:
        _inside(i, self.shape)
        if self.now is not None:
            _write(self.marks, i, self.now)
        self.cells[i] = (tag, value)

    def update(self, i: Cell, monoid: str, identity: int, value: Any, tag: Any = ()) -> None:
        """An atomic update."""
        if self.now is not None:
            _update(self.marks, i, self.now)
        self.cells[i] = (tag, combine(monoid, identity, self.content(i, tag), value))

    def start(self, i: Cell, value: Any, tag: Any, group: list[Any]) -> None:
        """An asynchronous copy begins: nobody may look until it has landed."""
        self.put(i, value, tag)
        self.cells[i] = UNDER_WAY
        group.append((self, i, value, tag))


UNDER_WAY = (object(), None)
"""What a cell holds that an asynchronous copy is to fill."""


def wait(groups: list[list[Any]], pending: int) -> None:
    """All closed groups but the latest `pending` have landed: written, for others, only now."""
    landed = max(len(groups) - 1 - pending, 0)
    for group in groups[:landed]:
        for local, i, value, tag in group:
            local.put(i, value, tag)
    del groups[:landed]


def _inside(i: Cell, shape: Cell) -> None:
    for x, n in zip(i, shape, strict=True):
        if not 0 <= x < n:
            raise FaultError("bounds")


# A mark: block, epoch and thread of the last write, of reads, and of atomic updates. -1: none, -2: several.
WRITES, READS, UPDATES = 0, 3, 6


def _at(marks: dict[Cell, list[int]], i: Cell) -> list[int]:
    m = marks.get(i)
    if m is None:
        m = marks[i] = [-1] * 9
    return m


def _unordered(m: list[int], at: int, now: Now) -> bool:
    return m[at] != -1 and (m[at] != now.block or (m[at + 1] == now.epoch and m[at + 2] != now.thread))


def _add(m: list[int], at: int, now: Now) -> None:
    if m[at] == -1:
        m[at : at + 3] = now.block, now.epoch, now.thread
    elif m[at] != now.block:
        m[at] = -2
    elif m[at + 1] != now.epoch:
        m[at + 1 : at + 3] = now.epoch, now.thread
    elif m[at + 2] != now.thread:
        m[at + 2] = -2


def _read(marks: dict[Cell, list[int]], i: Cell, now: Now) -> None:
    m = _at(marks, i)
    if _unordered(m, WRITES, now) or _unordered(m, UPDATES, now):
        raise FaultError("race")
    _add(m, READS, now)


def _write(marks: dict[Cell, list[int]], i: Cell, now: Now) -> None:
    m = _at(marks, i)
    if _unordered(m, WRITES, now) or _unordered(m, READS, now) or _unordered(m, UPDATES, now):
        raise FaultError("race")
    m[:3] = now.block, now.epoch, now.thread


def _update(marks: dict[Cell, list[int]], i: Cell, now: Now) -> None:
    m = _at(marks, i)
    if _unordered(m, WRITES, now) or _unordered(m, READS, now):
        raise FaultError("race")
    _add(m, UPDATES, now)


def fail(what: str) -> None:
    raise FaultError(what)


@dataclass(frozen=True)
class Launch:
    """Scalars (sizes, and others whose values decide something), and what index arrays hold."""

    sizes: Mapping[str, int | float]
    contents: Mapping[str, Mapping[Cell, int]] = field(default_factory=dict)


def contents_for(
    kernel: Kernel, sizes: Mapping[str, int | float], rng: random.Random
) -> dict[str, dict[Cell, int]]:
    """Index arrays drawn as the kernel's premises allow. Raises UnjudgedError where they allow nothing."""
    out: dict[str, dict[Cell, int]] = {}
    for c in kernel.contents:
        low, high = _value(c.low, sizes), _value(c.high, sizes)
        shape = tuple(_value(e, sizes) for e in kernel.buffer(c.buffer).extents)
        cells = list(product(*map(range, shape)))
        if high <= low and cells:
            raise UnjudgedError("an index array without a value")
        # Few values now and then, so that several elements say the same.
        most = rng.choice((high, min(high, low + 2)))
        values = [rng.randrange(low, most) for _ in cells]
        if c.nondecreasing and cells:
            if len(cells) == 1 and high - low != 1:
                raise UnjudgedError("row pointers of no row")
            values = [low, *sorted(values[2:]), high - 1][-len(cells) :]
        out[c.buffer] = dict(zip(cells, values, strict=True))
    return out


def settled(kernel: Kernel, values: Mapping[str, int | float]) -> Kernel:
    """The kernel with its scalars that are no sizes and have values replaced by these."""
    known = {
        s.name: Const(values[s.name], s.dtype) for s in kernel.scalars if not s.is_size and s.name in values
    }
    if not known:
        return kernel

    def one(e: Expr) -> Expr:
        return known[e.name] if isinstance(e, Var) and e.name in known and e.dtype is not DType.INDEX else e

    return replace(kernel, body=map_block_exprs(kernel.body, lambda e: map_expr(e, one)))


def _value(e: Expr, sizes: Mapping[str, int | float]) -> int:
    space = {name("v", n): v for n, v in sizes.items()}
    try:
        return int(eval(index_text(e), {}, space))
    except NameError as error:
        raise FaultError("launch") from error


@lru_cache(maxsize=64)
def _compiled(kernel: Kernel, lockstep: bool, claims: bool, numbers: bool, contract: Contract) -> Any:
    code = (Numbers if numbers else Code)(kernel, lockstep=lockstep, claims=claims, contract=contract)
    space: dict[str, Any] = {
        "H": hash,
        "combine": combine,
        "Local": Local,
        "FaultError": FaultError,
        "wait": wait,
        "fail": fail,
        "whole": whole,
        "count": count,
        "plain": plain,
        **(judge_numbers.SPACE if numbers else {}),
    }
    exec(compile(code.text(), kernel.name, "exec"), space)
    return space["make"]


def execute(
    kernel: Kernel,
    launch: Launch,
    order: str = "forward",
    *,
    seed: int = 0,
    lockstep: bool = True,
    claims: list[Claim] | None = None,
    numbers: bool = False,
    contract: Contract = "reassociate",
) -> dict[tuple[str, Cell], Any]:
    """What the global arrays hold in the end, cells nobody touched left out.

    `order` of threads and blocks: forward, reversed, permuted, or interleaved (statement by statement).
    `lockstep`: lanes of a vector loop go statement by statement, else one after another.
    `claims` is filled with what statements claim to be.
    Raises FaultError, and UnjudgedError for what this module has no meaning for.
    """
    if Scaled.of(kernel).sums and not numbers:
        raise UnjudgedError("a sum kept relative to a maximum: symbols know no algebra of exponentials")
    kernel = settled(kernel, launch.sizes)
    rng = random.Random(seed)
    now = Now()
    writes = frozenset(s.stmt.buffer for s in walk(kernel.body) if isinstance(s.stmt, Leaf))
    arrays = {
        b.name: Array(
            b.name,
            tuple(_value(e, launch.sizes) for e in b.extents),
            now,
            written=b.name in writes,
            given=b in kernel.buffers,
            numbers=b.dtype if numbers else None,
        )
        for b in (*kernel.buffers, *scratch(kernel))
    }
    for n, cells in launch.contents.items():
        arrays[n].cells |= {i: Whole(v) for i, v in cells.items()}
    for part in launches(kernel):
        for a in arrays.values():
            a.marks = None if a.marks is None else {}
        thread = _compiled(part, lockstep, claims is not None, numbers, contract)(
            arrays, launch.sizes, now, order == "interleaved"
        )
        _launch(thread, _shape(part, launch.sizes), now, order, rng)
    if claims is not None:
        claims += now.claims
    written = [a for a in arrays.values() if a.marks is not None and a.given]
    return {(a.name, i): v for a in written for i, v in a.cells.items()}


def _launch(thread: Any, shape: tuple[Cell, Cell], now: Now, order: str, rng: random.Random) -> None:
    threads, blocks = shape
    grid = list(product(*map(range, blocks)))
    _shuffle(grid, order, rng)
    lanes = [(x, y, z) for z in range(threads[2]) for y in range(threads[1]) for x in range(threads[0])]
    try:
        for number, block in enumerate(grid):
            now.block, now.epoch, now.shared, now.folded = number, 0, {}, {}
            now.registers = [{} for _ in lanes]
            now.groups = [[[]] for _ in lanes]
            _block(thread, block, lanes, now, order, rng)
    except ZeroDivisionError as e:
        raise FaultError("launch") from e
    except KeyError as e:
        raise FaultError("undefined") from e


def _shuffle(items: list[Any], order: str, rng: random.Random) -> None:
    if order == "reversed":
        items.reverse()
    elif order != "forward":
        rng.shuffle(items)


def _shape(kernel: Kernel, sizes: Mapping[str, int | float]) -> tuple[Cell, Cell]:
    """Threads a block and blocks, by axis. Raises FaultError for what cannot be launched."""
    threads, blocks = [1, 1, 1], [1, 1, 1]
    for site in walk(kernel.body):
        loop = site.stmt
        if isinstance(loop, For) and loop.kind in THREADS:
            axis = THREADS.index(loop.kind)
            threads[axis] = max(threads[axis], _value(loop.extent, sizes))
        elif isinstance(loop, For) and loop.kind in GRIDS:
            axis = GRIDS.index(loop.kind)
            n = _value(loop.extent, sizes)
            first = blocks[axis] == 1
            blocks[axis] = n if first else max(blocks[axis], n)
    count = threads[0] * threads[1] * threads[2]
    if count > (kernel.max_threads or MOST_THREADS):
        raise FaultError("launch")
    if count * blocks[0] * blocks[1] * blocks[2] > MOST_RUN:
        raise UnjudgedError("too many threads")
    return tuple(threads), tuple(blocks)


def _block(thread: Any, block: Cell, lanes: list[Cell], now: Now, order: str, rng: random.Random) -> None:
    runs = [thread(*block, *lane, number) for number, lane in enumerate(lanes)]
    ready = list(range(len(runs)))
    waits: dict[int, Any] = {}
    ended = 0
    while ready:
        _shuffle(ready, order, rng)
        if order == "interleaved":
            ended += _interleaved(runs, ready, waits, now, rng)
        else:
            for t in ready:
                now.thread = t
                key = next(runs[t], None)
                if key is None:
                    ended += 1
                else:
                    waits[t] = key
        ready = _released(waits, len(runs), ended, now)


def _interleaved(
    runs: list[Any], ready: list[int], waits: dict[int, Any], now: Now, rng: random.Random
) -> int:
    going, ended = list(ready), 0
    while going:
        at = rng.randrange(len(going))
        now.thread = t = going[at]
        key = next(runs[t], None)
        if key == "step":
            continue
        going[at] = going[-1]
        going.pop()
        if key is None:
            ended += 1
        else:
            waits[t] = key
    return ended


def _released(waits: dict[int, Any], count: int, ended: int, now: Now) -> list[int]:
    """The threads that go on from where they wait. Raises FaultError when none can."""
    if not waits:
        return []
    keys = set(waits.values())
    if not ended and len(waits) == count and len(keys) == 1:
        (key,) = keys
        if key[0] != "warp":
            now.epoch += key[0] == "barrier"
            out = list(waits)
            waits.clear()
            return out
    out = []
    for first in range(0, count, WARP):
        lanes = range(first, min(first + WARP, count))
        here = {waits.get(t) for t in lanes}
        if len(here) == 1 and None not in here and next(iter(here))[0] == "warp":
            out += lanes
    if not out:
        raise FaultError("divergence")
    for t in out:
        del waits[t]
    return out


def why_wrong(
    source: Kernel,
    target: Kernel,
    launch: Launch,
    orders: tuple[str, ...] = ("forward",),
    seed: int = 0,
    *,
    numbers: bool = False,
    contract: Contract = "reassociate",
) -> str | None:
    """What is wrong with the target at these sizes: a fault, or `value`. None when it is right."""
    wanted = dict(_wanted(source, _frozen(launch), numbers, contract))
    vectors = any(isinstance(s.stmt, For) and s.stmt.kind is LoopKind.VECTOR for s in walk(target.body))
    for turn, order in enumerate(orders):
        for lockstep in (True, False) if vectors and turn == 0 else (bool(turn % 2),):
            try:
                got = execute(
                    target, launch, order, seed=seed, lockstep=lockstep, numbers=numbers, contract=contract
                )
            except FaultError as f:
                return str(f)
            if not _same(wanted, got, numbers):
                return "value"
    return None


def false_claim(
    source: Kernel,
    target: Kernel,
    launch: Launch,
    *,
    numbers: bool = False,
    contract: Contract = "reassociate",
) -> bool:
    """Whether the target's statements are not what they claim to be, although it runs without a fault.

    Each performs an instance of the source, with its value (not looked at with `numbers`). All are performed
    but those into what the source declares itself, which nobody else sees: of stores, what is computed of
    them shows; of contributions, others that are the same may stand for them. Those into the kernel's
    arguments are performed once; how often what the target declares is filled with the same does not matter,
    and how often a sum there counts shows.
    """
    wanted: list[Claim] = []
    got: list[Claim] = []
    execute(source, launch, claims=wanted, numbers=numbers, contract=contract)
    try:
        execute(target, launch, claims=got, numbers=numbers, contract=contract)
    except FaultError:
        return True  # it claims an instance whose numbers lie outside of an index array
    values = {(stmt, instance): value for stmt, instance, _, value in wanted}
    own = local_buffers(source.body)
    inside = [(x, x.origin.stmt) for x, _ in leaves(source.body) if x.buffer in own and x.origin is not None]
    hidden = {stmt for _, stmt in inside}
    stored = {stmt for x, stmt in inside if isinstance(x, Store)}
    performed = {value for _, _, _, value in got}
    effects = [(stmt, instance) for stmt, instance, effect, _ in got if effect and stmt not in hidden]
    said = {(stmt, instance) for stmt, instance, _, _ in got}
    return (
        bool(said - values.keys())
        or any(
            stmt not in stored and (stmt not in hidden or values[stmt, instance] not in performed)
            for stmt, instance in values.keys() - said
        )
        or len(effects) != len(set(effects))
        or any(values[stmt, instance] != value for stmt, instance, _, value in got)
    )


def _same(wanted: dict[Any, Any], got: dict[Any, Any], numbers: bool) -> bool:
    """Cells that only one side touched hold what they held at first."""
    first, same = (number, close) if numbers else (hash, eq)
    keys = wanted.keys() | got.keys()
    return all(same(wanted.get(k, first(("in", *k))), got.get(k, first(("in", *k)))) for k in keys)


def _frozen(launch: Launch) -> tuple[Any, ...]:
    inside = tuple((n, tuple(sorted(c.items()))) for n, c in sorted(launch.contents.items()))
    return tuple(sorted(launch.sizes.items())), inside


@lru_cache(maxsize=256)
def _wanted(source: Kernel, frozen: tuple[Any, ...], numbers: bool, contract: Contract) -> tuple[Any, ...]:
    sizes, contents = frozen
    launch = Launch(dict(sizes), {n: dict(c) for n, c in contents})
    done = execute(source, launch, numbers=numbers, contract=contract)
    return tuple(done.items())
