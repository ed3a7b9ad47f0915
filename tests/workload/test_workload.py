"""Inference, the file form, validation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from evolve.frontend.lift import lift
from evolve.ir.errors import EvolveError
from evolve.ir.expr import BinaryOp, compare, mul, var
from evolve.workload import toml
from evolve.workload.infer import infer
from evolve.workload.model import Workload
from evolve.workload.resolve import resolve
from evolve.workload.toml import from_toml, to_toml
from evolve.workload.validate import validate
from evolve.workload.wording import EXPECTED
from tests import kernels_ir
from tests.workload.helpers import handmade

FITS = (compare(BinaryOp.LE, mul(var("rows"), var("cols")), 2**31),)
SOFTMAX = handmade(kernels_ir.softmax(), "rows", FITS)
SAXPY = handmade(kernels_ir.saxpy_in_place(), "n")


@pytest.mark.parametrize(
    ("kernel", "size", "timed"),
    [
        (kernels_ir.softmax(), "rows", {"rows": 8192, "cols": 8192}),
        (kernels_ir.transpose(), "rows", {"rows": 8192, "cols": 8192}),
        (kernels_ir.stencil(), "rows", {"rows": 8192, "cols": 8192}),
        (kernels_ir.vecadd(), "n", {"n": 2**27}),
        (kernels_ir.matmul(), "M", {"M": 4096, "N": 4096, "K": 4096}),
        (kernels_ir.saxpy_in_place(), "n", {"n": 2**27, "alpha": 1.25}),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_timed_sizes(kernel: object, size: str, timed: dict[str, int]) -> None:
    workload = infer(handmade(kernel, size))  # type: ignore[arg-type]
    assert workload.timed == (timed,)
    assert len(workload.check) >= 3
    for sizes in workload.check:
        assert workload.bytes_at(sizes) < 4_000_000


def test_sizes_of_many_dimensions_are_whole_warps() -> None:
    text = """__global__ void nhwc(const float *x, float *y, int B, int C, int H, int W) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= B * C * H * W) return;
        int w = i % W, h = (i / W) % H, c = (i / (W * H)) % C, b = i / (W * H * C);
        y[((b * H + h) * W + w) * C + c] = x[i];
    }"""
    (sizes,) = infer(lift("nhwc.cu", None, text)).timed
    assert sizes == {"B": 96, "C": 96, "H": 96, "W": 96}


LARGE = {
    "a size that counts twice": (
        """__global__ void squares(const float *x, float *y, int count, int n) {
            int c = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
            if (c >= n || b >= count) return;
            for (int r = 0; r < n; ++r) {
                size_t at = ((size_t)b * n + r) * n + c;
                y[at] = 2.f * x[at];
            }
        }""",
        {"count": 512, "n": 512},
    ),
    "constant dimensions": (
        """__global__ void blocks(const float *x, float *y, int count) {
            int b = blockIdx.x * blockDim.x + threadIdx.x;
            if (b >= count) return;
            for (int r = 0; r < 16; ++r)
                for (int c = 0; c < 16; ++c) y[b * 256 + r * 16 + c] = x[b * 256 + c * 16 + r];
        }""",
        {"count": 2**21},
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_array_has_more_elements_than_memory_holds(name: str) -> None:
    text, sizes = LARGE[name]
    assert infer(lift("large.cu", None, text)).timed == (sizes,)


PITCHED = """__global__ void unpack(
    float *dst, int ldd, const float *src, int lds, int off, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < cols) dst[r * ldd + c] = src[r * lds + off + c];
}"""
STRIDED = """__global__ void gemv(
    const float *A, long plane, int ld, float *y, int planes, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y;
    if (r >= rows || p >= planes) return;
    float s = 0.f;
    for (int c = 0; c < cols; ++c) s += A[p * plane + (long)c * ld + r];
    y[p * rows + r] = s;
}"""


def test_rows_that_a_pitch_spaces_out_do_not_overlap() -> None:
    workload = infer(lift("unpack.cu", None, PITCHED))
    assert workload.timed == ({"rows": 8192, "cols": 8192, "ldd": 8192, "lds": 8192, "off": 16},)
    assert all(at["ldd"] >= at["cols"] and at["lds"] >= at["cols"] for at in workload.check)
    assert any(at["ldd"] > at["cols"] for at in workload.check)


def test_a_pitch_spans_what_the_pitches_of_inner_loops_space_out() -> None:
    workload = infer(lift("gemv.cu", None, STRIDED))
    for at in (*workload.timed, *workload.check):
        assert at["ld"] >= at["rows"]
        assert at["plane"] >= (at["cols"] - 1) * at["ld"] + at["rows"]


def test_a_kernel_without_sizes_is_checked_at_the_ones_it_has() -> None:
    text = """__global__ void row_sums(const float *x, float *y) {
        int r = blockIdx.x * blockDim.x + threadIdx.x;
        if (r >= 1024) return;
        float s = 0.f;
        for (int c = 0; c < 1024; ++c) s += x[r * 1024 + c];
        y[r] = s;
    }"""
    workload = infer(lift("k.cu", None, text))
    assert workload.timed == workload.check == ({},)


def test_sizes_shrink_until_index_arithmetic_fits() -> None:
    small = (compare(BinaryOp.LE, mul(var("rows"), var("cols")), 2**20),)
    (sizes,) = infer(handmade(kernels_ir.softmax(), "rows", small)).timed
    assert sizes == {"rows": 1024, "cols": 1024}


def test_roles_and_shapes() -> None:
    workload = infer(SOFTMAX)
    assert [(a.name, a.role) for a in workload.arrays] == [("x", "in"), ("y", "out")]
    assert workload.array("y").shape({"rows": 3, "cols": 5}) == (3, 5)
    assert infer(SAXPY).array("y").role == "inout"
    with pytest.raises(EvolveError) as caught:
        workload.array("z")
    assert caught.value.code == "unknown-array"


def test_sizes_that_are_given_are_not_called_assumed() -> None:
    inferred = resolve(SAXPY)
    assert [a for a in inferred.assumed if "no workload was given" in a]
    for given in (
        resolve(SAXPY, comment="[[timed]]\nn = 1000\n", source="k.cu"),
        resolve(SAXPY, override="[[timed]]\nn = 1000\n", override_file="w.toml"),
    ):
        assert given.assumed == inferred.assumed[1:]
    assert resolve(SAXPY, comment='numerics = "exact"\n', source="k.cu").assumed == inferred.assumed


@pytest.mark.parametrize("text", ["", " \n\n", "# sizes to come\n  # n = 3\n"])
def test_a_file_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(EvolveError) as caught:
        resolve(SAXPY, override=text, override_file="w.toml")
    assert (caught.value.code, caught.value.file) == ("bad-workload", "w.toml")
    assert "--workload" in (caught.value.hint or "")


MASKED = lift(Path(__file__).parents[2] / "kernels" / "masked_softmax.cu")
"""With an array of bytes."""


@pytest.mark.parametrize("lifted", [SOFTMAX, SAXPY, MASKED], ids=["softmax", "saxpy", "masked_softmax"])
def test_file_round_trip(lifted: object) -> None:
    workload = infer(lifted)  # type: ignore[arg-type]
    text = to_toml(workload)
    assert from_toml(text, workload) == workload
    assert "no workload was given" in text


def test_a_file_overrides_only_what_it_says() -> None:
    base = infer(SOFTMAX)
    changed = from_toml('numerics = "fast"\n[[timed]]\nrows = 64\ncols = 128\n', base)
    assert changed.numerics == "fast"
    assert changed.timed == ({"rows": 64, "cols": 128},)
    assert changed.check == base.check
    assert changed.arrays == base.arrays
    several = from_toml("[[timed]]\nrows = 1\ncols = 2\n[[timed]]\nrows = 3\ncols = 4\n", base)
    assert len(several.timed) == 2


def test_data_scalars_need_not_be_repeated() -> None:
    base = infer(SAXPY)
    assert from_toml("[[timed]]\nn = 64\n", base).timed == ({"alpha": 1.25, "n": 64},)
    assert from_toml("[[timed]]\nn = 64\nalpha = 2\n", base).timed == ({"alpha": 2.0, "n": 64},)


def test_comment_then_file_then_contract() -> None:
    comment = "[[timed]]\nrows = 8\ncols = 16\n"
    assert resolve(SOFTMAX, comment=comment, source="k.cu").timed == ({"rows": 8, "cols": 16},)
    other = "numerics = 'exact'\n[[timed]]\nrows = 2\ncols = 4\n"
    chosen = resolve(SOFTMAX, comment=comment, source="k.cu", override=other, override_file="w.toml")
    assert (chosen.timed, chosen.numerics) == (({"rows": 2, "cols": 4},), "exact")
    assert resolve(SOFTMAX, override=other, numerics="fast").numerics == "fast"
    with pytest.raises(EvolveError) as caught:
        resolve(SOFTMAX, override="[[timed]]\nrows = 2\n", override_file="w.toml")
    assert (caught.value.code, caught.value.file) == ("missing-scalar", "w.toml")


@pytest.mark.parametrize(
    ("text", "says", "write"),
    [
        ("numerics = ", "not TOML: invalid value", "TOML has lines like"),
        ("n = 1\n[[timed]\nrows = 3", "not TOML: expected ']]'", "TOML has lines like"),
        ("colour = 1", "key colour is not known", "known keys: entry, numerics"),
        ("rows = 1024", "key rows is not known", "timed"),
        ('numerics = "sloppy"', 'key numerics cannot be "sloppy"', '"reassociate"'),
        ('families = ["strange"]', "no input family strange; there is: normal", ""),
        ("timed = []", "key timed cannot be an empty list", "[[timed]]"),
        ("[timed]\nrows = 1", "key timed cannot be a table", "[[timed]]"),
        ('[[timed]]\nrows = "many"\ncols = 1', 'key timed[1].rows cannot be "many"', "without quotes"),
        ("[[timed]]\nrows = inf\ncols = 1", "key timed[1].rows cannot be inf", "a finite number"),
        ("[[timed]]\nrows = 1\ncols = 1\n[[timed]]\nrows = true", "timed[2].rows cannot be true", ""),
        ('[arrays.x]\nextents = ["rows", "import os"]', "arrays.x.extents[2]: `import os`", "a size has"),
        ('[arrays.x]\nextents = ["rows", "f(cols)"]', "arrays.x.extents[2]: `f(cols)`", "a size has"),
        ("[arrays.x]\nextents = [1.5]", "key arrays.x.extents[1] cannot be 1.5", "in quotes"),
        ("[arrays.x]\nsize = 4", "key arrays.x.size is not known", "arrays.x can have: role, dtype, extents"),
        ('[arrays.x]\nrole = "input"', 'key arrays.x.role cannot be "input"', '"inout"'),
        ('[launch]\ngrid = []\nblock = ["1"]', "key launch.grid cannot be an empty list", "1 to 3 sizes"),
        ("[launch]\ngrid = [1]", "key launch.block is missing", "1 to 3 sizes"),
        ("[tolerance]\nrelative = -1", "key tolerance.relative cannot be -1", "at least 0"),
        ("x = " + "[" * 3000, "", ""),
    ],
)
def test_bad_files(text: str, says: str, write: str) -> None:
    with pytest.raises(EvolveError) as caught:
        from_toml(text, infer(SOFTMAX), "w.toml")
    error = caught.value
    assert error.code == "bad-workload"
    assert says in error.message
    assert write in (error.hint or "")
    assert error.file == "w.toml"


def test_an_unknown_array_is_named() -> None:
    with pytest.raises(EvolveError) as caught:
        from_toml('[arrays.z]\nrole = "in"', infer(SOFTMAX), "w.toml")
    assert caught.value.code == "unknown-array" and "has no array z; it has: x, y" in caught.value.message


def test_where_the_text_is_no_toml() -> None:
    text = "entry = 'softmax'\nnumerics = exact\n"
    with pytest.raises(EvolveError) as caught:
        from_toml(text, infer(SOFTMAX), "w.toml")
    assert caught.value.line == 2
    with pytest.raises(EvolveError) as caught:
        from_toml(text, infer(SOFTMAX), "k.cu", comment=True)
    assert caught.value.line is None and "line 2 of the workload comment" in caught.value.message


def test_every_key_of_the_file_says_what_to_write() -> None:
    def keys(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, info in model.model_fields.items():
            yield (*above, name)
            inner = [x for x in re.findall(r"_\w+", str(info.annotation)) if hasattr(toml, x)]
            for one in inner:
                star = ("*",) if "dict" in str(info.annotation) else ()
                yield from keys(getattr(toml, one), (*above, name, *star))

    found = set(keys(toml._File, ()))
    assert ("arrays", "*", "role") in found and ("launch", "shared_bytes") in found
    assert found <= set(EXPECTED)


def _changed(text: str) -> Workload:
    return from_toml(text, infer(SOFTMAX))


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ('entry = "other"', "workload-mismatch", "other"),
        ("[[timed]]\nrows = 8", "missing-scalar", "cols"),
        ("[[timed]]\nrows = 8\ncols = 8\ndepth = 8", "unknown-scalar", "depth"),
        ("[[timed]]\nrows = -8\ncols = 8", "bad-scalar", "rows = -8"),
        ("[[timed]]\nrows = 0\ncols = 8", "bad-scalar", "rows = 0"),
        ("[[timed]]\nrows = 2.5\ncols = 8", "bad-scalar", "2.5"),
        ("[[timed]]\nrows = 3000000000\ncols = 1", "bad-scalar", "3000000000"),
        ("[[timed]]\nrows = 100000\ncols = 100000", "wraps-around", "rows * cols"),
        ("[[check]]\nrows = 0\ncols = 8", "bad-scalar", "check sizes 1"),
        ('[arrays.x]\nextents = ["cols", "rows"]\n[[timed]]\nrows = 2\ncols = 3', "workload-mismatch", "x"),
        ('[arrays.x]\nextents = ["rows * cols"]', "workload-mismatch", "x"),
        ('[arrays.x]\nextents = ["rows", "depth"]', "unknown-scalar", "depth"),
        ('[arrays.x]\ndtype = "f64"', "workload-mismatch", "f64"),
        ('[launch]\ngrid = ["rows"]\nblock = ["2048"]', "workload-mismatch", "2048"),
        ('[launch]\ngrid = ["1", "rows * 10"]\nblock = ["32"]', "workload-mismatch", "grid"),
        ('[launch]\ngrid = ["zzz"]\nblock = ["32"]', "unknown-scalar", "zzz"),
    ],
)
def test_workloads_that_do_not_fit(text: str, code: str, says: str) -> None:
    with pytest.raises(EvolveError) as caught:
        validate(_changed(text), SOFTMAX.kernel, FITS, "w.toml")
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.file == "w.toml"


def test_inferred_workloads_fit() -> None:
    for lifted in (SOFTMAX, SAXPY):
        validate(infer(lifted), lifted.kernel, lifted.no_wrap)


def test_arrays_that_a_bound_off_by_one_makes_longer_are_said() -> None:
    source = """__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = x[i + 1];
}
"""
    said = [s for s in infer(lift("k.cu", text=source)).assumed if "elements" in s]
    assert said == [
        "x has n + 2 elements, as far as the kernel reaches",
        "y has n + 1 elements, as far as the kernel reaches",
    ]
    exact = infer(lift("k.cu", text=source.replace("<=", "<").replace("i + 1", "i")))
    assert not [s for s in exact.assumed if "elements" in s]


def test_more_timed_sizes_than_anybody_waits_for_are_refused() -> None:
    with pytest.raises(EvolveError, match="timed") as e:
        from_toml("[[timed]]\nrows = 4\ncols = 4\n" * 17, infer(SOFTMAX), "w.toml")
    assert e.value.code == "bad-workload"


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(EvolveError) as caught:
        resolve(SAXPY, override="[[timed]]\nn = " + "9" * 6000 + "\n", override_file="w.toml")
    assert (caught.value.code, caught.value.file) == ("bad-workload", "w.toml")
