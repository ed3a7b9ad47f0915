"""Counted loops: bounds, steps, induction variables and grid-stride loops."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.frontend import ctree
from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial
from evolve.frontend.prove import variable_atom
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import AXES, Duty, Int, Value, convert, grid_index, thread
from evolve.frontend.variables import Variables
from evolve.ir.expr import Binary, BinaryOp
from evolve.ir.types import MAX, MIN, DType

_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}


@dataclass(frozen=True)
class Head:
    """A counted loop: its variable is `start + step * n` for n in 0 .. extent-1.

    That of a grid-stride loop, in all threads together, is every number from 0 to extent-1.

    stride_axis  the grid axis whose threads or blocks share the iterations, for a grid-stride loop
    lane_axis    the axis of the block whose threads share the iterations, for a block-stride loop
    """

    key: int
    name: str
    type: DType
    start: Poly
    step: Poly
    extent: Poly
    duties: frozenset[Duty]
    stride_axis: int | None = None
    lane_axis: int | None = None

    def at(self, count: Poly) -> Value:
        """The variable's value in iteration `count`."""
        return Int(self.start + self.step * count, self.type)


def counted(run: Variables, s: ctree.Loop) -> Head:
    """Understand a loop's head. Raises RefusalError."""
    name, start = _start(run, s)
    for k in _names(s.cond) | _names(s.step):
        if k != name.key and assigned(s.body, k):
            raise RefusalError(s.line, "for loop", "its body changes the bound or the step")
    step = _step(run, s, name)
    if assigned(s.body, name.key):
        raise RefusalError(s.line, "for loop", f"{name.name} is assigned inside the loop")
    type_ = name.type
    if not isinstance(type_, DType):
        raise RefusalError(s.line, "for loop", "its variable is not an integer")
    conditions = _conditions(run, s.cond, name, s.line)
    first = _unconverted(s, name, type_)
    duties = start.duties | step.duties | {d for _, bound in conditions for d in bound.duties}
    axis = _stride_axis(run, start.poly, step.poly)
    if axis is not None:
        if len(conditions) != 1:
            raise RefusalError(s.line, "grid-stride loop", "it has several bounds")
        op, bound = conditions[0]
        if first is not None and first[1] is not None:
            what = f"its condition converts {name.name} to another type"
            raise RefusalError(s.line, "grid-stride loop", what)
        return _stride_head(s, name, start, step, op, bound, axis)
    lane = _lane(run, start.poly, step.poly)
    if lane is not None:
        if any(op not in ("<", "<=") for op, _ in conditions):
            raise RefusalError(s.line, "loop over threads", "it must go up, to a bound with < or <=")
        start, step = Int(lane.start, start.type), Int(constant(lane.step), step.type)
    step = Int(run.threads.sized(step.poly), step.type, step.duties)
    k = step.poly.constant or 0
    if not k:
        launched = any(name.startswith(("$blockDim", "$gridDim")) for name in step.poly.names())
        why = ", as long as the size of a block or grid is not known" if launched else ""
        raise RefusalError(s.line, "for loop", f"its step is not a constant{why}")
    if type_ in (DType.U32, DType.U64) and k < 0:
        raise RefusalError(s.line, "for loop", "an unsigned variable that counts down may wrap around")
    if first is not None:
        if k < 0:
            raise RefusalError(s.line, "for loop", f"its condition converts {name.name} to another type")
        low, high = first
        duties |= {Duty(start.poly, low, high, True, s.line, "conversion in the loop's condition")}
    extent: Poly | None = None
    for op, bound in conditions:
        distance = bound.poly - start.poly if k > 0 else start.poly - bound.poly
        if op == "!=":
            if abs(k) != 1:
                raise RefusalError(s.line, "for loop", "with != the step must be 1")
            duties |= {Duty(distance, 0, None, True, s.line, "loop with !=")}
        elif (k > 0) != (op in ("<", "<=")):
            raise RefusalError(s.line, "for loop", "its variable does not move towards the bound")
        if op in ("<=", ">="):
            distance = distance + ONE
        count = _ceil(distance, abs(k))
        extent = count if extent is None else _least(extent, count)
    assert extent is not None
    return Head(
        name.key, name.name, type_, start.poly, constant(k), extent, frozenset(duties),
        lane_axis=None if lane is None else lane.axis,
    )  # fmt: skip


def _least(a: Poly, b: Poly) -> Poly:
    return polynomial(Binary(BinaryOp.MIN, expression(a), expression(b), DType.INDEX))


def _ceil(distance: Poly, k: int) -> Poly:
    if k == 1:
        return distance
    up = expression(distance + constant(k - 1))
    return polynomial(Binary(BinaryOp.FLOORDIV, up, expression(constant(k)), DType.INDEX))


