from evolve.features.extract import extract
from evolve.ir.expr import BinaryOp, Const, add, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Reduce, Store
from evolve.ir.types import SUM, DType, LoopKind, Space
from tests import kernels_ir as lifted


def test_a_matrix_product_has_all_its_multiply_adds() -> None:
    assert extract(lifted.matmul(), {"M": 64, "N": 128, "K": 32}).products == 64 * 128 * 32


def test_what_is_no_product_has_none() -> None:
    assert extract(lifted.softmax(), {"rows": 64, "cols": 64}).products == 0
    assert extract(lifted.stencil(), {"rows": 64, "cols": 64}).products == 0


def test_a_convolution_reuses_its_input_otherwise() -> None:
    """Its windows overlap: fewer elements than iterations, so the bound of a product does not hold."""
    n, f, i, c, k = var("n"), var("f"), var("i"), var("c"), var("k")
    value = lifted.op(BinaryOp.MUL, lifted.ld("x", add(i, k)), lifted.ld("w", c, k))
    accumulator = lifted.buf("s", space=Space.REGISTER)
    body = (
        Alloc(accumulator),
        Store("s", (), Const(0.0, DType.F32)),
        lifted.loop("k", f, Reduce("s", (), SUM, value)),
        Store("y", (c, i), lifted.ld("s")),
    )
    convolution = Kernel(
        "convolution",
        ("x", "w", "y", "n", "f"),
        (lifted.buf("x", add(n, f)), lifted.buf("w", n, f), lifted.buf("y", n, n)),
        (Scalar("n", DType.I32, True), Scalar("f", DType.I32, True)),
        Block(
            (lifted.loop("c", n, lifted.loop("i", n, *body, kind=LoopKind.PARALLEL), kind=LoopKind.PARALLEL),)
        ),
    )
    found = extract(convolution, {"n": 64, "f": 8})
    assert found.structure == "contraction" and found.products == 0
