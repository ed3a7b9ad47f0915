"""libclang's cursors to the tree of an emitted text."""

from __future__ import annotations

import re
from typing import Any

from evolve.frontend.clang import binary_operator, children, evaluate, kind, parse, unary_operator
from evolve.ir.errors import EvolveError
from evolve.ir.types import DType
from evolve.validation.declarations import DECLARATIONS, LINES
from evolve.validation.effects import check_effects
from evolve.validation.text import (
    Address,
    Array,
    Assign,
    Branch,
    Builtin,
    Conditional,
    Convert,
    Declare,
    Element,
    Evaluate,
    Expr,
    Function,
    Group,
    Hinted,
    Invoke,
    Lane,
    Loop,
    Name,
    Number,
    Operation,
    Pointer,
    Return,
    Stmt,
    Type,
    Vector,
    While,
    Wide,
)
from evolve.validation.types import line_of, type_of
from evolve.validation.verdict import UnreadError

_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_LANES = "xyzw"
_LITERALS = ("INTEGER_LITERAL", "FLOATING_LITERAL", "CXX_BOOL_LITERAL_EXPR")
_CASTS = (
    "UNEXPOSED_EXPR",
    "CSTYLE_CAST_EXPR",
    "CXX_STATIC_CAST_EXPR",
    "CXX_FUNCTIONAL_CAST_EXPR",
    "CXX_REINTERPRET_CAST_EXPR",
)
_NEGATED = (DType.I32, DType.I64, DType.F32, DType.F64)
PREFETCH = "a request to L2"
"""The name that is given to `*(const volatile char*)(address)`, which stands for one."""
_CONSTANTS = {"__builtin_inff": float("inf"), "__builtin_nanf": float("nan")}
_LOADS = ("__ldg", "__ldcs", "__ldcg")
_STORES = ("__stcs", "__stcg")