def _start(run: Variables, s: ctree.Loop) -> tuple[ctree.Name, Int]:
    match s.init:
        case ctree.Declare(init=init) if init is not None and not isinstance(init, tuple):
            name = ctree.Name(s.init.key, s.init.name, s.init.type, s.init.line)
            return name, _integer(run, init, s.init.type, s.line)
        case ctree.Evaluate(expr=ctree.Assign(op=None, target=ctree.Name() as target, value=value)):
            return target, _integer(run, value, target.type, s.line)
        case _:
            raise RefusalError(s.line, "for loop", "its initialisation must set one integer variable")


def _integer(run: Variables, e: ctree.CExpr, type_: ctree.CType, line: int) -> Int:
    v = convert(run.integer(e, "loop start"), type_, line)
    if not isinstance(v, Int):
        raise RefusalError(line, "for loop", "its variable is not an integer")
    return v


def _conditions(run: Variables, c: ctree.CExpr, name: ctree.Name, line: int) -> list[tuple[str, Int]]:
    """The comparisons of the loop variable with bounds that must all hold."""
    if isinstance(c, ctree.Convert):
        c = c.arg
    if isinstance(c, ctree.Operation) and c.op == "&&":
        return [x for part in c.operands for x in _conditions(run, part, name, line)]
    if isinstance(c, ctree.Operation) and c.op in _MIRROR:
        left, right = c.operands
        if _is(left, name) and name.key not in _names(right):
            return [(c.op, run.integer(right, "loop bound"))]
        if _is(right, name) and name.key not in _names(left):
            return [(_MIRROR[c.op], run.integer(left, "loop bound"))]
    raise RefusalError(line, "for loop", f"its condition must compare {name.name} with a bound")


def _unconverted(s: ctree.Loop, name: ctree.Name, type_: DType) -> tuple[int | None, int | None] | None:
    """The first values of the variable that the condition's conversions of it leave alone; None: all.

    With an unsigned n, `j < n` compares an int j as unsigned: a negative one is above every bound.
    """
    low, high = MAX.identity(type_), MIN.identity(type_)
    first, last = low, high
    for e in _comparands(s.cond):
        if not _is(e, name):
            continue
        while isinstance(e, ctree.Convert):
            if isinstance(e.type, DType) and not e.type.is_float:
                first, last = max(first, MAX.identity(e.type)), min(last, MIN.identity(e.type))
            e = e.arg
    if (first, last) == (low, high):
        return None
    return int(first) if first > low else None, int(last) if last < high else None


def _comparands(c: ctree.CExpr) -> list[ctree.CExpr]:
    """What the comparisons in a condition compare."""
    while isinstance(c, ctree.Convert) and isinstance(c.arg, ctree.Operation | ctree.Convert):
        c = c.arg
    return [x for part in c.operands for x in _comparands(part)] if isinstance(c, ctree.Operation) else [c]


def _is(e: ctree.CExpr, name: ctree.Name) -> bool:
    while isinstance(e, ctree.Convert):
        e = e.arg
    return isinstance(e, ctree.Name) and e.key == name.key


def _step(run: Variables, s: ctree.Loop, name: ctree.Name) -> Int:
    e = s.step
    if isinstance(e, ctree.Assign) and _is(e.target, name):
        value = e.value
        op = e.op
        if op is None and isinstance(value, ctree.Operation) and value.op in ("+", "-"):
            a, b = value.operands
            if _is(a, name):
                op, value = value.op, b
            elif value.op == "+" and _is(b, name):
                op, value = "+", a
        if op in ("+", "-"):
            by = run.integer(value, "loop step")
            return by if op == "+" else Int(-by.poly, by.type, by.duties)
    raise RefusalError(s.line, "for loop", f"its step must add a constant to {name.name}")


@dataclass(frozen=True)
class _Lane:
    """A loop from `start + step * threadIdx` by `step * blockDim`: the block goes by `step` from `start`."""

    axis: int
    start: Poly
    step: int


def _lane(run: Variables, start: Poly, step: Poly) -> _Lane | None:
    """A block-stride loop. A literal step fixes the block size, as a literal in place of blockDim does."""
    for axis in range(3):
        parts = start.coefficient(variable_atom(f"$threadIdx.{AXES[axis]}"))
        k = parts[0].constant if parts is not None else None
        if parts is None or not k or k < 0 or any(n.startswith("$threadIdx") for n in parts[1].names()):
            continue
        whole = step.constant
        if step == thread("blockDim", axis) * constant(k):
            return _Lane(axis, parts[1], k)
        if whole and whole > 0 and whole % k == 0:
            size = whole // k
            if size > 1 and run.threads.block.setdefault(axis, size) == size:
                return _Lane(axis, parts[1], k)
    return None


