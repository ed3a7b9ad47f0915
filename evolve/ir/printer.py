"""IR as text: for people, for golden tests and for content hashes."""

from __future__ import annotations

from typing import assert_never

from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Find, Load, Select, Unary, Var
from evolve.ir.kernel import Contents, Flagged, Kernel, Scalar
from evolve.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Boundary,
    Buffer,
    Commit,
    For,
    If,
    Reduce,
    Stmt,
    Store,
    Wait,
)
from evolve.ir.types import Cache, DType, LoopKind, Priority
from evolve.ir.visit import variables

_PRECEDENCE = {
    BinaryOp.OR: 1,
    BinaryOp.AND: 2,
    BinaryOp.BIT_OR: 3,
    BinaryOp.BIT_XOR: 4,
    BinaryOp.BIT_AND: 5,
    BinaryOp.SHL: 7,
    BinaryOp.SHR: 7,
    BinaryOp.ADD: 8,
    BinaryOp.SUB: 8,
    BinaryOp.MUL: 9,
    BinaryOp.DIV: 9,
    BinaryOp.REM: 9,
    BinaryOp.FLOORDIV: 9,
    BinaryOp.MOD: 9,
}


def print_expr(e: Expr, outer: int = 0) -> str:
    """One line, with the fewest parentheses that keep the tree."""
    match e:
        case Const():
            if e.dtype in (DType.INDEX, DType.BOOL):
                return str(e.value).lower() if e.dtype is DType.BOOL else str(e.value)
            return f"{e.value!r}:{e.dtype.value}"
        case Var():
            return e.name
        case Load():
            return f"{e.buffer}[{', '.join(print_expr(i) for i in e.indices)}]"
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
            return f"{e.op.value}({print_expr(e.lhs)}, {print_expr(e.rhs)})"
        case Binary():
            p = 6 if e.op.is_comparison else _PRECEDENCE[e.op]
            text = f"{print_expr(e.lhs, p)} {e.op.value} {print_expr(e.rhs, p + 1)}"
            return f"({text})" if p < outer else text
        case Unary():
            return f"{'!' if e.op.value == 'not' else e.op.value}{print_expr(e.arg, 10)}"
        case Call():
            return f"{e.fn}({', '.join(print_expr(a) for a in e.args)})"
        case Select():
            return f"select({print_expr(e.cond)}, {print_expr(e.then)}, {print_expr(e.orelse)})"
        case Cast():
            return f"{e.dtype.value}({print_expr(e.arg)})"
        case Find():
            return f"find({e.buffer}, {print_expr(e.value)})"
        case _:
            assert_never(e)


def _buffer(b: Buffer) -> str:
    dims = ", ".join(print_expr(x) for x in b.extents)
    pad = f" pad({', '.join(map(str, b.padding))})" if any(b.padding) else ""
    pad += f" swizzle({b.swizzle.width}, {b.swizzle.groups}, {b.swizzle.rows})" if b.swizzle else ""
    align = f" align({b.align})" if b.align else ""
    asked = [b.cache.value] * (b.cache is not Cache.DEFAULT)
    asked += [f"l2={b.l2.value}"] * (b.l2 is not Priority.NORMAL)
    cache = f" cache({', '.join(asked)})" if asked else ""
    return f"{b.name}: {b.space.value} {b.dtype.value}[{dims}]{pad}{align}{cache}"


def _origin(s: Store | Reduce, with_origin: bool) -> str:
    if not with_origin or s.origin is None:
        return ""
    return f"   # {s.origin.stmt}({', '.join(print_expr(x) for x in s.origin.instance)})"