class TextReader:
    """The functions of one text. Raises UnreadError for what emitted kernels have no need of."""

    def __init__(self, text: str) -> None:
        try:
            parsed = parse("emitted.cu", DECLARATIONS + text)
        except EvolveError as e:
            raise UnreadError(f"clang cannot parse the text: {e}") from e
        if parsed.problems:
            first = parsed.problems[0]
            raise UnreadError(f"clang: {first.message}", first.line - LINES)
        self._unit = parsed.unit
        self._lines = text.splitlines()
        self._cursors: dict[str, Any] = {}
        self._functions: dict[str, Function] = {}
        self._overloaded: set[str] = set()
        self._hinted: list[Hinted] = []
        self._parameters: set[str] = set()
        self._find(parsed.root)

    def _find(self, cursor: Any) -> None:
        for c in children(cursor):
            if c.location.file is None or c.location.file.name != "emitted.cu":
                continue
            if kind(c) in ("LINKAGE_SPEC", "UNEXPOSED_DECL"):
                self._find(c)
            elif kind(c) == "FUNCTION_DECL" and c.is_definition():
                if c.spelling in (*self._cursors, *_LOADS, *_STORES):
                    self._overloaded.add(c.spelling)
                self._cursors[c.spelling] = c

    def kernel(self, name: str) -> Function:
        """A function of the text that can be launched by its name."""
        found, c = self.function(name), self._cursors[name]
        if "CUDAGLOBAL_ATTR" not in map(kind, children(c)) or c.mangled_name != name:
            raise UnreadError(f"{name} is not a kernel of that name", found.line)
        if found.references:
            raise UnreadError("a parameter that is a reference", found.line)
        return found

    def function(self, name: str) -> Function:
        """A function of the text."""
        if name not in self._cursors:
            raise UnreadError(f"the text defines no function {name}")
        if name in self._overloaded:
            raise UnreadError(f"the text defines {name} more than once")
        if name not in self._functions:
            c = self._cursors[name]
            params: list[Name] = []
            references: set[int] = set()
            readonly: set[int] = set()
            # A function that this one calls is read while this one is.
            outer = self._hinted, self._parameters
            self._hinted, self._parameters = [], set()
            body: tuple[Stmt, ...] = ()
            for part in children(c):
                if kind(part) == "PARM_DECL":
                    params.append(Name(part.hash, part.spelling, type_of(part.type, part)))
                    if part.type.kind.name == "LVALUEREFERENCE":
                        references.add(part.hash)
                    if part.type.get_pointee().is_const_qualified():
                        readonly.add(part.hash)
                    self._parameters.add(part.spelling)
                elif kind(part) == "COMPOUND_STMT":
                    body = self._body(part)
            check_effects(body)
            first, last = c.extent.start.line - LINES, c.extent.end.line - LINES
            text = "\n".join(self._lines[first - 1 : last])
            by_reference = frozenset(references)
            self._functions[name] = Function(
                c.spelling,
                tuple(params),
                body,
                first,
                text,
                by_reference,
                frozenset(readonly),
                tuple(self._hinted),
            )
            self._hinted, self._parameters = outer
        return self._functions[name]

    # ---- types

    # ---- statements

    def _body(self, c: Any) -> tuple[Stmt, ...]:
        if kind(c) == "COMPOUND_STMT":
            return tuple(s for x in children(c) for s in self._statement(x))
        return self._statement(c)

    def _statement(self, c: Any) -> tuple[Stmt, ...]:
        k, line = kind(c), line_of(c)
        if k == "COMPOUND_STMT":
            return (Group(self._body(c), line),)
        if k == "NULL_STMT":
            return ()
        if k == "UNEXPOSED_STMT" and len(children(c)) == 1:  # `#pragma unroll`
            return self._statement(children(c)[0])
        if k == "DECL_STMT":
            return tuple(s for d in children(c) for s in self._declaration(d))
        if k == "IF_STMT":
            parts = children(c)
            orelse = self._body(parts[2]) if len(parts) == 3 else ()
            return (Branch(self._expr(parts[0]), self._body(parts[1]), orelse, line),)
        if k == "FOR_STMT":
            return (self._loop(c),)
        if k == "WHILE_STMT":
            cond, body = children(c)
            return (While(self._expr(cond), self._body(body), False, line),)
        if k == "DO_STMT":
            body, cond = children(c)
            return (While(self._expr(cond), self._body(body), True, line),)
        if k == "RETURN_STMT":
            parts = children(c)
            return (Return(self._expr(parts[0]) if parts else None, line),)
        if not c.kind.is_expression():
            raise UnreadError(k.lower().replace("_", " "), line)
        e = self._expr(c)
        return (e,) if isinstance(e, Assign) else (Evaluate(e, line),)

    def _loop(self, c: Any) -> Loop:
        line, parts = line_of(c), children(c)
        if len(parts) != 4:
            raise UnreadError("a for loop of another form", line)
        init = self._statement(parts[0])
        step = self._expr(parts[2])
        if len(init) != 1 or not isinstance(init[0], Declare) or not isinstance(step, Assign):
            raise UnreadError("a for loop of another form", line)
        return Loop(init[0], self._expr(parts[1]), step, self._body(parts[3]), line)

    def _declaration(self, d: Any) -> tuple[Stmt, ...]:
        line = line_of(d)
        if kind(d) != "VAR_DECL":
            raise UnreadError(f"declaration of {d.spelling}", line)
        if d.spelling in self._parameters:
            raise UnreadError(f"{d.spelling} hides a parameter", line)
        attributes = {kind(a): a for a in children(d)}
        shared = "CUDASHARED_ATTR" in attributes
        if d.storage_class.name == "STATIC" and not shared:
            raise UnreadError(f"static variable {d.spelling}", line)
        t = type_of(d.type, d)
        align = int(d.type.get_align())
        if "ALIGNED_ATTR" in attributes:
            align = self._alignment(d, line)
        if d.type.get_canonical().kind.name == "LVALUEREFERENCE":
            return (self._placed(d, t, line),)
        values = [x for x in children(d) if x.kind.is_expression() and kind(x) != "INIT_LIST_EXPR"]
        values = [] if shared or isinstance(t, Array) else values
        const = bool(d.type.is_const_qualified())
        init = None
        # A vector without a value has the call of its constructor below it.
        if values and (kind(values[-1]) != "CALL_EXPR" or children(values[-1])):
            init = self._to(self._expr(values[-1]), t)
        return (Declare(d.hash, d.spelling, t, init, line, const, shared, None, align),)

    def _alignment(self, d: Any, line: int) -> int:
        """What `__align__` says, from the text: libclang does not tell."""
        text = self._lines[line - 1].partition("//")[0]
        found = re.findall(r"__align__\((\d+)\)", text)
        # Of several declarations or attributes on a line it is not known whose it is.
        return int(found[0]) if len(found) == text.count("align") == 1 and text.count(";") == 1 else 0

    def _placed(self, d: Any, t: Type, line: int) -> Declare:
        """`T (&name)[n] = *reinterpret_cast<T (*)[n]>(memory + offset)`."""
        at = [x for x in children(d) if x.kind.is_expression()][-1]
        seen = []
        while kind(at) != "BINARY_OPERATOR":
            seen.append(kind(at))
            inner = [x for x in children(at) if x.kind.is_expression() and kind(x) != "INTEGER_LITERAL"]
            if len(inner) != 1:
                raise UnreadError(f"reference {d.spelling}", line)
            (at,) = inner
        base, offset = children(at)
        while kind(base) != "DECL_REF_EXPR":
            (base,) = children(base)
        held = base.referenced
        attributes = {kind(a) for a in children(held)}
        place = evaluate(offset)
        plain = {"UNARY_OPERATOR", "CXX_REINTERPRET_CAST_EXPR", "PAREN_EXPR", "UNEXPOSED_EXPR"}
        if (
            set(seen) - plain
            or binary_operator(at) != "+"
            or "CUDASHARED_ATTR" not in attributes
            or held.storage_class.name != "EXTERN"
            or not isinstance(place, int)
            or not isinstance(t, Array)
            or not isinstance(type_of(base.type, base), Array)
        ):
            raise UnreadError(f"reference {d.spelling}", line)
        align = self._alignment(held, line_of(held))
        return Declare(d.hash, d.spelling, t, None, line, False, True, place, align)

    # ---- expressions

    def _expr(self, c: Any) -> Expr:
        k = kind(c)
        if k in _LITERALS:
            value, t = evaluate(c), type_of(c.type, c)
            if value is None or not isinstance(t, DType):
                raise UnreadError("a literal", line_of(c))
            return Number(value, t)
        if k == "PAREN_EXPR":
            return self._expr(children(c)[0])
        if k == "DECL_REF_EXPR":
            d = c.referenced
            if d is None:
                raise UnreadError(c.spelling, line_of(c))
            return Name(d.hash, c.spelling, type_of(c.type, c))
        if k in _CASTS:
            return self._conversion(c)
        if k == "MEMBER_REF_EXPR":
            return self._member(c)
        if k == "ARRAY_SUBSCRIPT_EXPR":
            base_c, index_c = children(c)
            return self._element(self._expr(base_c), self._expr(index_c), c)
        if k == "UNARY_OPERATOR":
            return self._unary(c)
        if k in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR"):
            return self._binary(c)
        if k == "CONDITIONAL_OPERATOR":
            cond, then, orelse = children(c)
            t = type_of(c.type, c)
            return Conditional(
                self._expr(cond), self._to(self._expr(then), t), self._to(self._expr(orelse), t), t
            )
        if k == "CALL_EXPR":
            return self._call(c)
        raise UnreadError(k.lower().replace("_", " "), line_of(c))

    def _element(self, base: Expr, index: Expr, c: Any) -> Expr:
        t = type_of(c.type, c)
        if isinstance(base, Name):
            return Element(base, (index,), t)
        if isinstance(base, Element) and isinstance(base.type, Array):
            return Element(base.base, (*base.indices, index), t)
        raise UnreadError("a subscript of this", line_of(c))

    def _member(self, c: Any) -> Expr:
        base = children(c)
        if base and base[0].spelling in _BUILTINS and c.spelling in _LANES[:3]:
            return Builtin(base[0].spelling, _LANES.index(c.spelling))
        if base and c.spelling in _LANES:
            vector, t = self._expr(base[0]), type_of(c.type, c)
            if isinstance(vector.type, Vector) and isinstance(t, DType):  # type: ignore[union-attr]
                return Lane(vector, _LANES.index(c.spelling), t)
        raise UnreadError(f"member {c.spelling}", line_of(c))

    def _conversion(self, c: Any) -> Expr:
        parts = [x for x in children(c) if kind(x) != "TYPE_REF"]
        if len(parts) != 1:
            raise UnreadError(f"conversion to {c.type.spelling}", line_of(c))
        arg = self._expr(parts[0])
        if isinstance(arg, Invoke) and arg.name == PREFETCH:
            return arg
        if c.type.spelling == "const volatile char *" and isinstance(arg, Address):
            return Invoke(PREFETCH, (arg,), None)
        t = type_of(c.type, c)
        if isinstance(t, Pointer) and isinstance(arg, Address) and isinstance(arg.of, Element):
            if isinstance(t.element, Vector):
                return Address(Wide(arg.of, t.element))
            if t.element is None or t.element is arg.of.type:
                return arg
        if isinstance(t, Pointer):
            held = arg.type if isinstance(arg, Name | Element) else None
            if isinstance(held, Array | Pointer) and held.element is t.element:
                return arg
            raise UnreadError(f"conversion to {c.type.spelling}", line_of(c))
        return self._to(arg, t)

    @staticmethod
    def _to(e: Expr, t: Type) -> Expr:
        if isinstance(e, Assign) or not isinstance(t, DType) or e.type is t:  # type: ignore[union-attr]
            return e
        if isinstance(e, Number):
            if t.is_float and not isinstance(e.value, float):
                return Number(float(e.value), t)
            if not t.is_float and isinstance(e.value, int) and t is not DType.BOOL:
                low, high = t.limits
                if low <= e.value <= high:
                    return Number(e.value, t)
        return Convert(e, t)

    def _unary(self, c: Any) -> Expr:
        op, line = unary_operator(c), line_of(c)
        arg = self._expr(children(c)[0])
        if op in ("x++", "++x", "x--", "--x"):
            return Assign("+" if "+" in op else "-", arg, Number(1, DType.I32), line)
        if op == "*":
            if isinstance(arg, Address):
                return arg.of
            if isinstance(arg, Invoke) and arg.name == PREFETCH:
                return arg
            raise UnreadError("a pointer that is followed", line)
        if op == "&":
            return Address(arg)
        t = type_of(c.type, c)
        if op in ("-", "!", "~"):
            if op == "-" and isinstance(arg, Number) and arg.type in _NEGATED:
                return Number(-arg.value, arg.type)
            return Operation({"-": "neg", "!": "not", "~": "~"}[op], (arg,), t)
        raise UnreadError(f"operator {op}", line)

    def _binary(self, c: Any) -> Expr:
        op, line = binary_operator(c), line_of(c)
        left_c, right_c = children(c)
        left, right = self._expr(left_c), self._expr(right_c)
        if op == "=":
            return Assign("", left, self._to(right, type_of(left_c.type, left_c)), line)
        if op.endswith("=") and op not in ("<=", ">=", "==", "!="):
            t = type_of(left_c.type, left_c)
            if op[:-1] not in ("<<", ">>") and not isinstance(right, Number) and right.type is not t:  # type: ignore[union-attr]
                raise UnreadError("an update in another type", line)
            return Assign(op[:-1], left, right if op[:-1] in ("<<", ">>") else self._to(right, t), line)
        if op in ("?", ".*", "->*", "<=>", ","):
            raise UnreadError(f"operator {op}", line)
        return Operation(op, (left, right), type_of(c.type, c))

    def _keep_hint(self, at: Address, constant: bool, line: int) -> None:
        element = at.of.first if isinstance(at.of, Wide) else at.of
        if not isinstance(element, Element):
            raise UnreadError("an access with a hint to this", line)
        self._hinted.append(Hinted(element.base, constant, line))

    def _call(self, c: Any) -> Expr:
        name, line = c.spelling, line_of(c)
        if name in self._overloaded:
            raise UnreadError(f"the text defines {name} more than once", line)
        if name in _CONSTANTS:
            return Number(_CONSTANTS[name], DType.F32)
        parts = children(c)
        if not name or (c.referenced is not None and kind(c.referenced) == "CONSTRUCTOR"):
            inner = [x for x in parts if x.kind.is_expression()]
            if len(inner) == 1:  # a copy of a vector
                return self._expr(inner[0])
            raise UnreadError("a call", line)
        # Arguments that are left out have nothing below them.
        given = [a for a in c.get_arguments() if kind(a) != "UNEXPOSED_EXPR" or children(a)]
        args = tuple(self._expr(a) for a in given)
        if name == "operator=" and len(args) == 2:  # of vectors
            return Assign("", args[0], args[1], line)
        if name in _LOADS and isinstance(args[0], Address):
            self._keep_hint(args[0], name == "__ldg", line)
            return args[0].of
        if name in _STORES and isinstance(args[0], Address):
            self._keep_hint(args[0], False, line)
            return Assign("", args[0].of, args[1], line)
        definition = self.function(name) if name in self._cursors else None
        return Invoke(name, args, type_of(c.type, c), definition)
