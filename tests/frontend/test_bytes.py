"""Arrays of bytes and truth values, such as masks: read and copied; nothing else becomes a byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_kernel
from evolve.ir.types import DType
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

READ = {
    "a mask": "y[i] = m[i] ? x[i] : -1.f;",
    "a mask that is tested": "float v = 0.f; if (m[i] == 0) v = x[i]; y[i] = v;",
    "a mask that is turned": "y[i] = !m[i] * x[i];",
    "promoted to int": "y[i] = x[i] * (m[i] - 300) + m[i] / 2;",
    "kept in a variable": "T v = m[i]; y[i] = v + x[i] * (v > 0);",
    "summed": "int s = 0; for (int j = 0; j < 7; ++j) s += m[i + j]; y[i] = s;",
    "copied": "o[i] = m[i]; y[i] = m[i];",
}
REFUSED = {
    "a number made a byte": ("o[i] = x[i] > 0.f;", "conversion to unsigned char"),
    "a sum of bytes made one": ("o[i] = m[i] + 1;", "conversion to unsigned char"),
    "a byte that is a subscript": ("y[m[i]] = x[i];", "a byte read from memory"),
    "a byte in a subscript": ("y[i + m[i]] = x[i];", "a byte read from memory"),
    "a byte that counts": ("for (unsigned char j = 0; j < 3; ++j) y[i] += x[i];", ""),
}


def text(body: str, element: str) -> str:
    body = body.replace("T v", f"{element} v")
    return f"""__global__ void k(const float *x, const {element} *m, {element} *o, float *y, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        {body}
    }}"""


@pytest.mark.parametrize("element", ["unsigned char", "bool"])
@pytest.mark.parametrize("style", READ)
def test_lifted_means_what_the_text_computes(style: str, element: str, lift_text: Lift, cache: Path) -> None:
    assert assert_same(lift_text(text(READ[style], element)), cache_dir=cache) >= 3


def test_bytes_are_bytes_in_memory(lift_text: Lift) -> None:
    kernel = lift_text(text(READ["a mask"], "unsigned char")).kernel
    assert kernel.buffer("m").dtype is DType.U8 and DType.U8.size == 1
    assert "y[i] = select(m[i] != 0:u8, x[i], -1.0:f32)" in print_kernel(kernel)


@pytest.mark.parametrize("style", REFUSED)
def test_nothing_else_becomes_a_byte(style: str, lift_text: Lift) -> None:
    body, what = REFUSED[style]
    with pytest.raises(CannotLiftError) as e:
        lift_text(text(body, "unsigned char"))
    assert what in str(e.value)


def test_a_byte_is_no_size(lift_text: Lift) -> None:
    with pytest.raises(CannotLiftError, match="parameter b"):
        lift_text("""__global__ void k(float *y, unsigned char b, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = b;
        }""")
