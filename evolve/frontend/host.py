"""Host code around a launch: grid and block, as far as they can be read off, and arrays passed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from evolve.frontend.clang import binary_operator, children, evaluate, kind
from evolve.frontend.locate import Found, LaunchSite
from evolve.frontend.refuse import RefusalError
from evolve.ir.expr import Binary, BinaryOp, Expr, index, var
from evolve.ir.types import DType

Dims = tuple[Expr, Expr, Expr]
_T = TypeVar("_T")
_NARROW = frozenset(
    ("BOOL", "CHAR_S", "CHAR_U", "SCHAR", "UCHAR", "SHORT", "USHORT", "FLOAT", "DOUBLE", "LONGDOUBLE")
)
"""Types through which a size does not pass unchanged, by libclang's names."""
_ASSIGNS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"))


def launch_dims(kernel: Found, site: LaunchSite) -> tuple[Dims, Dims] | None:
    """Grid and block of a launch over the kernel's scalars; None when they cannot be read off."""
    host = _Host(kernel, site)
    try:
        return host.dims(site.grid), host.dims(site.block)
    except RefusalError:
        return None


class _Host:
    """Reads the host's launch geometry. Host variables passed as scalars stand for the parameters."""

    def __init__(self, kernel: Found, site: LaunchSite) -> None:
        self._by_key: dict[int, str] = {}
        self._used = -1
        """Where the variable starts whose initialiser is being read; -1: in the launch itself."""
        params = [c for c in children(kernel.cursor) if kind(c) == "PARM_DECL"]
        for p, a in zip(params, site.arguments, strict=False):
            inner = a
            while kind(inner) == "UNEXPOSED_EXPR" and len(children(inner)) == 1:
                inner = children(inner)[0]
            target = inner.referenced if kind(inner) == "DECL_REF_EXPR" else None
            if target is not None and p.type.get_canonical().kind.name not in ("POINTER", "FLOAT", "DOUBLE"):
                self._by_key.setdefault(target.hash, p.spelling)
        self._depth = 0

    def dims(self, c: Any) -> Dims:
        """A dim3, or an integer. Raises RefusalError."""
        inner = _strip(c)
        if kind(inner) == "CALL_EXPR" and inner.spelling == "dim3":
            parts = [x for x in children(inner) if kind(x) != "TYPE_REF"]
            if len(parts) == 1 and _strip(parts[0]).type.get_canonical().spelling.endswith("dim3"):
                return self.dims(parts[0])
            got = [self._axis(x) for x in parts[:3]]
            got += [index(1)] * (3 - len(got))
            return got[0], got[1], got[2]
        if kind(inner) == "DECL_REF_EXPR" and inner.type.get_canonical().spelling.endswith("dim3"):
            d = inner.referenced
            calls = [x for x in children(d) if kind(_strip(x)) == "CALL_EXPR"]
            if calls:
                return self._initial(d, lambda: self.dims(calls[-1]))
        return self._axis(inner), index(1), index(1)

    def _initial(self, d: Any, read: Callable[[], _T]) -> _T:
        """What a variable's initialiser says. Raises RefusalError where the variable changes afterwards."""
        if changed(d, d.extent.end.offset):
            raise RefusalError(d.location.line, "launch", f"{d.spelling} changes")
        before, self._used = self._used, d.extent.start.offset
        try:
            return read()
        finally:
            self._used = before

    def _axis(self, c: Any) -> Expr:
        inner = _strip(c)
        if kind(inner) == "UNEXPOSED_EXPR" and not children(inner):
            return index(1)
        return self._integer(inner)

    def _integer(self, c: Any) -> Expr:
        self._depth += 1
        try:
            if self._depth > 40:
                raise RefusalError(0, "launch", "too deep")
            return self._read(c)
        finally:
            self._depth -= 1

    def _read(self, c: Any) -> Expr:
        inner = _strip(c)
        k = kind(inner)
        if k == "DECL_REF_EXPR":
            d = inner.referenced
            if d.hash in self._by_key:
                if self._used >= 0 and changed(d, self._used):
                    raise RefusalError(inner.location.line, "launch", f"{d.spelling} changes before it")
                return var(self._by_key[d.hash])
            if kind(d) == "ENUM_CONSTANT_DECL":
                return index(int(d.enum_value))
            values = [x for x in children(d) if x.kind.is_expression()]
            if kind(d) == "VAR_DECL" and values:
                return self._initial(d, lambda: self._integer(values[-1]))
        if k == "MEMBER_REF_EXPR" and inner.spelling in ("x", "y", "z"):
            return self.dims(children(inner)[0])["xyz".index(inner.spelling)]
        if k == "BINARY_OPERATOR":
            left, right = (self._integer(x) for x in children(inner))
            ops = {"+": BinaryOp.ADD, "-": BinaryOp.SUB, "*": BinaryOp.MUL, "/": BinaryOp.FLOORDIV}
            op = ops.get(binary_operator(inner))
            if op is not None:
                return Binary(op, left, right, DType.INDEX)
        value = evaluate(inner)
        if isinstance(value, int):
            return index(value)
        raise RefusalError(inner.location.line, "launch", "it cannot be read off")


