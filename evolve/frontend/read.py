"""libclang cursors to the C tree."""

from __future__ import annotations

from typing import Any

from evolve.frontend.clang import binary_operator, children, evaluate, kind, unary_operator
from evolve.frontend.ctree import (
    Array,
    Assign,
    Branch,
    Builtin,
    CExpr,
    Conditional,
    Continue,
    Convert,
    CStmt,
    CType,
    Declare,
    Element,
    Evaluate,
    Function,
    Group,
    Invoke,
    Loop,
    Name,
    Number,
    Operation,
    Pointer,
    Return,
    Void,
)
from evolve.frontend.library import refuse_cooperation
from evolve.frontend.refuse import RefusalError
from evolve.frontend.steps import separated
from evolve.ir.types import DType

_SCALARS = {
    "BOOL": DType.BOOL,
    "UCHAR": DType.U8,
    "INT": DType.I32,
    "UINT": DType.U32,
    "LONG": DType.I64,
    "LONGLONG": DType.I64,
    "ULONG": DType.U64,
    "ULONGLONG": DType.U64,
    "FLOAT": DType.F32,
    "DOUBLE": DType.F64,
    "ENUM": DType.I32,
}
_THREAD_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_MAX_CALL_DEPTH = 32
_MAX_NESTING = 200
_STATEMENTS_REFUSED = {
    "WHILE_STMT": ("while loop", "the number of iterations is not known before the loop runs"),
    "DO_STMT": ("do loop", "the number of iterations is not known before the loop runs"),
    "SWITCH_STMT": ("switch", "switch statements are not supported; write it with if"),
    "GOTO_STMT": ("goto", "jumps are not supported"),
    "LABEL_STMT": ("label", "jumps are not supported"),
    "BREAK_STMT": ("break", "the loop's number of iterations would depend on data"),
    "GCC_ASM_STMT": ("inline assembly", "its meaning is not known"),
    "ASM_STMT": ("inline assembly", "its meaning is not known"),
    "MS_ASM_STMT": ("inline assembly", "its meaning is not known"),
    "CXX_FOR_RANGE_STMT": ("range-based for", "only counted loops are supported"),
    "CXX_TRY_STMT": ("try", "exceptions do not exist on the device"),
}


def scalar_type(t: Any, line: int) -> CType:
    """A clang type as a CType. Raises RefusalError for what the IR has no type for."""
    c = t.get_canonical()
    name = c.kind.name
    if name in _SCALARS:
        return _SCALARS[name]
    if name == "VOID":
        return Void()
    if name in ("POINTER", "INCOMPLETEARRAY"):
        inner = c.get_pointee() if name == "POINTER" else c.element_type
        element = scalar_type(inner, line)
        if isinstance(element, DType):
            return Pointer(element, bool(inner.is_const_qualified()))
    if name == "LVALUEREFERENCE":
        raise RefusalError(line, f"type {t.spelling}", "references are not supported")
    if name == "CONSTANTARRAY":
        extents: list[int] = []
        while c.kind.name == "CONSTANTARRAY":
            extents.append(int(c.element_count))
            c = c.element_type.get_canonical()
        element = scalar_type(c, line)
        if isinstance(element, DType):
            return Array(element, tuple(extents))
    what = "only 32 and 64-bit integers, unsigned char, bool, float and double are supported"
    raise RefusalError(line, f"type {t.spelling}", what)


