"""What is remembered by object: asked once, and forgotten all at once."""

from evolve.ir import memo
from evolve.ir.effects import effects
from evolve.ir.expr import Const
from evolve.ir.stmt import Block, Store
from evolve.ir.types import DType
from evolve.ir.visit import walk

ONE = Const(1, DType.F32)


def test_each_object_is_asked_once_until_it_is_forgotten() -> None:
    asked: list[object] = []

    def f(x: object) -> int:
        asked.append(x)
        return len(asked)

    remembered = memo.by_object(f, most=2)
    a, b, c = object(), object(), object()
    assert [remembered(x) for x in (a, b, a)] == [1, 2, 1]
    assert remembered(c) == 3 and remembered(a) == 4, "no more are kept than asked"
    memo.forget()
    assert remembered(a) == 5


def test_effects_and_walks_are_among_what_is_forgotten() -> None:
    store = Store("y", (), ONE)
    block = Block((store,))
    found, (site,) = effects(store), walk(block)
    assert effects(store) is found and next(walk(block)) is site
    memo.forget()
    assert effects(store) is not found and next(walk(block)) is not site
    assert effects(store) == found