def _lines(s: Stmt, indent: str, with_origin: bool) -> list[str]:
    match s:
        case Block():
            return [line for x in s.stmts for line in _lines(x, indent, with_origin)]
        case For():
            kind = "" if s.kind is LoopKind.SERIAL else f"   # {s.kind.value}"
            head = f"{indent}for {s.var} in 0..{print_expr(s.extent)}:{kind}"
            return [head, *_lines(s.body, indent + "  ", with_origin)]
        case If():
            out = [f"{indent}if {print_expr(s.cond)}:", *_lines(s.body, indent + "  ", with_origin)]
            if s.orelse.stmts:
                out += [f"{indent}else:", *_lines(s.orelse, indent + "  ", with_origin)]
            return out
        case Alloc():
            return [f"{indent}alloc {_buffer(s.buffer)}"]
        case Barrier():
            return [f"{indent}barrier"]
        case Commit():
            return [f"{indent}commit"]
        case Wait():
            return [f"{indent}wait {s.pending}"]
        case Boundary():
            return [f"{indent}---- next launch ----"]
        case Store():
            dims = ", ".join(print_expr(i) for i in s.indices)
            if s.prefetch:
                return [f"{indent}prefetch {print_expr(s.value)}"]
            sign = "<-" if s.asynchronous else "="
            return [f"{indent}{s.buffer}[{dims}] {sign} {print_expr(s.value)}{_origin(s, with_origin)}"]
        case Reduce():
            dims = ", ".join(print_expr(i) for i in s.indices)
            how = "aggregated atomic " if s.aggregated else "atomic " if s.atomic else ""
            head = f"{indent}{how}{s.buffer}[{dims}] {s.monoid.name}= {print_expr(s.value)}"
            return [head + _origin(s, with_origin)]
        case _:
            assert_never(s)


def print_stmt(s: Stmt, indent: str = "", *, origins: bool = False) -> str:
    """A statement and what it contains, one line each."""
    return "\n".join(_lines(s, indent, origins))


def _role(s: Scalar) -> str:
    return " size, implied" if s.implied else " size" if s.is_size else ""


def _contents(c: Contents) -> str:
    order = ", nondecreasing" if c.nondecreasing else ""
    asked = "" if c.end is None else f", subscripts below {print_expr(c.end)}"
    return f"values of {c.buffer}: from {print_expr(c.low)}, below {print_expr(c.high)}{order}{asked}"


def print_premise(c: Contents) -> str:
    """A premise as a sentence without its full stop."""
    low, high = print_expr(c.low), print_expr(c.high)
    if c.end is not None:
        return (
            f"{c.buffer} holds integers from {low}, of which those below {print_expr(c.end)} are subscripts"
        )
    order = f", none less than the one before, {low} the first and {_one_less(c.high)} the last"
    return f"{c.buffer} holds integers from {low}, below {high}{order if c.nondecreasing else ''}"


def print_flagged(f: Flagged) -> str:
    """The premise as a clause."""
    names = sorted({n for c in f.conditions for n in variables(c)})
    return f"{f.buffer} has its elements whatever {' and '.join(names)} may be"


def _one_less(e: Expr) -> str:
    if isinstance(e, Binary) and e.op is BinaryOp.ADD and e.rhs == Const(1, DType.INDEX):
        return print_expr(e.lhs)
    return f"{print_expr(e, 8)} - 1"


def print_kernel(k: Kernel, *, origins: bool = False) -> str:
    """The whole kernel: parameters, assumptions, body."""
    head = [f"kernel {k.name}({', '.join(k.params)})"]
    head += [f"  {_buffer(b)}" for b in k.buffers]
    head += [f"  {s.name}: {s.dtype.value}{_role(s)}" for s in k.scalars]
    head += [f"  {_contents(c)}" for c in k.contents]
    head += [f"  assume {print_expr(a)}" for a in k.assumptions]
    if k.max_threads:
        head.append(f"  launch_bounds({k.max_threads}, {k.min_blocks})")
    if k.lanes:
        head.append("  thread.x and thread.y are the lanes of a warp")
    if k.registers:
        head.append(f"  registers({k.registers})")
    if k.carveout is not None:
        head.append(f"  carveout({k.carveout})")
    return "\n".join([*head, *_lines(k.body, "  ", origins)])
