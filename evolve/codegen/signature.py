"""The head of an emitted kernel: parameters, bounds of the launch, sizes under their short names."""

from __future__ import annotations

from evolve.codegen.access import Accesses
from evolve.codegen.ctree import Node, line
from evolve.codegen.errors import CodegenError
from evolve.codegen.rendered import Param
from evolve.codegen.wrap import WIDTH
from evolve.ir.expr import var
from evolve.ir.kernel import Kernel
from evolve.ir.types import DType


def params(a: Accesses) -> tuple[Param, ...]:
    """The kernel's parameters in their order; arrays that it does not write are const."""
    out = []
    globals_ = {b.name: b for b in a.kernel.buffers}
    for name in a.kernel.params:
        if name in globals_:
            aligned = a.aligned.get(name, 0)
            out.append(Param(name, globals_[name].dtype, True, name not in a.written, aligned=aligned))
        else:
            out.append(Param(name, a.kernel.scalar(name).dtype, False))
    return tuple(out)


def opening(a: Accesses, name: str, threads: int) -> tuple[tuple[str, ...], str]:
    """The function's head, for blocks of so many threads: the lines before its last, and the last."""
    start = f'extern "C" __global__ void {_bounds(a.kernel, threads)} {name}('
    parameters = _parameters(a)
    whole = f"{start}{', '.join(parameters)})"
    if len(whole) + len(" {") <= WIDTH:
        return (), whole
    *most, last = (f"    {p}," for p in parameters)
    return (start, *most, last[:-1]), ")"


def size_lines(a: Accesses, used: frozenset[str]) -> list[Node]:
    """Copies of sizes of other widths as `int` where the names are used; each is counted for the launch."""
    out = []
    for p in params(a):
        name = a.names.of(p.name)
        if not p.is_pointer and _scalar(a, p) != name:
            if name in used:
                copy = f"const int {name} = (int){_scalar(a, p)};"
                out.append(line(f"{copy}  // fits: see the launch condition"))
            a.magnitudes.require(var(p.name), {})
    return out


def _parameters(a: Accesses) -> list[str]:
    parts = []
    for p in params(a):
        if p.is_pointer:
            const = "const " if p.is_const else ""
            parts.append(f"{const}{p.dtype.c_name}* __restrict__ {a.names.of(p.name)}")
        else:
            parts.append(f"{p.dtype.c_name} {_scalar(a, p)}")
    return parts


def _scalar(a: Accesses, p: Param) -> str:
    """The parameter's own name; a size of another width gets an `int` copy under the short name."""
    s = a.kernel.scalar(p.name)
    return a.names.of(f"{p.name}_arg" if s.is_size and s.dtype is not DType.I32 else p.name)


def _bounds(kernel: Kernel, threads: int) -> str:
    """Raises CodegenError for a block larger than was declared."""
    if kernel.max_threads and kernel.max_threads < threads:
        raise CodegenError(
            f"launch_bounds({kernel.max_threads}) is less than the {threads} threads of a block"
        )
    if kernel.registers:
        # The compiler takes only one of the two.
        return f"__maxnreg__({kernel.registers})"
    more = f", {kernel.min_blocks}" if kernel.min_blocks else ""
    return f"__launch_bounds__({threads}{more})"
