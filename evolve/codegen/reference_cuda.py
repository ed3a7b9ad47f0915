"""The float64 reference for a GPU: the same statements, spread over threads as in the source.

What `reference` does in one function is a sequence of kernels here, because each needs all of what
the one before it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolve.codegen.ctree import Node, line, scope
from evolve.codegen.errors import CodegenError
from evolve.codegen.prelude import prelude
from evolve.codegen.reference import ReferenceEmitter
from evolve.codegen.reference_model import ReferenceArray
from evolve.codegen.reference_runtime import RUNTIME
from evolve.ir.affine import simplify
from evolve.ir.kernel import Kernel
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import For, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import variables

FUNCTION = "evolve_reference"

AMONG_THREADS = """
// A warp whose lanes all add to one place adds once: a sum of everything would queue up there otherwise.
__device__ inline void ev_atomic_add(double* place, double value) {
    const unsigned all = 0xffffffffu, active = __activemask();
    if (active != all || __match_any_sync(all, (unsigned long long)place) != all) {
        atomicAdd(place, value);
        return;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(all, value, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(place, value);
}
__device__ inline void ev_atomic_min(double* place, double value) {
    unsigned long long* const bits = (unsigned long long*)place;
    unsigned long long old = atomicCAS(bits, 0ull, 0ull), seen;
    for (; value < __longlong_as_double((long long)old); old = seen) {
        seen = atomicCAS(bits, old, (unsigned long long)__double_as_longlong(value));
        if (seen == old) return;
    }
}
__device__ inline void ev_atomic_max(double* place, double value) {
    unsigned long long* const bits = (unsigned long long*)place;
    unsigned long long old = atomicCAS(bits, 0ull, 0ull), seen;
    for (; value > __longlong_as_double((long long)old); old = seen) {
        seen = atomicCAS(bits, old, (unsigned long long)__double_as_longlong(value));
        if (seen == old) return;
    }
}
"""
"""What threads in blocks of one dimension gather in doubles; least and greatest are integers, never NaN."""


@dataclass(frozen=True)
class CudaReference:
    """Kernels to launch in order, each with all arrays, then all scalars, as `Reference` has them.

    Any one-dimensional grid and block give the same result: threads stride over the work.
    """

    text: str
    kernels: tuple[str, ...]
    arrays: tuple[ReferenceArray, ...]
    scalars: tuple[str, ...]


def render_reference_cuda(kernel: Kernel) -> CudaReference:
    """The reference of a lifted kernel as CUDA text, with nothing to include.

    Raises CodegenError unless the kernel consists of nests of PARALLEL loops.
    """
    emitter = ReferenceEmitter(kernel, threads=True)
    bodies: list[list[Node]] = []
    bodies += [[_stride(emitter.elements(b), body)] for b, body in emitter.starts()]
    bodies += [[_nest(emitter, s)] for s in kernel.body.stmts]
    bodies += [[_stride(emitter.elements(b), body)] for b, body in emitter.finishes()]
    names = tuple(f"{FUNCTION}_{i}" for i in range(len(bodies)))
    functions = "\n".join(emitter.function(n, body) for n, body in zip(names, bodies, strict=True))
    gathering = AMONG_THREADS if "ev_atomic_" in functions else ""
    text = prelude(functions) + RUNTIME + gathering + "\n" + functions
    return CudaReference(text, names, emitter.arrays(), emitter.scalars())


def _stride(count: str, body: list[Node]) -> Node:
    start = "(long long)blockIdx.x * blockDim.x + threadIdx.x"
    step = "(long long)gridDim.x * blockDim.x"
    return scope(f"for (long long ev_i = {start}; ev_i < {count}; ev_i += {step})", body)


def _nest(emitter: ReferenceEmitter, s: Stmt) -> Node:
    """The chain of PARALLEL loops from `s` down as one index that threads stride over."""
    chain: list[For] = []
    at: Stmt = s
    while isinstance(at, For) and at.kind is LoopKind.PARALLEL:
        inner = {x.var for x in chain}
        if variables(at.extent) & inner:
            break
        chain.append(at)
        if len(at.body.stmts) != 1:
            break
        at = at.body.stmts[0]
    if not chain:
        raise CodegenError("a statement outside the source's threads has no GPU reference")
    last = chain[-1]
    extents = []
    for i, x in enumerate(chain):
        extents.append(emitter.plain(simplify(x.extent, ranges_at(emitter.kernel, chain[:i])), ()))
    digits: list[Node] = [line("long long ev_rest = ev_i;")]
    for x, extent in reversed(list(zip(chain, extents, strict=True))):
        v = emitter.names.of(x.var)
        digits.append(line(f"const long long {v} = ev_rest % ({extent});"))
        digits.append(line(f"ev_rest /= ({extent});"))
    # Extents may be negative for tiny sizes, and two such must not multiply to work.
    count = " * ".join(f"(({e}) > 0 ? ({e}) : 0)" for e in extents)
    return _stride(count, [*digits, *emitter.block(last.body, tuple(chain))])