def _strip(c: Any) -> Any:
    """Without conversions, but for those that may change the value of an integer."""
    while kind(c) in ("UNEXPOSED_EXPR", "PAREN_EXPR", "CSTYLE_CAST_EXPR", "CXX_FUNCTIONAL_CAST_EXPR"):
        if c.type.get_canonical().kind.name in _NARROW:
            return c
        parts = [x for x in children(c) if kind(x) != "TYPE_REF"]
        if len(parts) != 1:
            return c
        c = parts[0]
    return c


def changed(d: Any, after: int) -> bool:
    """Whether host code behind the offset `after` may give the variable `d` another value.

    Told by its name, so that code which clang cannot make sense of counts as well: an assignment to it or to
    a member of it, a step, its address, `>>` in front of it, and passing it where a reference is taken.
    """
    around = d.semantic_parent
    if any(
        kind(a) == "DECL_REF_EXPR" and a.referenced == d and a.location.offset > after
        for call in around.walk_preorder()
        if kind(call) == "CALL_EXPR" and d.type.get_canonical().kind.name != "RECORD"
        for a in children(call)
    ):
        return True
    tokens = list(around.get_tokens())
    for at, t in enumerate(tokens):
        if t.spelling != d.spelling or t.extent.start.offset <= after:
            continue
        follow = [x.spelling for x in tokens[at + 1 : at + 4]]
        ahead = [x.spelling for x in tokens[max(at - 2, 0) : at]]
        if follow[:1] and follow[0] in _ASSIGNS:
            return True
        if len(follow) == 3 and follow[0] == "." and follow[2] in _ASSIGNS:
            return True
        if ahead and ahead[-1] in ("++", "--", ">>"):
            return True
        if len(ahead) == 2 and ahead[1] == "&" and ahead[0] in ("(", ",", "=", "return", ")"):
            return True
    return False


def passed_twice(kernel: Found, site: LaunchSite) -> str | None:
    """An array that a launch passes for two pointers of the kernel, at least one of them not to const."""
    params = [c for c in children(kernel.cursor) if kind(c) == "PARM_DECL"]
    read_only: dict[int, bool] = {}
    for p, a in zip(params, site.arguments, strict=False):
        t = p.type.get_canonical()
        inner = _strip(a)
        if t.kind.name != "POINTER" or kind(inner) != "DECL_REF_EXPR" or inner.referenced is None:
            continue
        constant = bool(t.get_pointee().is_const_qualified())
        key = inner.referenced.hash
        if key in read_only and not (constant and read_only[key]):
            return str(inner.spelling)
        read_only[key] = constant and read_only.get(key, True)
    return None
