"""The device functions behind combine loops.

Each combines one value a thread and gives the result to every participating thread; a scan gives
each also what came before it. They are written once per monoid, type and width, so that a reader
checks them once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evolve.codegen.asynchronous import ASYNCHRONOUS
from evolve.codegen.bfloat16 import ROUND, WIDEN
from evolve.codegen.ctext import literal
from evolve.codegen.errors import CodegenError
from evolve.codegen.hinted import Hinted
from evolve.codegen.names import Names
from evolve.codegen.prefetched import PREFETCH
from evolve.codegen.segments import Update, find_text, find_together_text, runs_text, together_text
from evolve.codegen.threads import lane_of
from evolve.ir.types import DType, Monoid
from evolve.target.limits import WARP

ATOMICS = {"sum": "atomicAdd", "min": "atomicMin", "max": "atomicMax"}


def combined(monoid: Monoid, dtype: DType, a: str, b: str) -> str:
    """`monoid(a, b)` as C text; both must be cheap to repeat."""
    if monoid.name == "sum":
        return f"{a} + {b}"
    if monoid.name == "prod":
        return f"{a} * {b}"
    if monoid.name not in ("min", "max"):
        raise CodegenError(f"reduction {monoid.name} has no CUDA form")
    if dtype.is_float:
        suffix = "f" if dtype is DType.F32 else ""
        return f"f{monoid.name}{suffix}({a}, {b})"
    return f"{a} {'<' if monoid.name == 'min' else '>'} {b} ? {a} : {b}"


@dataclass
class Collectives:
    """Functions asked for so far, by name, in order of definition."""

    names: Names
    texts: list[str] = field(default_factory=list)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)

    def warp(self, monoid: Monoid, dtype: DType, lanes: int) -> str:
        """Name of `T f(T value)` over groups of `lanes` adjacent lanes (a power of two up to 32)."""
        if lanes & (lanes - 1) or not 1 <= lanes <= WARP:
            raise CodegenError(
                f"a warp reduction over {lanes} lanes is not a power of two up to {WARP}",
                hint="split the reduction so that its thread loop has 32 iterations, or use block_reduce",
            )
        key = ("warp", monoid, dtype, lanes)
        if key not in self._known:
            suffix = "" if lanes == WARP else f"_{lanes}"
            tag = "" if dtype is DType.F32 else f"_{dtype.value}"
            name = self.names.fresh(f"warp_{monoid.name}{suffix}{tag}")
            self._known[key] = name
            self.texts.append(_warp_text(name, monoid, dtype, lanes))
        return self._known[key]

    def block(self, monoid: Monoid, dtype: DType, threads: int) -> tuple[str, int]:
        """Name of `T f(T value, T* scratch)` over `threads` threads along x, and its scratch's elements.

        The function meets at one barrier after it wrote the scratch; a caller that runs it again with
        the same scratch puts a barrier between.
        """
        key = ("block", monoid, dtype, threads)
        whole_warps = threads % WARP == 0 and threads // WARP <= WARP
        if key not in self._known:
            tag = "" if dtype is DType.F32 else f"_{dtype.value}"
            if whole_warps:
                warp = self.warp(monoid, dtype, WARP)
                name = self.names.fresh(f"block_{monoid.name}_{threads}{tag}")
                self.texts.append(_block_text(name, warp, monoid, dtype, threads))
            else:
                name = self.names.fresh(f"block_{monoid.name}_{threads}{tag}")
                self.texts.append(_serial_text(name, monoid, dtype, threads))
            self._known[key] = name
        return self._known[key], threads // WARP if whole_warps else threads

    def aggregate(self, monoid: Monoid, dtype: DType, row: int, *, alike: bool) -> str:
        """Name of `void f(T* cells, int at, T value)`, one atomic update for lanes of one `at`.

        `row` threads along x, 0 for whole warps; with `alike` every lane has the same value.
        """
        key = ("aggregate", monoid, dtype, row, alike)
        if key not in self._known:
            tag = "" if dtype is DType.F32 else f"_{dtype.value}"
            self._known[key] = self.names.fresh(f"aggregate_{monoid.name}{'_alike' if alike else ''}{tag}")
            self.texts.append(_aggregate_text(self._known[key], monoid, dtype, row, alike))
        return self._known[key]

    def asynchronous(self) -> None:
        """The functions of asynchronous copies, which NVRTC does not bring along."""
        if ("asynchronous",) not in self._known:
            self._known[("asynchronous",)] = ""
            self.texts.append(ASYNCHRONOUS)

    def prefetch(self) -> str:
        """Name of `void f(const void* address)`."""
        if ("prefetch",) not in self._known:
            name = self._known[("prefetch",)] = self.names.fresh("prefetch_l2")
            self.texts.append(PREFETCH.replace("prefetch_l2", name))
        return self._known[("prefetch",)]

    def bfloat16(self, to: DType) -> str:
        """Name of `unsigned short f(float)`, or with F32 of `float f(unsigned short)`."""
        if ("bfloat16", to) not in self._known:
            base, text = ROUND if to is DType.BF16 else WIDEN
            name = self._known["bfloat16", to] = self.names.fresh(base)
            self.texts.append(text.replace(base, name))
        return self._known["bfloat16", to]

    def hinted(self, access: Hinted) -> str:
        """Name of `T f(const T* at)` or `void f(T* at, T value)`."""
        if ("hinted", access) not in self._known:
            name = self._known["hinted", access] = self.names.fresh(access.name)
            self.texts.append(access.text(name))
        return self._known["hinted", access]

    def find(self, starts: DType, *, together: bool = False) -> str:
        """Name of `int f(const T* starts, int segments, value)`, see `segments`."""
        key = ("find", starts, together)
        if key not in self._known:
            tag = "" if starts is DType.I32 else f"_{starts.value}"
            alone = self.find(starts) if together else ""
            name = self._known[key] = self.names.fresh(f"find{'_together' if together else ''}{tag}")
            text = find_together_text(name, alone, starts) if together else find_text(name, starts)
            self.texts.append(text)
        return self._known[key]

    def runs(self, monoid: Monoid, dtype: DType, starts: DType, number: int, *, together: bool) -> str:
        """Name of `void f(const T (&value)[number], const S* starts, int segments, long long first, T*)`.

        See `segments`. `together`: lanes whose last entries go to one segment update it once.
        """
        key = ("runs", monoid, dtype, starts, number, together)
        if key not in self._known:
            find = self.find(starts, together=True)
            inner = last = f"{ATOMICS[monoid.name]}(&target[r], total);"
            if together:
                last = f"{self._together(monoid, dtype)}(target, r, total);"
            self._known[key] = self.names.fresh(f"{monoid.name}_runs_{number}")
            update = Update(monoid, dtype, combined(monoid, dtype, "total", "value[i]"), inner, last)
            self.texts.append(runs_text(self._known[key], find, update, starts, number))
        return self._known[key]

    def _together(self, monoid: Monoid, dtype: DType) -> str:
        key = ("together", monoid, dtype)
        if key not in self._known:
            tag = "" if dtype is DType.F32 else f"_{dtype.value}"
            name = self._known[key] = self.names.fresh(f"{monoid.name}_together{tag}")
            step = combined(monoid, dtype, "total", "other")
            self.texts.append(together_text(name, monoid, dtype, ATOMICS[monoid.name], step))
        return self._known[key]

    def scan_warp(self, monoid: Monoid, dtype: DType, lanes: int) -> str:
        """Name of `T f(T value, T& total)` over groups of `lanes` adjacent lanes (2, 4 ... 32)."""
        if lanes & (lanes - 1) or not 1 <= lanes <= WARP:
            raise CodegenError(f"a warp scan over {lanes} lanes is not a power of two up to {WARP}")
        suffix = "" if lanes == WARP else f"_{lanes}"
        name = self._scan(monoid, dtype, lanes, f"warp_scan_{monoid.name}{suffix}")
        if name is not None:
            self.texts.append(_warp_scan_text(name, monoid, dtype, lanes))
        return self._known[("scan", monoid, dtype, lanes)]

    def scan_block(self, monoid: Monoid, dtype: DType, threads: int) -> tuple[str, int]:
        """Name of `T f(T value, T* scratch, T& total)` over whole warps along x, and its scratch's elements.

        Barriers are as in `block`.
        """
        if threads % WARP or not 0 < threads <= WARP * WARP:
            raise CodegenError(f"a block scan over {threads} threads, which are not 1 to {WARP} whole warps")
        warp = self.scan_warp(monoid, dtype, WARP)
        name = self._scan(monoid, dtype, f"{threads} threads", f"block_scan_{monoid.name}_{threads}")
        if name is not None:
            self.texts.append(_block_scan_text(name, warp, monoid, dtype, threads))
        return self._known[("scan", monoid, dtype, f"{threads} threads")], threads // WARP

    def _scan(self, monoid: Monoid, dtype: DType, width: int | str, base: str) -> str | None:
        """A name for a function that is not there yet, else None."""
        key = ("scan", monoid, dtype, width)
        if key in self._known:
            return None
        tag = "" if dtype is DType.F32 else f"_{dtype.value}"
        self._known[key] = self.names.fresh(f"{base}{tag}")
        return self._known[key]


def _warp_text(name: str, monoid: Monoid, dtype: DType, lanes: int) -> str:
    t = dtype.c_name
    step = combined(monoid, dtype, "value", "other")
    mask = "0xffffffffu"
    setup = ""
    if lanes < WARP:
        # Groups may run under different conditions, so each names its own lanes only.
        mask = "group"
        setup = f"""
    const unsigned int lane = {lane_of()};
    const unsigned int group = {hex((1 << lanes) - 1)}u << (lane / {lanes} * {lanes});"""
    what = "a warp" if lanes == WARP else f"each group of {lanes} lanes"
    return f"""\
