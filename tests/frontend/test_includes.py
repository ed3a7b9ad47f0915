"""Headers beside the kernel file become part of its text; nothing else is read from disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.includes import Origins, self_contained
from evolve.frontend.lift import Lifted, lift, list_kernels
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.errors import EvolveError
from evolve.ir.expr import index
from evolve.ir.printer import print_kernel
from evolve.ir.visit import leaves
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

KERNEL = """#include <cuda_runtime.h>
#include "common.cuh"

__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) y[i] = leaky(x[i]) * SCALE;
}
"""
COMMON = """#pragma once
#include "detail/leaky.cuh"
#include "detail/leaky.cuh"
#define SCALE 2.0f
constexpr int THREADS = 128;
inline void check(int code) { if (code) printf("%d", code); }
"""
LEAKY = """#ifndef LEAKY_H
#define LEAKY_H
#include "../common.cuh"
#include "slope.cuh"
__device__ __forceinline__ float leaky(float v) { return v > 0.f ? v : SLOPE * v; }
#endif
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a kernel and its headers, in another folder with a secret."""
    (tmp_path / "secret.cuh").write_text("#define SECRET 7.0f\n")
    inner = tmp_path / "inner"
    (inner / "detail").mkdir(parents=True)
    (inner / "kernel.cu").write_text(KERNEL)
    (inner / "common.cuh").write_text(COMMON)
    (inner / "detail" / "leaky.cuh").write_text(LEAKY)
    (inner / "detail" / "slope.cuh").write_text("#define SLOPE 0.125f\n")
    return inner


def test_helpers_macros_and_constants_of_headers(folder: Path, cache: Path) -> None:
    from evolve.toolchain.nvrtc import compile_cuda

    lifted = lift(folder / "kernel.cu")
    assert "0.125" in print_kernel(lifted.kernel)
    assert lifted.original.block[0] == index(128)
    assert "#line" not in lifted.original.text
    assert "check" not in lifted.original.text
    assert compile_cuda(lifted.original.text).ok
    assert assert_same(lifted, cache_dir=cache) >= 3


def test_a_recorded_text_needs_no_headers_and_does_not_see_new_ones(folder: Path) -> None:
    path = folder / "kernel.cu"
    text = self_contained(path, KERNEL)
    before = lift(path)
    (folder / "common.cuh").write_text("#define SCALE 9.0f\n")
    (folder / "detail" / "leaky.cuh").unlink()
    assert lift(path, text=text) == before
    assert lift("elsewhere.cu", text=text).original == before.original
    assert self_contained(path, text) == text


def test_errors_name_the_header_and_its_line(folder: Path) -> None:
    path = folder / "kernel.cu"
    path.write_text(KERNEL.replace("leaky(x[i])", "leaky(x[i] * MORE)"))
    with pytest.raises(EvolveError) as caught:
        lift(path)
    assert (caught.value.file, caught.value.line) == (str(path), 6)

    path.write_text(KERNEL)
    (folder / "detail" / "leaky.cuh").write_text(LEAKY.replace("v > 0.f", "w > 0.f"))
    with pytest.raises(EvolveError) as caught:
        lift(path)
    assert (caught.value.file, caught.value.line) == (str(folder / "detail" / "leaky.cuh"), 5)

    loop = "#pragma once\n__device__ float leaky(float v) {\n  while (v > 1.f) v -= 1.f;\n  return v;\n}\n"
    (folder / "detail" / "leaky.cuh").write_text(loop)
    with pytest.raises(CannotLiftError) as refused:
        lift(path)
    assert (refused.value.file, refused.value.line) == (str(folder / "detail" / "leaky.cuh"), 3)


def test_statements_know_the_file_that_they_stand_in(folder: Path) -> None:
    path = folder / "kernel.cu"
    lifted = lift(path)
    assert {str(leaf.span) for leaf, _ in leaves(lifted.kernel.body)} == {f"{path}:6"}


def test_kernels_of_headers_are_listed(folder: Path) -> None:
    kernel = "\n__global__ void other(float *y) { if (threadIdx.x < 4) y[threadIdx.x] = 1.f; }\n"
    (folder / "common.cuh").write_text(COMMON + kernel)
    with pytest.raises(EvolveError, match=r"other.*line 8 of common\.cuh"):
        lift(folder / "kernel.cu")
    assert [k.line for k in list_kernels(folder / "kernel.cu")] == [8, 4]
    assert lift(folder / "kernel.cu", "k").kernel.name == "k"


@pytest.mark.parametrize(
    "line",
    [
        '#include "../secret.cuh"',
        '#include "detail/../../secret.cuh"',
        '#include "link.cuh"',
        '#include "linked/secret.cuh"',
        '#include "ABSOLUTE"',
        "#include <ABSOLUTE>",
        '#import "ABSOLUTE"',
        '#include_next "ABSOLUTE"',
        '#\\\ninclude "ABSOLUTE"',
        '#/**/include "ABSOLUTE"',
        '%:include "ABSOLUTE"',
        '#define HEADER "ABSOLUTE"\n#include HEADER',
        '/**/ #include "ABSOLUTE"',
    ],
)
def test_nothing_outside_the_folder_is_read(line: str, folder: Path) -> None:
    secret = folder.parent / "secret.cuh"
    (folder / "link.cuh").symlink_to(secret)
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    text = "\n" + KERNEL.replace("* SCALE", "* SECRET")
    (folder / "kernel.cu").write_text(line.replace("ABSOLUTE", str(secret)) + text)
    with pytest.raises(EvolveError) as caught:
        lift(folder / "kernel.cu")
    assert caught.value.code == "syntax-error"
    assert "7.0" not in caught.value.message


def test_links_inside_the_folder_are_followed(folder: Path) -> None:
    (folder / "alias.cuh").symlink_to(folder / "common.cuh")
    (folder / "kernel.cu").write_text(KERNEL.replace('"common.cuh"', '"alias.cuh"'))
    assert lift(folder / "kernel.cu").kernel.name == "k"


def test_includes_in_comments_and_strings_are_none(folder: Path) -> None:
    text = '/*\n#include "common.cuh"\n*/\n// #include "common.cuh"\nconst char *s = "a /*";\n'
    assert self_contained(folder / "kernel.cu", text) == text


def test_cycles_and_self_includes_end(folder: Path) -> None:
    (folder / "common.cuh").write_text('#include "other.cuh"\n#include "kernel.cu"\n#define A 1\n')
    (folder / "other.cuh").write_text('#include "common.cuh"\n#define B 2\n')
    text = self_contained(folder / "kernel.cu", KERNEL)
    assert text.count("#define A") == text.count("#define B") == 1


def test_a_header_is_read_once_under_whatever_condition_it_was_met_first(folder: Path) -> None:
    path = folder / "kernel.cu"
    plain = print_kernel(lift(path).kernel)
    for condition in ("#ifdef NEVER", "#ifndef NEVER"):  # nothing of it came, or all of it
        text = self_contained(path, f'{condition}\n#include "common.cuh"\n#endif\n{KERNEL}')
        assert print_kernel(lift(path, text=text).kernel) == plain
    assert self_contained(path, KERNEL + KERNEL).count("THREADS = 128") == 1


def test_too_many_headers_are_an_error(folder: Path) -> None:
    for k in range(9):
        (folder / f"h{k}.cuh").write_text(f'#include "h{k + 1}.cuh"\n' * 2)
    with pytest.raises(EvolveError, match="headers") as caught:
        self_contained(folder / "kernel.cu", '#include "h0.cuh"\n')
    assert caught.value.code == "no-file"


def test_headers_that_are_no_text_are_an_error(folder: Path) -> None:
    (folder / "common.cuh").write_bytes(b"\xff\xfe")
    with pytest.raises(EvolveError, match=r"common\.cuh is not UTF-8"):
        lift(folder / "kernel.cu")


def test_missing_headers_are_empty_as_before(lift_text: Lift) -> None:
    text = '#include "helper_cuda.h"\n' + KERNEL.split("\n", 3)[3]
    text = text.replace("THREADS", "128").replace("leaky(x[i]) * SCALE", "x[i]")
    assert lift_text(text).kernel.name == "k"


def test_origins_of_lines() -> None:
    text = 'a\n#line 1 "h.cuh"\nb\nc\n#line 3 "k.cu"\nd\n'
    origins = Origins("dir/k.cu", text)
    assert [origins.of(n) for n in (1, 3, 4, 6)] == [
        ("dir/k.cu", 1), ("dir/h.cuh", 1), ("dir/h.cuh", 2), ("dir/k.cu", 3),
    ]  # fmt: skip
