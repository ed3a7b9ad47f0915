"""What picks a variant and launches it, read back: the host function asks what each variant needs (`guards`),
and launches its kernels in their order with the grid, block, memory and arguments that were proved.

Of the kernel as given it is only the launch that is compared, as its source has it for grids of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolve.codegen.rendered import Param, Rendered, RenderedLaunch
from evolve.ir.expr import Expr as Term
from evolve.ir.kernel import Kernel, Module
from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import below, negation
from evolve.validation.guards import ALIGNED, Guards, conditions
from evolve.validation.host import Asks, Declared, Does, Gives, Host, Node, Step, read_host
from evolve.validation.host_sizes import HostSizes
from evolve.validation.meaning import kernel_index
from evolve.validation.polynomial import Poly, constant, variable
from evolve.validation.state import State
from evolve.validation.verdict import DifferenceError, TextStatus, TextVerdict, UnreadError
from evolve.validation.witness import happens, unequal, within_types

KNOWN = {
    "8f153fb6cb8a60512bcd0ba2e2c955e206aa2202e957b1add109c2802dea26c3": "apart",
    "391bec0c83cd381654ecc5573e13f388c66d70606464f0e3a5d4ff437d580908": "allowed",
}
"""SHA-256 of function objects: whether two ranges of bytes are apart; whether the driver gives a kernel so
much shared memory."""
_TYPES = {
    DType.F32: "float",
    DType.F64: "double",
    DType.I32: "int",
    DType.U32: "unsigned int",
    DType.I64: "long long",
    DType.U64: "unsigned long long",
    DType.U8: "unsigned char",
    DType.BF16: "unsigned short",
    DType.BOOL: "bool",
}
_WIDE = ("unsigned long", "unsigned long long")
"""One type under two names, on 64 bit hosts."""
_MOST_BLOCKS = 2**32 - 1


def validate_launcher(module: Module, rendered: Rendered, text: str) -> TextVerdict:
    """Reads the host function of a text back that holds `rendered`'s. Raises nothing."""
    line = 0
    try:
        host = read_host(text, frozenset(rendered.signatures))
        line = host.line
        _Launcher(module, rendered, host).check()
    except DifferenceError as e:
        return TextVerdict(TextStatus.REFUTED, e.reason, e.line or line)
    except UnreadError as e:
        return TextVerdict(TextStatus.UNKNOWN, e.reason, e.line or line)
    except Exception as e:  # A fault of this package says nothing about the text.
        return TextVerdict(TextStatus.UNKNOWN, f"{type(e).__name__}: {e}", line)
    return TextVerdict(TextStatus.PROVED)


