"""Sizes that multiply a loop variable in a subscript, as `ld` in `a[r * ld + c]`.

The prover models affine subscripts only: such a kernel has no program until these sizes are numbers. Where
the array is written, what else moves the subscript must be known too, else rows may overlap.
"""

from __future__ import annotations

from dataclasses import replace

from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.ir.affine import linear
from evolve.ir.effects import Mode
from evolve.ir.expr import Binary, BinaryOp
from evolve.ir.visit import variables


def factors(shape: Shape) -> tuple[str, ...]:
    """Those sizes, sorted."""
    found: set[str] = set()
    for w in shape.walks:
        for subscript in w.indices:
            atoms = [atom for atom, _ in linear(subscript).terms]
            products = [a for a in atoms if isinstance(a, Binary) and a.op is BinaryOp.MUL]
            spaced = [a for a in products if variables(a) & shape.extents.keys()]
            sizes = {n for a in spaced for n in variables(a)}
            if sizes - shape.extents.keys() and w.mode is not Mode.READ:
                loops = variables(subscript) & shape.extents.keys()
                sizes |= {n for x in loops - sizes for n in variables(shape.extents[x])}
            found |= sizes - shape.extents.keys()
    return tuple(sorted(found))


def fixed(sketch: Sketch, names: tuple[str, ...], sizes: dict[str, int]) -> Sketch:
    """The sketch for launches whose sizes `names` are the timed ones; as it is where it asks for that."""
    first, _, rest = sketch.text.partition("\n")
    has, condition = first.startswith("specialize("), first.removeprefix("specialize(").removesuffix(")")
    terms = [condition] if has else []
    known = condition.split(" and ") if has else []
    terms += [t for n in names if n in sizes and (t := f"{n} == {sizes[n]}") not in known]
    if not terms:
        return sketch
    return replace(sketch, text=f"specialize({' and '.join(terms)})\n{rest if has else sketch.text}")
