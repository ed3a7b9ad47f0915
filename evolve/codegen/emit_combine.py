"""Combine loops: a call of a collective, its scratch, and who writes the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.codegen.collectives import combined
from evolve.codegen.ctext import literal
from evolve.codegen.ctree import Node, line
from evolve.codegen.errors import CodegenError
from evolve.codegen.place import Place, line_origin
from evolve.codegen.shared import SharedArray
from evolve.ir.expr import Load
from evolve.ir.stmt import For, Reduce, Store
from evolve.ir.types import LoopKind, Space

if TYPE_CHECKING:
    from evolve.codegen.emit import KernelEmitter


def scan(emitter: KernelEmitter, s: For, place: Place) -> list[Node]:
    """All threads learn the total before their partial, and that of all partials."""
    first, step = (*s.body.stmts, None, None)[:2]
    if not isinstance(first, Store) or not isinstance(step, Reduce):
        raise CodegenError(f"scan {s.var} is not a copy of the total followed by a reduction")
    if first.value != Load(step.buffer, step.indices, step.value.dtype):
        raise CodegenError(f"scan {s.var} keeps something else than the total")
    dtype, width, extent = step.value.dtype, emitter.block[LoopKind.THREAD_X], emitter.extent(s, place)
    if extent != width:
        raise CodegenError(f"scan {s.var} goes over {extent} partials in a block {width} wide along x")
    inner, origin = place.below(s), line_origin(step, place)
    total = emitter.names.fresh("total")
    value, after = emitter.value(step.value, inner), list[Node]()
    if s.kind is LoopKind.SCAN_WARP:
        call = f"{emitter.collectives.scan_warp(step.monoid, dtype, extent)}({value}, {total})"
    else:
        function, elements = emitter.collectives.scan_block(step.monoid, dtype, extent)
        scratch, after = _scratch(emitter, step, elements, place)
        call = f"{function}({value}, {scratch}, {total})"
    prefix = emitter.names.fresh("prefix")
    sum_, before = (
        emitter.access(step.buffer, step.indices, place),
        emitter.access(first.buffer, first.indices, inner),
    )
    return [
        line(f"{dtype.c_name} {total};", origin),
        line(f"const {dtype.c_name} {prefix} = {call};", origin),
        line(f"{before} = {combined(step.monoid, dtype, sum_, prefix)};", origin),
        line(emitter.accumulate(step, sum_, total), origin),
        *after,
    ]


def _scratch(emitter: KernelEmitter, step: Reduce, elements: int, place: Place) -> tuple[str, list[Node]]:
    """Shared memory for a collective of the block, a row for each value of the other axes, and what must
    follow its use."""
    rows = emitter.block[LoopKind.THREAD_Y] * emitter.block[LoopKind.THREAD_Z]
    scratch = emitter.names.fresh(f"{emitter.names.of(step.buffer)}_scratch")
    dims = (rows, elements) if rows > 1 else (elements,)
    emitter.shared[scratch] = SharedArray(scratch, step.value.dtype, dims, aligned=False)
    row = "ty" if emitter.block[LoopKind.THREAD_Z] == 1 else f"ty + {emitter.block[LoopKind.THREAD_Y]} * tz"
    after: list[Node] = []
    if any(x.kind.is_sequential or x.kind is LoopKind.PARALLEL for x in place.loops):
        after = [line(f"__syncthreads();  // {scratch} is written again")]
    return f"{scratch}[{row}]" if rows > 1 else scratch, after


def combine(emitter: KernelEmitter, s: For, place: Place) -> list[Node]:
    """All threads combine their partials; see `collectives`."""
    step = s.body.stmts[0] if len(s.body.stmts) == 1 else None
    if not isinstance(step, Reduce):
        raise CodegenError(f"combine loop {s.var} holds more than one reduction")
    dtype, width, extent = step.value.dtype, emitter.block[LoopKind.THREAD_X], emitter.extent(s, place)
    inner = place.below(s)
    value = emitter.value(step.value, inner)
    origin = line_origin(step, place)
    if extent < width and s.kind is LoopKind.COMBINE_BLOCK:
        value = f"tx < {extent} ? {value} : {literal(step.monoid.identity(dtype), dtype)}"
    after: list[Node] = []
    if s.kind is LoopKind.COMBINE_WARP:
        if extent != width:
            raise CodegenError(
                f"warp reduction {s.var} combines {extent} partials in a block {width} wide along x"
            )
        call = f"{emitter.collectives.warp(step.monoid, dtype, extent)}({value})"
    else:
        function, elements = emitter.collectives.block(step.monoid, dtype, width)
        scratch, after = _scratch(emitter, step, elements, place)
        call = f"{function}({value}, {scratch})"
    target = emitter.access(step.buffer, step.indices, place)
    if emitter.buffers[step.buffer].space is Space.REGISTER:
        text = emitter.accumulate(step, target, call)
        return [line(text, origin), *after]
    total = emitter.names.fresh("total")
    kept = [line(emitter.accumulate(step, target, total), origin)]
    return [
        line(f"const {dtype.c_name} {total} = {call};", origin),
        *emitter.owned(step, place, kept),
        *after,
    ]