class _Launcher:
    def __init__(self, module: Module, rendered: Rendered, host: Host) -> None:
        self.module, self.rendered, self.host = module, rendered, host
        kernel = next((k for v in module.variants for k in v.kernels), None)
        if kernel is None:
            raise UnreadError("a module without kernels")
        sizes = {s.name: variable(s.name) for s in module.scalars if s.is_size}
        self.state = _state(kernel, sizes)
        self.sizes = HostSizes(module, self.state)
        context = Context(dict.fromkeys(sizes, (None, None)), asked=within_types(module.scalars))
        self.guards = Guards(module, self.state, self.sizes, context)
        self.types: dict[int, str] = {}
        self.stream = 0
        self.line = host.line

    def check(self) -> None:
        self._parameters()
        steps = list(self.host.body)
        while steps and isinstance(steps[0], Declared):
            self._declared(steps.pop(0))
        for variant, made in zip(self.module.variants, self.rendered.variants, strict=True):
            if not steps or not isinstance(steps[0], Asks):
                raise DifferenceError("a variant that is not launched", self.line)
            step = steps.pop(0)
            assert isinstance(step, Asks)
            self.line = step.line
            context = self.guards.check(variant, made, step.cond)
            self._launched(list(step.then), made.launches, context, variant.kernels)
            if step.cond is None:
                if steps:
                    raise DifferenceError("something behind a variant for all sizes", self.line)
                return
        original = self.rendered.original
        self._same_original(original)
        self._launched(steps, (original,), self.guards.context, ())

    # ---- parameters and names

    def _parameters(self) -> None:
        *given, stream = self.host.params
        buffers, scalars = ({x.name: x for x in xs} for xs in (self.module.buffers, self.module.scalars))
        if len(given) != len(self.module.params) or stream[2] != "CUstream_st *":
            raise DifferenceError("the host function has other parameters", self.line)
        for (key, _, spelled), name in zip(given, self.module.params, strict=True):
            dtype = buffers[name].dtype if name in buffers else scalars[name].dtype
            if spelled != _TYPES[dtype] + (" *" if name in buffers else ""):
                raise DifferenceError(f"{name} has another type in the host function", self.line)
            self.guards.names[key], self.types[key] = name, spelled
        self.stream = stream[0]

    def _declared(self, d: Step) -> None:
        assert isinstance(d, Declared)
        match d.init:
            case ("lambda", hashed) if KNOWN.get(hashed):
                self.guards.known[d.key] = KNOWN[hashed]
            case ("cast", "long long", ("name", key, _)) if (
                d.type == "long long" and key in self.guards.names
            ):
                self._widened(d.key, self.guards.names[key])
            case ("name", key, _) if d.type == "long long" and key in self.guards.names:
                self._widened(d.key, self.guards.names[key])
            case _:
                raise UnreadError(f"declaration of {d.name}", d.line)

    def _widened(self, key: int, name: str) -> None:
        """A name for a parameter in 64 bits: of a size, or of what is only compared."""
        if name in self.state.sizes:
            self.sizes.names[key] = name
        else:
            self.guards.names[key] = name

    # ---- launches

    def _launched(
        self,
        steps: list[Step],
        launches: Sequence[RenderedLaunch],
        context: Context,
        kernels: Sequence[Kernel],
    ) -> None:
        scratch = {p.name: p for x in launches for p in x.params if p.is_scratch}
        failed, block = self._allocated(steps, scratch, context) if scratch else (0, 0)
        for launch in launches:
            self._preferred(steps, launch)
            self._launch(steps, launch, context)
        last = ("call", "cudaGetLastError", ())
        if not scratch:
            wanted: list[object] = [("gives", last)]
        else:
            set_ = ("op", "=", ("name", failed), last)
            wanted = [set_, ("free", block), ("gives", ("name", failed))]
        if [self._ending(s) for s in steps] != wanted:
            raise DifferenceError("the launch ends in another way", self.line)

    def _ending(self, s: Step) -> object:
        match s:
            case Gives(node=("name", key, _)):
                return ("gives", ("name", key))
            case Gives(node=node):
                return ("gives", node)
            case Does(node=("op", "=", ("name", key, _), value, _)):
                return ("op", "=", ("name", key), value)
            case Does(node=("call", "cudaFreeAsync", (at, ("name", stream, _)))) if stream == self.stream:
                while at[0] == "cast":
                    at = at[2]
                return ("free", at[1])
            case _:
                return s

    def _allocated(self, steps: list[Step], scratch: dict[str, Param], context: Context) -> tuple[int, int]:
        """One block of memory in which each array begins where the one before it has ended."""
        if len(steps) < 3 + len(scratch):
            raise DifferenceError("scratch memory that is not there", self.line)
        block, failed, test, *rest = steps[: 3 + len(scratch)]
        del steps[: 3 + len(scratch)]
        match block, failed, test:
            case (
                Declared(key=at, type="char *", init=("null",)),
                Declared(key=error, init=("call", "cudaMallocAsync", (where, size, ("name", stream, _)))),
                Asks(
                    cond=(
                        "op",
                        "!=",
                        ("cast", "int", ("name", asked, _)),
                        ("cast", "int", ("name", _, ok)),
                        _,
                    ),
                    then=(Gives(node=("name", given, _)),),
                ),
            ) if stream == self.stream and error == asked == given and ok == "cudaSuccess":
                pass
            case _:
                raise UnreadError("scratch memory of another form", self.line)
        if where != ("cast", "void **", ("op", "&", ("name", at, block.name), None, "char **")):
            raise UnreadError("scratch memory of another form", self.line)
        end = constant(0)
        for d, (name, p) in zip(rest, scratch.items(), strict=True):
            if not isinstance(d, Declared) or d.init is None:
                raise UnreadError("scratch memory of another form", self.line)
            if d.type != f"{_TYPES[p.dtype]} *":
                raise DifferenceError(f"{name} has another type", d.line)
            begin = self._offset(d.init, at, context)
            if not context.same(begin, end):
                raise unequal(context, begin, end, f"{name} lies where another array does", d.line)
            self.guards.names[d.key] = name
            end = end + self._room(p, context)
        total = size[2] if size[0] == "cast" and size[1] == "unsigned long" else size
        room = self.sizes.number(total, context)
        if not context.same(room, end):
            raise unequal(context, room, end, "scratch memory of another size", self.line)
        return error, at

    def _offset(self, e: Node, block: int, context: Context) -> Poly:
        if e[0] == "cast" and str(e[1]).endswith("*"):
            return self._offset(e[2], block, context)
        if e[0] == "name" and e[1] == block:
            return constant(0)
        if e[0] == "op" and e[1] == "+" and str(e[4]).endswith("*"):
            return self._offset(e[2], block, context) + self.sizes.number(e[3], context)
        raise UnreadError("scratch memory of another form", self.line)

    def _room(self, p: Param, context: Context) -> Poly:
        """Bytes of a scratch array, rounded up."""
        size = constant(p.dtype.size)
        for x in p.extents:
            size = size * kernel_index(self.state, x, {}, context)
        return context.quotient(size.plus(ALIGNED - 1), constant(ALIGNED)).scale(ALIGNED)

    def _preferred(self, steps: list[Step], launch: RenderedLaunch) -> None:
        if launch.carveout is None:
            return
        attribute = "cudaFuncAttributePreferredSharedMemoryCarveout"
        match steps.pop(0) if steps else None:
            case Asks(
                cond=(
                    "op",
                    "!=",
                    (
                        "cast",
                        "int",
                        ("call", "cudaFuncSetAttribute", (("name", _, kernel), what, ("num", n))),
                    ),
                    _,
                    _,
                ),
                then=(Does(node=("call", "cudaGetLastError", ())),),
            ) if kernel == launch.kernel and what[-1] == attribute and n == launch.carveout:
                return
            case _:
                raise DifferenceError(f"{launch.kernel} has another share of shared memory", self.line)

    def _launch(self, steps: list[Step], launch: RenderedLaunch, context: Context) -> None:
        if not steps:
            raise DifferenceError(f"{launch.kernel} is not launched", self.line)
        step = steps.pop(0)
        self.line = step.line
        asked: list[Node] = []
        if isinstance(step, Asks) and step.cond is not None and len(step.then) == 1:
            asked, step = conditions(step.cond), step.then[0]
        match step:
            case Does(node=("launch", kernel, grid, block, shared, stream, arguments)):
                pass
            case _:
                raise DifferenceError(f"{launch.kernel} is not launched", self.line)
        if kernel != launch.kernel:
            raise DifferenceError(f"{kernel} is launched, not {launch.kernel}", self.line)
        context = self._same_empty(asked, launch, context)
        found = self._same_dims(grid, launch.grid, context, "grid")
        found += self._same_dims(block, launch.block, context, "block")
        narrow = launch is self.rendered.original or all(
            self.sizes.is_at_most(p, _MOST_BLOCKS, context) for p in found
        )
        if not narrow:
            raise UnreadError("a grid that may be cut to 32 bits", self.line)
        if shared != ("cast", "unsigned long", ("num", launch.shared_bytes)):
            raise DifferenceError(f"{kernel} has another amount of shared memory", self.line)
        while stream[0] == "cast":
            stream = stream[2]
        if stream[:2] != ("name", self.stream):
            raise DifferenceError(f"{kernel} is launched in another stream", self.line)
        given = [self._argument(a) for a in arguments]
        if given != [p.name for p in launch.params]:
            raise DifferenceError(f"{kernel} has other arguments", self.line)

    def _same_empty(self, asked: list[Node], launch: RenderedLaunch, context: Context) -> Context:
        """A grid of nothing is not launched; that and no more is asked. What holds behind the question."""
        found = [f for f in (self.guards.formula(e, context) for e in asked) if f is not None]
        sizes = [self.index(x, context) for x in launch.grid]
        wanted = [below(constant(0), p) for p in sizes]
        given, needed = context.given(*found), context.given(*wanted)
        reason = f"{launch.kernel} is launched under another condition"
        if len(found) != len(asked):
            raise DifferenceError(reason, self.line)
        for here, f in (*((given, f) for f in wanted), *((needed, f) for f in found)):
            if not here.holds(f):
                raise happens(here, negation(f), reason, self.line)
        return given

    def _argument(self, e: Node) -> str:
        if e[0] == "cast" and e[1] in _WIDE and e[2][0] == "name" and self.types.get(e[2][1]) in _WIDE:
            return self.guards.names[e[2][1]]
        return self.guards.pointer(e)

    def index(self, e: Term, context: Context) -> Poly:
        """A size of the kernel's."""
        return kernel_index(self.state, e, {}, context)

    def _same_dims(self, e: Node, wanted: Sequence[Term], context: Context, what: str) -> list[Poly]:
        if e[0] != "dim3":
            raise UnreadError(f"a {what} of another form", self.line)
        found = [self._dimension(x, context) for x in e[1]] + [constant(1)] * (3 - len(e[1]))
        for p, t in zip(found, wanted, strict=True):
            q = self.index(t, context)
            if not context.same(p, q):
                raise unequal(context, p, q, f"another {what}: {p.text}", self.line)
        return found

    def _dimension(self, e: Node, context: Context) -> Poly:
        if e[0] != "cast" or e[1] != "unsigned int":
            raise UnreadError("a dimension of another form", self.line)
        return self.sizes.number(e[2], context)

    def _same_original(self, launch: RenderedLaunch) -> None:
        """The launch of the kernel as given is the module's."""
        o = self.module.original
        names = tuple(p.name for p in launch.params)
        if (launch.grid, launch.block, launch.shared_bytes) != (o.grid, o.block, o.shared_bytes):
            raise DifferenceError("the kernel as given has another launch", self.line)
        if names != tuple(self.module.params):
            raise DifferenceError("the kernel as given has other arguments", self.line)


def _state(kernel: Kernel, sizes: dict[str, Poly]) -> State:
    return State(
        kernel=kernel,
        buffers={},
        block={},
        grid={},
        sizes=sizes,
        written=frozenset(),
        constants=frozenset(),
    )