class Reader:
    """Reads one kernel and the device functions that it calls."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._depth = 0
        self._nesting = 0
        self._reading: list[int] = []
        self._functions: dict[int, Function] = {}
        self.definitions: list[Any] = []
        """Cursors of the functions that were read, the kernel first."""

    def function(self, cursor: Any) -> Function:
        """A function definition. Raises RefusalError."""
        key, line = cursor.hash, cursor.location.line
        if key in self._functions:
            return self._functions[key]
        if key in self._reading or len(self._reading) >= _MAX_CALL_DEPTH:
            raise RefusalError(line, f"function {cursor.spelling}", "recursion cannot be inlined")
        self._reading.append(key)
        self.definitions.append(cursor)
        parts = children(cursor)
        params = tuple(
            Name(c.hash, c.spelling, scalar_type(c.type, c.location.line), c.location.line)
            for c in parts
            if kind(c) == "PARM_DECL"
        )
        body: tuple[CStmt, ...] = ()
        for c in parts:
            if kind(c) == "COMPOUND_STMT":
                body = self._body(c)
        result = scalar_type(cursor.result_type, line)
        self._reading.pop()
        made = Function(cursor.spelling, params, result, body, line)
        self._functions[key] = made
        return made

    def _body(self, cursor: Any) -> tuple[CStmt, ...]:
        if kind(cursor) == "COMPOUND_STMT":
            return tuple(s for c in children(cursor) for s in self._statement(c))
        return self._statement(cursor)

    def _statement(self, c: Any) -> tuple[CStmt, ...]:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise RefusalError(c.location.line, "statement", f"nested more than {_MAX_NESTING} levels deep")
        try:
            return self._read_statement(c)
        finally:
            self._nesting -= 1

    def _read_statement(self, c: Any) -> tuple[CStmt, ...]:
        k, line = kind(c), c.location.line
        if k in _STATEMENTS_REFUSED:
            construct, reason = _STATEMENTS_REFUSED[k]
            raise RefusalError(line, construct, reason)
        if k == "COMPOUND_STMT":
            return (Group(self._body(c), line),)
        if k == "NULL_STMT":
            return ()
        if k == "UNEXPOSED_STMT" and len(children(c)) == 1:  # hints: `#pragma unroll`, [[likely]]
            return self._statement(children(c)[0])
        if k == "DECL_STMT":
            return tuple(s for d in children(c) for s in self._declaration(d))
        if k == "IF_STMT":
            parts = children(c)
            if len(parts) not in (2, 3) or kind(parts[0]) == "DECL_STMT":
                raise RefusalError(line, "if", "declarations in the condition are not supported")
            orelse = self._body(parts[2]) if len(parts) == 3 else ()
            return (Branch(self.expr(parts[0]), self._body(parts[1]), orelse, line),)
        if k == "FOR_STMT":
            return (self._loop(c),)
        if k == "RETURN_STMT":
            parts = children(c)
            return separated(Return(self.expr(parts[0]) if parts else None, line))
        if k == "CONTINUE_STMT":
            return (Continue(line),)
        if k == "BINARY_OPERATOR" and binary_operator(c) == ",":
            return tuple(s for part in children(c) for s in self._statement(part))
        if k == "CALL_EXPR" and c.spelling == "printf":
            raise RefusalError(line, "printf", "printing from a kernel is not supported")
        return separated(Evaluate(self.expr(c), line))

    def _declaration(self, d: Any) -> tuple[CStmt, ...]:
        k, line = kind(d), d.location.line
        if k in ("TYPEDEF_DECL", "TYPE_ALIAS_DECL", "STATIC_ASSERT", "USING_DIRECTIVE", "ENUM_DECL"):
            return ()
        if k != "VAR_DECL":
            raise RefusalError(
                line, f"declaration of {d.spelling or k.lower()}", "only variables are supported"
            )
        for a in children(d):
            if kind(a) == "CUDASHARED_ATTR":
                raise RefusalError(
                    line, f"shared memory array {d.spelling}", "cooperative kernels are not lifted yet"
                )
        if d.storage_class.name == "STATIC":
            raise RefusalError(line, f"static variable {d.spelling}", "its value outlives the thread")
        t = scalar_type(d.type, line)
        init: CExpr | tuple[CExpr, ...] | None = None
        values = [c for c in children(d) if c.kind.is_expression() or kind(c) == "UNKNOWN"]
        if isinstance(t, Array):
            lists = [c for c in values if kind(c) == "INIT_LIST_EXPR"]
            init = tuple(self._flat(lists[0], t)) if lists else None
        elif values:
            value = values[-1]
            if kind(value) == "INIT_LIST_EXPR" and len(children(value)) == 1:
                value = children(value)[0]
            init = _to(self.expr(value), t, line)
        return separated(Declare(d.hash, d.spelling, t, init, line))

    def _flat(self, listing: Any, t: Array) -> list[CExpr]:
        out: list[CExpr] = []
        for c in children(listing):
            if kind(c) == "INIT_LIST_EXPR":
                raise RefusalError(c.location.line, "nested initialiser", "assign the elements in a loop")
            out.append(_to(self.expr(c), t.element, c.location.line))
        return out

    def _loop(self, c: Any) -> Loop:
        line = c.location.line
        parts = children(c)
        if len(parts) != 4:
            raise RefusalError(line, "for loop", "it needs an initialisation, a condition and a step")
        init = self._statement(parts[0])
        if len(init) != 1:
            raise RefusalError(line, "for loop", "only one variable may be declared in it")
        steps = self._comma(parts[2])
        also = tuple(s for c in steps[1:] for s in self._statement(c))
        return Loop(init[0], self.expr(parts[1]), self.expr(steps[0]), self._body(parts[3]), also, line)

    def _comma(self, c: Any) -> list[Any]:
        """The operands of comma operators."""
        if kind(c) == "BINARY_OPERATOR" and binary_operator(c) == ",":
            return [x for part in children(c) for x in self._comma(part)]
        return [c]

    def expr(self, c: Any) -> CExpr:
        """An expression. Raises RefusalError."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise RefusalError(c.location.line, "expression", f"nested more than {_MAX_NESTING} levels deep")
        try:
            return self._expr(c)
        finally:
            self._nesting -= 1

    def _expr(self, c: Any) -> CExpr:
        k, line = kind(c), c.location.line
        if k in ("INTEGER_LITERAL", "FLOATING_LITERAL", "CXX_BOOL_LITERAL_EXPR", "CHARACTER_LITERAL"):
            value = evaluate(c)
            t = scalar_type(c.type, line)
            if value is None or not isinstance(t, DType):
                raise RefusalError(line, "literal", "clang cannot tell its value")
            return Number(value, t, line)
        if k == "PAREN_EXPR":
            return self.expr(children(c)[0])
        if k == "DECL_REF_EXPR":
            return self._name(c)
        if k in ("UNEXPOSED_EXPR", "CSTYLE_CAST_EXPR", "CXX_STATIC_CAST_EXPR", "CXX_FUNCTIONAL_CAST_EXPR"):
            return self._conversion(c)
        if k == "MEMBER_REF_EXPR":
            base = children(c)
            if base and base[0].spelling in _THREAD_BUILTINS and c.spelling in ("x", "y", "z"):
                return Builtin(base[0].spelling, "xyz".index(c.spelling), line)
            raise RefusalError(line, f"member {c.spelling}", "structures and vector types are not supported")
        if k == "ARRAY_SUBSCRIPT_EXPR":
            base_c, index_c = children(c)
            return Element(self.expr(base_c), self.expr(index_c), scalar_type(c.type, line), line)
        if k == "UNARY_OPERATOR":
            return self._unary(c)
        if k in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR"):
            return self._binary(c)
        if k == "CONDITIONAL_OPERATOR":
            cond, then, orelse = children(c)
            t = scalar_type(c.type, line)
            a, b = _to(self.expr(then), t, line), _to(self.expr(orelse), t, line)
            return Conditional(self.expr(cond), a, b, t, line)
        if k == "CALL_EXPR":
            return self._call(c)
        value = evaluate(c)
        if value is not None and c.kind.is_expression():
            t = scalar_type(c.type, line)
            if isinstance(t, DType):
                return Number(value, t, line)
        raise RefusalError(line, k.lower().replace("_", " "), "this expression is not supported")

    def _name(self, c: Any) -> CExpr:
        line = c.location.line
        d = c.referenced
        if d is None:
            raise RefusalError(line, c.spelling, "it is not declared")
        if kind(d) == "ENUM_CONSTANT_DECL":
            return Number(int(d.enum_value), DType.I32, line)
        if c.spelling == "warpSize":
            return Number(32, DType.I32, line)
        t = scalar_type(c.type, line)
        parent = d.semantic_parent
        if kind(d) == "VAR_DECL" and parent is not None and kind(parent) in ("TRANSLATION_UNIT", "NAMESPACE"):
            attributes = {kind(a) for a in children(d)}
            if attributes & {"CUDACONSTANT_ATTR", "CUDADEVICE_ATTR", "CUDASHARED_ATTR"}:
                raise RefusalError(
                    line, f"device variable {c.spelling}", "only parameters and locals are supported"
                )
            value = evaluate(d) if d.type.is_const_qualified() else None
            if value is None or not isinstance(t, DType):
                raise RefusalError(line, f"global variable {c.spelling}", "its value is not a constant")
            return Number(value, t, line)
        return Name(d.hash, c.spelling, t, line)

    def _conversion(self, c: Any) -> CExpr:
        line = c.location.line
        parts = [x for x in children(c) if kind(x) != "TYPE_REF"]
        if len(parts) != 1:
            raise RefusalError(line, f"conversion to {c.type.spelling}", "it is not understood")
        arg = self.expr(parts[0])
        t = scalar_type(c.type, line)
        if isinstance(t, Pointer):
            if isinstance(arg.type, Array):
                return arg
            if not isinstance(arg.type, Pointer) or arg.type.element is not t.element:
                raise RefusalError(
                    line, f"cast to {c.type.spelling}", "reinterpreting memory is not supported"
                )
            return arg
        return _to(arg, t, line)

    def _unary(self, c: Any) -> CExpr:
        line, op = c.location.line, unary_operator(c)
        t = scalar_type(c.type, line)
        arg = self.expr(children(c)[0])
        if op in ("x++", "++x", "x--", "--x"):
            one = Number(1, DType.I32, line)
            if op.startswith("x"):
                # The value before the step: only statements use these, where it is dropped.
                return Assign("+" if "+" in op else "-", arg, one, arg.type, Void(), line)
            return Assign("+" if "+" in op else "-", arg, one, arg.type, t, line)
        if op == "*":
            return Element(arg, Number(0, DType.I32, line), t, line)
        if op == "&":
            if isinstance(arg, Element):
                base = arg.base
                return Operation("+", (base, arg.index), base.type, line)
            raise RefusalError(line, "address of a variable", "pointers to locals are not supported")
        if op == "+":
            return arg
        if op in ("-", "!", "~"):
            if op == "-" and isinstance(arg, Number) and t in (DType.I32, DType.I64, DType.F32, DType.F64):
                return Number(-arg.value, t, line)
            return Operation({"-": "neg", "!": "not", "~": "~"}[op], (arg,), t, line)
        raise RefusalError(line, f"operator {op}", "it is not supported")

    def _binary(self, c: Any) -> CExpr:
        line, op = c.location.line, binary_operator(c)
        left_c, right_c = children(c)
        left, right = self.expr(left_c), self.expr(right_c)
        t = scalar_type(c.type, line)
        if op == "=":
            return Assign(None, left, right, left.type, t, line)
        if op.endswith("=") and op not in ("<=", ">=", "==", "!="):
            base = op[:-1]
            compute = left.type
            if isinstance(left.type, DType) and isinstance(right.type, DType):
                compute = left.type if base in ("<<", ">>") else common_type(left.type, right.type)
                right = right if base in ("<<", ">>") else _to(right, compute, line)
            return Assign(base, left, right, compute, t, line)
        if op in ("?", ".*", "->*", "<=>", ","):
            raise RefusalError(line, f"operator {op}", "it is not supported inside an expression")
        return Operation(op, (left, right), t, line)

    def _call(self, c: Any) -> CExpr:
        line, name = c.location.line, c.spelling
        target = c.referenced
        if target is None or not name:
            raise RefusalError(line, "call", "the function cannot be told")
        refuse_cooperation(name, line)
        t = scalar_type(c.type, line)
        args = tuple(self.expr(a) for a in c.get_arguments())
        definition = target.get_definition()
        file = None if definition is None else definition.location.file
        if file is None or file.name != self._path:
            return Invoke(name, None, args, t, line)
        if kind(definition) != "FUNCTION_DECL" or target.get_num_template_arguments() > 0:
            raise RefusalError(line, f"call of {name}", "only plain device functions can be inlined")
        function = self.function(definition)
        if len(args) != len(function.params):
            raise RefusalError(line, f"call of {name}", "default arguments are not supported")
        return Invoke(name, function, args, t, line)


_RANK = (DType.BOOL, DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.F32, DType.F64)


def common_type(a: DType, b: DType) -> DType:
    """C's usual arithmetic conversions, integers promoted to at least int."""
    return _RANK[max(_RANK.index(a), _RANK.index(b), _RANK.index(DType.I32))]


def _to(e: CExpr, t: CType, line: int) -> CExpr:
    if e.type == t or isinstance(t, Void | Array) or isinstance(e.type, Array):
        return e
    return Convert(e, t, line)
