"""The float64 reference, rendered from the lifted IR: plain loops, values with error bounds.

It reads the kernel's own input types and computes in double. Every loop runs in order, whatever its
kind, so it renders any kernel whose local buffers have constant extents.
"""

from __future__ import annotations

from math import prod
from typing import assert_never

from evolve.codegen.ctext import COMPARED, CountText, ExprText, literal
from evolve.codegen.ctree import Node, branch, layout, line, scope
from evolve.codegen.errors import CodegenError
from evolve.codegen.names import Names, identifiers
from evolve.codegen.place import Path
from evolve.codegen.prelude import prelude
from evolve.codegen.reference_model import FUNCTION, Reference, ReferenceArray, Role
from evolve.codegen.reference_runtime import RUNTIME
from evolve.codegen.reference_whole import MONOIDS, WholeText, unsure_buffers
from evolve.ir.affine import Ranges, simplify
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    UnaryOp,
    Var,
    add,
    index,
    mul,
)
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
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
from evolve.ir.types import DType
from evolve.ir.visit import children, leaves, local_buffers, rebuild, variables

_EXTRA = ("abs", "cnt")
"""What a sum keeps besides its value and error: the sum of absolute terms, and their number."""


def render_reference(kernel: Kernel) -> Reference:
    """The reference of a kernel. Raises CodegenError for local buffers without constant extents."""
    return ReferenceEmitter(kernel).reference()


