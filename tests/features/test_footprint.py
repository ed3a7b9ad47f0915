"""Footprints against enumeration."""

import itertools
import random

from evolve.features.domain import Domain
from evolve.features.footprint import box_of, union_size
from evolve.ir.expr import Expr, add, index, mul, var


def _affine(rng: random.Random, names: list[str]) -> tuple[Expr, dict[str, int], int]:
    coefficients = {n: rng.choice([0, 1, 1, 2, 3, 4, 8, -1, -2]) for n in names}
    constant = rng.randrange(-3, 9)
    e: Expr = index(constant)
    for n, c in coefficients.items():
        e = add(e, mul(var(n), c))
    return e, coefficients, constant


def test_exact_boxes_hold_exactly_what_is_touched() -> None:
    rng = random.Random(7)
    exact_seen = 0
    for _ in range(400):
        ranges = {}
        for n in ("a", "b", "c"):
            low = rng.randrange(0, 3)
            ranges[n] = (low, low + rng.randrange(0, 5))
        domain = Domain(ranges, 1.0, True)
        split = rng.randrange(0, 4)
        groups = [["a", "b", "c"][:split], ["a", "b", "c"][split:]]
        forms = [_affine(rng, g) for g in groups]
        box = box_of([f[0] for f in forms], domain, {})
        touched = set()
        for point in itertools.product(*(range(lo, hi + 1) for lo, hi in ranges.values())):
            at = dict(zip(ranges, point, strict=True))
            touched.add(tuple(k + sum(c * at[n] for n, c in cs.items()) for _, cs, k in forms))
        if box.exact:
            exact_seen += 1
            inside = itertools.product(*(range(d.first, d.last + 1, d.step) for d in box.dims))
            assert set(inside) == touched
        else:
            assert box.size <= len(touched)
    assert exact_seen > 100


def test_unions_of_boxes_count_each_element_once() -> None:
    rng = random.Random(3)
    for _ in range(200):
        boxes = []
        touched = set()
        for _ in range(rng.randrange(1, 6)):
            ranges = {"a": (0, rng.randrange(0, 5)), "b": (0, rng.randrange(0, 5))}
            i, j = add(var("a"), rng.randrange(0, 4)), add(var("b"), rng.randrange(0, 4))
            box = box_of([i, j], Domain(ranges, 1.0, True), {})
            boxes.append(box)
            touched |= set(itertools.product(*(range(d.first, d.last + 1) for d in box.dims)))
        assert union_size(boxes) == (len(touched), True)


def test_unions_of_strided_boxes_count_each_element_once() -> None:
    rng = random.Random(5)
    for _ in range(200):
        step = rng.choice([2, 3])
        boxes = []
        touched = set()
        for _ in range(rng.randrange(1, 6)):
            last, first = rng.randrange(0, 5), rng.randrange(0, 7)
            i, j = add(mul(var("a"), step), first), add(var("b"), rng.randrange(0, 4))
            box = box_of([i, j], Domain({"a": (0, last), "b": (0, 2)}, 1.0, True), {})
            boxes.append(box)
            touched |= set(itertools.product(*(range(d.first, d.last + 1, d.step) for d in box.dims)))
        assert union_size(boxes) == (len(touched), True)


def test_rows_apart_from_one_another_are_all_counted() -> None:
    subscript = add(mul(var("r"), 100), var("c"))
    box = box_of([subscript], Domain({"r": (0, 9), "c": (0, 63)}, 640.0, True), {})
    assert (box.size, box.exact) == (640, False)