def _stride_axis(run: Variables, start: Poly, step: Poly) -> int | None:
    for axis in range(3):
        if start == thread("blockIdx", axis) and step == thread("gridDim", axis):
            return axis
        grid, block = thread("gridDim", axis), thread("blockDim", axis)
        if step == grid * block:
            return axis
        size = run.threads.block.get(axis)
        if size is not None and step == grid * constant(size):
            return axis
    return None


def _stride_head(
    s: ctree.Loop, name: ctree.Name, start: Int, step: Int, op: str, bound: Int, axis: int
) -> Head:
    blocks = step.poly == thread("gridDim", axis)
    if start.poly != (thread("blockIdx", axis) if blocks else grid_index(axis)) or op not in ("<", "<="):
        where = f"it must start at the grid-wide index in {AXES[axis]} and go up"
        raise RefusalError(s.line, "grid-stride loop", where)
    last = bound.poly if op == "<" else bound.poly + ONE
    # The step's own product is launch geometry: the launch is chosen so that it fits.
    duties = start.duties | bound.duties
    assert isinstance(name.type, DType)
    return Head(name.key, name.name, name.type, start.poly, ONE, last, duties, axis)


def _names(e: ctree.CExpr) -> set[int]:
    """Keys of the variables in an expression."""
    match e:
        case ctree.Name():
            return {e.key}
        case ctree.Operation():
            return {k for x in e.operands for k in _names(x)}
        case ctree.Convert():
            return _names(e.arg)
        case ctree.Conditional():
            return _names(e.cond) | _names(e.then) | _names(e.orelse)
        case ctree.Invoke():
            return {k for x in e.args for k in _names(x)}
        case ctree.Element():
            return _names(e.base) | _names(e.index)
        case ctree.Assign():
            return _names(e.target) | _names(e.value)
        case _:
            return set()


def assigned(stmts: tuple[ctree.CStmt, ...], key: int) -> bool:
    """Whether a variable is assigned anywhere in the statements."""
    return any(a.target.key == key for a, _ in assignments(stmts, 0) if isinstance(a.target, ctree.Name))


def counters(stmts: tuple[ctree.CStmt, ...]) -> set[int]:
    """Variables from outside the statements that loops among them count with."""
    out: set[int] = set()
    for s in stmts:
        match s:
            case ctree.Branch():
                out |= counters((*s.then, *s.orelse))
            case ctree.Group():
                out |= counters(s.body)
            case ctree.Loop():
                out |= counters(s.body)
                if isinstance(s.init, ctree.Evaluate) and isinstance(s.init.expr, ctree.Assign):
                    target = s.init.expr.target
                    out |= {target.key} if isinstance(target, ctree.Name) else set()
            case _:
                pass
    return out


def assignments(stmts: tuple[ctree.CStmt, ...], depth: int) -> list[tuple[ctree.Assign, int]]:
    """All assignments, with how many branches and loops are around each."""
    out: list[tuple[ctree.Assign, int]] = []
    for s in stmts:
        match s:
            case ctree.Evaluate(expr=ctree.Assign() as assignment):
                out.append((assignment, depth))
            case ctree.Branch():
                out += assignments((*s.then, *s.orelse), depth + 1)
            case ctree.Loop():
                out += assignments((s.init, *s.body, *s.also), depth + 1)
                if isinstance(s.step, ctree.Assign):
                    out.append((s.step, depth + 1))
            case ctree.Group():
                out += assignments(s.body, depth)
            case _:
                pass
    return out


def induction(run: Variables, s: ctree.Loop, head: Head) -> list[tuple[int, Value, Poly]]:
    """Integer and pointer variables that each iteration moves by the same amount: (key, start, step)."""
    if head.lane_axis is not None:
        return []
    if any(ctree.jumps(x) for x in s.body):
        return []
    changes = assignments(s.body, 0)
    by_key: dict[int, list[tuple[ctree.Assign, int]]] = {}
    for a, depth in changes:
        if isinstance(a.target, ctree.Name):
            by_key.setdefault(a.target.key, []).append((a, depth))
    out: list[tuple[int, Value, Poly]] = []
    for key, found in by_key.items():
        (a, depth) = found[0]
        start = run.plain(key)
        if start is None or len(found) != 1 or depth or a.op not in ("+", "-"):
            continue
        if any(k != key and _mentions(a.value, k) for k in (*by_key, head.key)) or _mentions(a.value, key):
            continue
        try:
            by = run.integer(a.value, "step")
        except RefusalError:
            continue
        out.append((key, start, by.poly if a.op == "+" else -by.poly))
    return out


def _mentions(e: ctree.CExpr, key: int) -> bool:
    match e:
        case ctree.Name():
            return e.key == key
        case ctree.Operation():
            return any(_mentions(x, key) for x in e.operands)
        case ctree.Convert():
            return _mentions(e.arg, key)
        case ctree.Number() | ctree.Builtin():
            return False
        case _:
            return True