class ReferenceEmitter:
    """Statements of a kernel over `ev_num` values. `threads`: several of them run the statements."""

    def __init__(self, kernel: Kernel, *, threads: bool = False) -> None:
        self.kernel = kernel
        self._threads = threads
        self.names = Names(frozenset(n for n in identifiers(RUNTIME) if n.startswith("ev_")))
        self.buffers: dict[str, Buffer] = {b.name: b for b in kernel.buffers} | local_buffers(kernel.body)
        self.globals = {b.name for b in kernel.buffers}
        self.written = {leaf.buffer for leaf, _ in leaves(kernel.body)}
        self.summed = {
            leaf.buffer
            for leaf, _ in leaves(kernel.body)
            if isinstance(leaf, Reduce) and leaf.monoid.name == "sum" and leaf.value.dtype.is_float
        }
        stored = [leaf for leaf, _ in leaves(kernel.body)]
        self.whole = WholeText(self, unsure_buffers(self.buffers, stored, self.written), self.written)
        for name in kernel.params:
            self.names.of(name)

    # ---- the function

    def reference(self) -> Reference:
        before = [self._over(b, body) for b, body in self.starts()]
        after = [self._over(b, body) for b, body in self.finishes()]
        function = self.function(FUNCTION, [*before, *self.block(self.kernel.body, ()), *after])
        text = prelude(function) + RUNTIME + "\n" + function
        return Reference(text, FUNCTION, self.arrays(), self.scalars())

    def function(self, name: str, body: list[Node]) -> str:
        """A `__global__` function over all arrays and scalars."""
        params = [self._parameter(a) for a in self.arrays()]
        for s in self.scalars():
            dtype = self.kernel.scalar(s).dtype
            params.append(f"{dtype.c_name if dtype.is_float else 'long long'} {self.names.of(s)}")
        lines = [
            f'extern "C" __global__ void {name}(',
            *(f"    {p}," for p in params[:-1]),
            f"    {params[-1]}",
        ]
        lines += [text for text, _ in layout([scope(")", body)])]
        return "\n".join(lines) + "\n"

    def scalars(self) -> tuple[str, ...]:
        """The kernel's, and the lengths of what it writes that are none of its parameters."""
        given = tuple(n for n in self.kernel.params if n not in self.globals)
        lengths = frozenset[str]().union(*(variables(e) for b in self._outputs() for e in b.extents))
        return (*given, *sorted(lengths & self.kernel.implied))

    def arrays(self) -> tuple[ReferenceArray, ...]:
        out = []
        for name in self.kernel.params:
            if name not in self.globals:
                continue
            if name not in self.written:
                out.append(ReferenceArray(self.names.of(name), name, Role.INPUT))
                continue
            out.append(ReferenceArray(self.names.of(f"{name}.in"), name, Role.INPUT))
            out.append(ReferenceArray(self.names.of(name), name, Role.VALUE))
            out.append(ReferenceArray(self.names.of(f"{name}.err"), name, Role.ERROR))
            if name in self.summed:
                out += [ReferenceArray(self.names.of(f"{name}.{x}"), name, Role.SCRATCH) for x in _EXTRA]
        return tuple(out)

    def _parameter(self, a: ReferenceArray) -> str:
        if a.role is Role.INPUT:
            return f"const {self.buffers[a.buffer].dtype.c_name}* {a.name}"
        return f"double* {a.name}"

    def starts(self) -> list[tuple[Buffer, list[Node]]]:
        """For each written buffer, what happens to element `ev_i` before the kernel."""
        out = []
        for b in self._outputs():
            c, given, error = (self.names.of(f"{b.name}{x}") for x in ("", ".in", ".err"))
            body = [line(f"{c}[ev_i] = (double){given}[ev_i];"), line(f"{error}[ev_i] = 0.0;")]
            if b.name in self.summed:
                size, count = (self.names.of(f"{b.name}.{x}") for x in _EXTRA)
                body += [line(f"{size}[ev_i] = ev_abs({c}[ev_i]);"), line(f"{count}[ev_i] = 0.0;")]
            out.append((b, body))
        return out

    def finishes(self) -> list[tuple[Buffer, list[Node]]]:
        """For each buffer that is summed into, what happens to element `ev_i` after the kernel."""
        out = []
        for b in self._outputs():
            if b.name not in self.summed:
                continue
            c, error, size, count = (self.names.of(f"{b.name}{x}") for x in ("", ".err", ".abs", ".cnt"))
            held = f"ev_pair({c}[ev_i], {error}[ev_i])"
            body = [
                line(f"const ev_num ev_r = ev_total({held}, {size}[ev_i], {count}[ev_i], {_unit(b.dtype)});"),
                line(f"{c}[ev_i] = ev_r.v;"),
                line(f"{error}[ev_i] = ev_r.e;"),
            ]
            out.append((b, [branch((f"{count}[ev_i] > 0.0",), body)]))
        return out

    def _outputs(self) -> list[Buffer]:
        return [self.buffers[n] for n in self.kernel.params if n in self.globals and n in self.written]

    def elements(self, b: Buffer) -> str:
        """How many elements the buffer has, as C text."""
        size: Expr = index(1)
        for e in b.extents:
            size = e if size == index(1) else mul(size, e)
        return self.plain(size, (), compared=True)

    def _over(self, b: Buffer, body: list[Node]) -> Node:
        return scope(f"for (long long ev_i = 0; ev_i < {self.elements(b)}; ++ev_i)", body)

    # ---- statements

    def block(self, block: Block, path: Path) -> list[Node]:
        return [node for s in block.stmts for node in self.statement(s, path)]

    def statement(self, s: Stmt, path: Path) -> list[Node]:
        match s:
            case Block():
                return [scope("", self.block(s, path))]
            case For():
                v = self.names.of(s.var)
                bound = self.count(simplify(s.extent, self.ranges(path)), path)
                header = f"for (long long {v} = 0; {v} < {bound}; ++{v})"
                return [scope(header, self.block(s.body, (*path, s)))]
            case If():
                inner = (*path, s)
                cond = self.conditions(s.cond, path)
                return [branch(cond, self.block(s.body, inner), None, self.block(s.orelse, inner))]
            case Alloc():
                return self.declare(s.buffer)
            case Barrier() | Commit() | Wait() | Boundary():
                return []
            case Store():
                return self.store(s, path)
            case Reduce():
                return self.reduce(s, path)
            case _:
                assert_never(s)

    def declare(self, b: Buffer) -> list[Node]:
        sizes = []
        for e in b.extents:
            n = simplify(e, ranges_at(self.kernel))
            if not isinstance(n, Const):
                raise CodegenError(f"the extent {print_expr(n)} of local buffer {b.name} is not a constant")
            sizes.append(int(n.value))
        dims = f"[{prod(sizes)}]" if sizes else ""
        kind = "ev_num" if b.dtype.is_float else b.dtype.c_name
        if b.name in self.whole.buffers:
            kind = "ev_whole"
        out = [line(f"{kind} {self.names.of(b.name)}{dims};")]
        if b.name in self.summed:
            for extra in _EXTRA:
                out.append(line(f"double {self.names.of(f'{b.name}.{extra}')}{dims};"))
        return out

    def store(self, s: Store, path: Path) -> list[Node]:
        b = self.buffers[s.buffer]
        at = self.subscript(b, s.indices, path)
        name = self.names.of(s.buffer)
        out = []
        if s.buffer in self.whole.buffers:
            return self._keep(b, at, self.whole.text(s.value, path))
        if not b.dtype.is_float:
            value = self.plain(s.value, path)
            return [line(f"{name}{at} = {'(double)' if s.buffer in self.globals else ''}({value});")]
        if s.buffer in self.globals:
            out += [
                line(f"const ev_num ev_value = {self.number(s.value, path)};"),
                line(f"{name}{at} = ev_value.v;"),
                line(f"{self.names.of(f'{s.buffer}.err')}{at} = ev_value.e;"),
            ]
            held = "ev_value"
        else:
            out.append(line(f"{name}{at} = {self.number(s.value, path)};"))
            held = f"{name}{at}"
        if s.buffer in self.summed:
            out.append(line(f"{self.names.of(f'{s.buffer}.abs')}{at} = ev_abs({held}.v);"))
            out.append(line(f"{self.names.of(f'{s.buffer}.cnt')}{at} = 0.0;"))
        return [scope("", out)] if s.buffer in self.globals else out

    def _keep(self, b: Buffer, at: str, text: str) -> list[Node]:
        """Stores an `ev_whole`: of a result its value and its error."""
        name = self.names.of(b.name)
        if b.name not in self.globals:
            return [line(f"{name}{at} = {text};")]
        out = [line(f"const ev_whole ev_value = {text};"), line(f"{name}{at} = (double)ev_value.v;")]
        return [scope("", [*out, line(f"{self.names.of(f'{b.name}.err')}{at} = ev_reach(ev_value);")])]

    def reduce(self, s: Reduce, path: Path) -> list[Node]:
        b = self.buffers[s.buffer]
        at = self.subscript(b, s.indices, path)
        name = f"{self.names.of(s.buffer)}{at}"
        if s.atomic and self._threads:
            return self._update(s, name, at, path)
        if s.buffer in self.whole.buffers:
            parts = f"{self.held(Load(s.buffer, s.indices, b.dtype), path)}, {self.whole.text(s.value, path)}"
            return self._keep(b, at, self.whole.fit(f"{MONOIDS[s.monoid.name]}({parts})", b.dtype))
        if not b.dtype.is_float:
            value = f"({self.plain(s.value, path)})"
            sign = {"sum": "+", "prod": "*"}.get(s.monoid.name)
            if sign is not None:
                return [line(f"{name} = {name} {sign} {value};")]
            order = "<" if s.monoid.name == "min" else ">"
            return [line(f"if ({value} {order} {name}) {name} = {value};")]
        on_global = s.buffer in self.globals
        error = f"{self.names.of(f'{s.buffer}.err')}{at}" if on_global else f"{name}.e"
        held = name if on_global else f"{name}.v"
        out = [line(f"const ev_num ev_term = {self.number(s.value, path)};")]
        if s.monoid.name == "sum":
            out += [
                line(f"{held} += ev_term.v;"),
                line(f"{error} += ev_term.e;"),
                line(f"{self.names.of(f'{s.buffer}.abs')}{at} += ev_abs(ev_term.v);"),
                line(f"{self.names.of(f'{s.buffer}.cnt')}{at} += 1.0;"),
            ]
            return [scope("", out)]
        old, u = f"ev_pair({held}, {error})", _unit(b.dtype)
        new = f"ev_{s.monoid.name}({old}, ev_term)"
        if s.monoid.name == "prod":
            new = f"ev_prod({old}, ev_term, {u})"
        out.append(line(f"const ev_num ev_next = {new};"))
        out += [line(f"{held} = ev_next.v;"), line(f"{error} = ev_next.e;")]
        return [scope("", out)]

    def _update(self, s: Reduce, name: str, at: str, path: Path) -> list[Node]:
        """An atomic reduction into a global array, which other threads make at the same time."""
        if s.buffer in self.whole.buffers:
            raise CodegenError(f"what {s.buffer} gathers depends on roundings, and has no GPU reference")
        if not s.value.dtype.is_float:
            function = {"sum": "ev_atomic_add", "min": "ev_atomic_min", "max": "ev_atomic_max"}[s.monoid.name]
            return [line(f"{function}(&{name}, (double)({self.plain(s.value, path)}));")]
        error, size, count = (f"{self.names.of(f'{s.buffer}.{x}')}{at}" for x in ("err", *_EXTRA))
        out = [line(f"const ev_num ev_term = {self.number(s.value, path)};")]
        parts = ((name, "ev_term.v"), (error, "ev_term.e"), (size, "ev_abs(ev_term.v)"), (count, "1.0"))
        return [scope("", [*out, *(line(f"ev_atomic_add(&{place}, {value});") for place, value in parts)])]

    # ---- expressions

    def ranges(self, path: Path) -> Ranges:
        return ranges_at(self.kernel, path)

    def subscript(self, b: Buffer, indices: tuple[Expr, ...], path: Path) -> str:
        if not indices:
            return "[0]" if b.name in self.globals else ""
        flat = indices[0]
        for extent, i in zip(b.extents[1:], indices[1:], strict=True):
            flat = add(mul(flat, extent), i)
        return f"[{self.plain(simplify(flat, self.ranges(path)), path)}]"

    def load(self, x: Load, path: Path) -> str:
        """A float load as a number with its error, an integer load as itself."""
        b = self.buffers[x.buffer]
        at = self.subscript(b, x.indices, path)
        name = f"{self.names.of(x.buffer)}{at}"
        if x.buffer in self.whole.buffers and x.buffer not in self.globals:
            return f"({b.dtype.c_name}){name}.v"
        if not b.dtype.is_float:
            return f"({b.dtype.c_name}){name}"
        if x.buffer in self.globals:
            if x.buffer not in self.written:
                return f"ev_exact({name})"
            name = f"ev_pair({name}, {self.names.of(f'{x.buffer}.err')}{at})"
        if x.buffer in self.summed:
            size, count = (self.names.of(f"{x.buffer}.{k}") for k in _EXTRA)
            return f"ev_total({name}, {size}{at}, {count}{at}, {_unit(b.dtype)})"
        return name

    def held(self, x: Load, path: Path) -> str:
        """A load from one of `whole.buffers` as an `ev_whole`."""
        at = self.subscript(self.buffers[x.buffer], x.indices, path)
        name = f"{self.names.of(x.buffer)}{at}"
        if x.buffer not in self.globals:
            return name
        return f"ev_spread({name}, {self.names.of(f'{x.buffer}.err')}{at})"

    def plain(self, e: Expr, path: Path, *, compared: bool = False) -> str:
        """An integer or boolean expression as C text; `compared`: fit to stand beside `<`."""
        return self._text(path).text(self._floats_out(e, path), COMPARED if compared else 0)

    def count(self, e: Expr, path: Path) -> str:
        """A number of iterations, fit to stand beside `<`."""
        text = CountText(self.names.of, lambda x: f"({self.load(x, path)})", self.ranges(path))
        return text.text(self._floats_out(e, path), COMPARED)

    def conditions(self, e: Expr, path: Path) -> tuple[str, ...]:
        """The operands of a conjunction, each fit to stand beside `&&`."""
        return self._text(path).conditions(self._floats_out(e, path))

    def _text(self, path: Path) -> ExprText:
        return ExprText(self.names.of, lambda x: f"({self.load(x, path)})", self.ranges(path))

    def _floats_out(self, e: Expr, path: Path) -> Expr:
        """`e` with every float operand of a comparison or conversion as a variable holding its value."""
        if e.dtype.is_float:
            text = f"({self.number(e, path)}).v"
            self.names.alias(text, text)
            return Var(text, DType.F64)
        if isinstance(e, Load):
            return e
        parts = children(e)
        return rebuild(e, tuple(self._floats_out(p, path) for p in parts)) if parts else e

    def number(self, e: Expr, path: Path) -> str:
        """A float expression as an `ev_num`."""
        u = _unit(e.dtype)
        match e:
            case Const():
                return f"ev_exact({literal(e.value, e.dtype)})"
            case Var():
                return f"ev_exact({self.names.of(e.name)})"
            case Load():
                return self.load(e, path)
            case Call():
                args = ", ".join(self.number(a, path) for a in e.args)
                return f"ev_{e.fn}({args}, {u})"
            case Cast() if e.arg.dtype.is_float:
                exact = e.arg.dtype.size < e.dtype.size
                inner = self.number(e.arg, path)
                return inner if exact else f"ev_cast({inner}, {u})"
            case Cast() if self.whole.unsure(e.arg):
                return f"ev_from({self.whole.text(e.arg, path)}, {u})"
            case Cast():
                return f"ev_int((double)({self.plain(e.arg, path)}), {u})"
            case Select():
                a, b = self.number(e.then, path), self.number(e.orelse, path)
                if self.whole.unsure(e.cond):
                    return f"ev_choose({self.whole.text(e.cond, path)}, {a}, {b})"
                return f"({self.plain(e.cond, path)} ? {a} : {b})"
            case Unary(op=UnaryOp.NEG):
                return f"ev_neg({self.number(e.arg, path)})"
            case Binary():
                names = {
                    BinaryOp.ADD: "ev_add",
                    BinaryOp.SUB: "ev_sub",
                    BinaryOp.MUL: "ev_mul",
                    BinaryOp.DIV: "ev_div",
                    BinaryOp.MIN: "ev_min",
                    BinaryOp.MAX: "ev_max",
                }
                if e.op in names:
                    a, b = self.number(e.lhs, path), self.number(e.rhs, path)
                    unit = "" if e.op in (BinaryOp.MIN, BinaryOp.MAX) else f", {u}"
                    return f"{names[e.op]}({a}, {b}{unit})"
            case _:
                pass
        raise CodegenError(f"the reference cannot compute {print_expr(e)}")


def _unit(dtype: DType) -> str:
    return {DType.F32: "EV_U32", DType.BF16: "EV_U16"}.get(dtype, "EV_U64")