// The {monoid.name} of `value` over {what}; every lane gets it.
__device__ __forceinline__ {t} {name}({t} value) {{{setup}
    #pragma unroll
    for (int mask = {lanes // 2}; mask > 0; mask /= 2) {{
        const {t} other = __shfl_xor_sync({mask}, value, mask);
        value = {step};
    }}
    return value;
}}
"""


def _aggregate_text(name: str, monoid: Monoid, dtype: DType, row: int, alike: bool) -> str:
    t = dtype.c_name
    lane = lane_of(row)
    step, same = combined(monoid, dtype, "total", "other"), ""
    total = f"""\
    {t} total = __shfl_sync(peers, value, first);
    for (unsigned int left = peers & (peers - 1); left != 0; left &= left - 1) {{
        const {t} other = __shfl_sync(peers, value, __ffs(left) - 1);
        total = {step};
    }}
"""
    if alike:
        same = " All have the same value."
        value = "value" if monoid.name != "sum" else f"({t})__popc(peers) * value"
        total = f"    const {t} total = {value};\n"
    return f"""\
// The {monoid.name} of cells[at] and `value`. Lanes of a warp that are here together and have one
// `at` put their values together; the first of them updates the cell.{same}
__device__ __forceinline__ void {name}({t}* cells, int at, {t} value) {{
    const unsigned int peers = __match_any_sync(__activemask(), at);
    const int first = __ffs(peers) - 1;
{total}    if ({lane} == first) {{
        {ATOMICS[monoid.name]}(&cells[at], total);
    }}
}}
"""


def _block_text(name: str, warp: str, monoid: Monoid, dtype: DType, threads: int) -> str:
    t = dtype.c_name
    warps = threads // WARP
    step = combined(monoid, dtype, "value", "other")
    power = 1 << (warps - 1).bit_length()
    identity = literal(monoid.identity(dtype), dtype)
    fetch = f"scratch[lane % {warps}]" if power == warps else f"lane < {warps} ? scratch[lane] : {identity}"
    if power == warps:
        first = warps // 2
        last = f"""\
    #pragma unroll
    for (int mask = {first}; mask > 0; mask /= 2) {{
        const {t} other = __shfl_xor_sync(0xffffffffu, value, mask);
        value = {step};
    }}
    return value;"""
    else:
        last = f"    return {warp}(value);"
    if warps == 1:
        last = "    return value;"
    return f"""\
