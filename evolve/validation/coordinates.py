"""Lanes of a warp in rows and columns: any way to number them will do that gives each its own place."""

from __future__ import annotations

from evolve.ir.types import LoopKind
from evolve.validation.integers import INTEGERS
from evolve.validation.polynomial import Poly, constant, variable
from evolve.validation.state import Place, State
from evolve.validation.text import Builtin, Convert, Declare, Expr, Number, Operation
from evolve.validation.verdict import DifferenceError, UnreadError

WARP = 32
COORDINATES = {"tx": LoopKind.THREAD_X, "ty": LoopKind.THREAD_Y, "tz": LoopKind.THREAD_Z}


def coordinate(st: State, s: Declare, place: Place) -> Poly:
    """The coordinate that the text computes under this name. Raises DifferenceError where it is none."""
    axis = COORDINATES[s.name]
    assert s.init is not None
    extent = st.block[axis]
    own = variable(axis.value) if extent > 1 else constant(0)
    if axis is LoopKind.THREAD_Z:
        if _plain(s.init) != Builtin("threadIdx", 1):
            raise DifferenceError(f"{s.name} is not the number of the warp", place.line)
        return own
    values = tuple(_at(s.init, lane, place) for lane in range(WARP))
    counts = {v: values.count(v) for v in values}
    if counts != dict.fromkeys(range(extent), WARP // extent):
        raise DifferenceError(f"{s.name} does not number the lanes from 0 to {extent - 1}", place.line)
    for known in st.coordinates.values():
        if len(set(zip(known, values, strict=True))) < WARP:
            raise DifferenceError(f"two lanes have the same place by {s.name}", place.line)
    st.coordinates[axis] = values
    return own


def _plain(e: Expr) -> Expr:
    return _plain(e.arg) if isinstance(e, Convert) else e


def _at(e: Expr, lane: int, place: Place) -> int:
    match e:
        case Number(value=int() as value):
            return value
        case Builtin(what="threadIdx", axis=0):
            return lane
        case Convert():
            return _at(e.arg, lane, place)
        case Operation() if e.op in INTEGERS and len(e.args) == 2:
            a, b = (_at(x, lane, place) for x in e.args)
            return int(INTEGERS[e.op](a, b))
        case _:
            raise UnreadError("a coordinate of another form", place.line)