// The {monoid.name} of `value` over {threads} threads along x; every thread gets it.
// `scratch` holds an element for each of the {warps} warps. All threads of the block must call it.
__device__ __forceinline__ {t} {name}({t} value, {t}* scratch) {{
    const int lane = {lane_of(0)};
    value = {warp}(value);
    if (lane == 0) {{
        scratch[threadIdx.x / {WARP}] = value;
    }}
    __syncthreads();
    value = {fetch};
{last}
}}
"""


def _serial_text(name: str, monoid: Monoid, dtype: DType, threads: int) -> str:
    t = dtype.c_name
    step = combined(monoid, dtype, "value", "other")
    return f"""\
// The {monoid.name} of `value` over {threads} threads along x; every thread gets it.
// `scratch` holds an element for each thread. All threads of the block must call it.
__device__ __forceinline__ {t} {name}({t} value, {t}* scratch) {{
    scratch[threadIdx.x] = value;
    __syncthreads();
    value = scratch[0];
    for (int i = 1; i < {threads}; ++i) {{
        const {t} other = scratch[i];
        value = {step};
    }}
    return value;
}}
"""


def _warp_scan_text(name: str, monoid: Monoid, dtype: DType, lanes: int) -> str:
    t = dtype.c_name
    mask = "0xffffffffu"
    place = f"""
    const int lane = {lane_of(0)};"""
    if lanes < WARP:
        # Groups may run under different conditions, so each names its own lanes only.
        mask = "group"
        place = f"""
    const unsigned int own = {lane_of()};
    const unsigned int group = {hex((1 << lanes) - 1)}u << (own / {lanes} * {lanes});
    const int lane = own % {lanes};"""
    width = "" if lanes == WARP else f", {lanes}"
    step = combined(monoid, dtype, "other", "value")
    what = "a warp" if lanes == WARP else f"each group of {lanes} lanes"
    return f"""\
// The {monoid.name} of `value` over the lanes before this one in {what}; `total` gets that of all.
__device__ __forceinline__ {t} {name}({t} value, {t}& total) {{{place}
    #pragma unroll
    for (int delta = 1; delta < {lanes}; delta *= 2) {{
        const {t} other = __shfl_up_sync({mask}, value, delta{width});
        if (lane >= delta) {{
            value = {step};
        }}
    }}
    total = __shfl_sync({mask}, value, {lanes - 1}{width});
    const {t} before = __shfl_up_sync({mask}, value, 1{width});
    return lane == 0 ? {literal(monoid.identity(dtype), dtype)} : before;
}}
"""


def _block_scan_text(name: str, warp: str, monoid: Monoid, dtype: DType, threads: int) -> str:
    t = dtype.c_name
    warps = threads // WARP
    identity = literal(monoid.identity(dtype), dtype)
    fetch = "scratch[lane]" if warps == WARP else f"lane < {warps} ? scratch[lane] : {identity}"
    return f"""\
// The {monoid.name} of `value` over earlier ones of {threads} threads along x; `total` is that of all.
// `scratch` holds an element for each of the {warps} warps. All threads of the block must call it.
__device__ __forceinline__ {t} {name}({t} value, {t}* scratch, {t}& total) {{
    const int lane = {lane_of(0)};
    {t} own;
    const {t} before = {warp}(value, own);
    if (lane == 0) {{
        scratch[threadIdx.x / {WARP}] = own;
    }}
    __syncthreads();
    own = {fetch};
    own = {warp}(own, total);
    own = __shfl_sync(0xffffffffu, own, threadIdx.x / {WARP});
    return {combined(monoid, dtype, "own", "before")};
}}
"""
