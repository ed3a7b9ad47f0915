"""Updates of segments that are searched for, and by lanes together: what is wrong in them is found."""

from __future__ import annotations

from functools import cache

import pytest

from tests.validation.suite import Made, made, of

BLOCKS = "split(i, 64)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
B, F, A = "spmv-balance", "template spmv 4", "template spmv 5"
ALIKE = "histogram"


@cache
def program(name: str) -> Made:
    return of(ALIKE, f"{BLOCKS}aggregate(hist, warp)") if name == ALIKE else made(name)


EDITS: tuple[tuple[str, str, str], ...] = (
    # find
    (A, "starts[middle] <= value", "starts[middle] < value"),
    (A, "low = middle;", "low = middle + 1;"),
    (A, "high = middle;", "high = middle - 1;"),
    (A, "high - low > 1", "high - low > 0"),
    (A, "int high = segments;", "int high = segments - 1;"),
    (A, "return low;", "return high;"),
    (A, "low + (high - low) / 2", "(low + high) / 2"),
    (A, "if (starts[middle] <= value) {", "if (starts[middle] <= value && middle < 1000) {"),
    # find_together
    (F, "if (__activemask() != 0xffffffffu) {\n        return find", "if (lane0) {\n        return find"),
    (F, "__activemask() != 0xffffffffu", "__activemask() == 0xffffffffu"),
    (F, "__shfl_sync(0xffffffffu, value, 0)", "__shfl_sync(0xffffffffu, value, 1)"),
    (F, "(lane + 1) * step", "lane * step"),
    (F, "starts[at] <= least", "starts[at] <= value"),
    (F, "low += below * step", "low += (below + 1) * step"),
    (F, "__ballot_sync(0xffffffffu", "__ballot_sync(0xffffu"),
    (F, "min(low + 1 + lane, segments)", "min(low + lane, segments)"),
    (F, "min(low + 1 + lane, segments)", "low + 1 + lane"),
    (F, "half = 16", "half = 8"),
    (F, "end, r + half - 1)", "r, half)"),
    (F, "value < least || last <= value", "last <= value"),
    (F, ": low + r;", ": low;"),
    # sum_together
    (B, "__shfl_up_sync(0xffffffffu, r, 1)", "__shfl_up_sync(0xffffffffu, r, 2)"),
    (B, "before <= r)", "before < r)"),
    (B, "lane == 0 || before <= r)", "lane < 2 || before <= r)"),
    (B, "apart = !__all_sync", "apart = __all_sync"),
    (B, "distance < 32; distance", "distance < 16; distance"),
    (B, "distance *= 2", "distance += 2"),
    (B, "!apart && lane", "lane"),
    (B, "lane + distance < 32 && ", ""),
    (B, "there == r", "there >= r"),
    (B, "there == r", "true"),
    (B, "lane == 0 || before != r", "before != r"),
    (B, "total = total + other;", "total = other;"),
    (B, "total, distance)", "total, 1)"),
    (B, "apart || lane == 0 || before != r) {\n        atomicAdd(&target[r], total);", "apart) {\n        ;"),
    (
        B,
        "before != r) {\n        atomicAdd(&target[r], total);",
        "before != r) {\n        target[r] += total;",
    ),
    (B, "before != r) {\n        atomicAdd(&target[r]", "before != r) {\n        atomicAdd(&target[0]"),
    # sum_runs
    (B, "first >= starts[segments]", "first > starts[segments]"),
    (B, "left = starts[segments] - from", "left = starts[segments - 1] - from"),
    (B, "end = starts[r + 1] - from", "end = starts[r] - from"),
    (B, "next = starts[min(r + 2, segments)] - from;\n    float", "next = starts[r + 1] - from;\n    float"),
    (B, "next = starts[min(r + 2, segments)] - from;\n    float", "next = starts[r + 2] - from;\n    float"),
    (
        B,
        "next = starts[min(r + 2, segments)] - from;\n      ",
        "next = starts[min(r + 1, segments)] - from;\n",
    ),
    (B, "if (i < left)", "if (i <= left)"),
    (B, "if (i >= end)", "if (i > end)"),
    (B, "while (i >= end)", "while (i > end)"),
    (B, "total = -0.0f;", "total = 0.0f;"),
    (B, "total = -0.0f;", ""),
    (B, "atomicAdd(&target[r], total);\n                total", "total"),
    (B, "atomicAdd(&target[r], total);\n                total", "atomicAdd(&target[i], total);\n total"),
    (B, "++r;", ""),
    (B, "++r;", "r += 2;"),
    (B, "end = next;", "next = end;"),
    (B, "total = total + value[i];", "total = total + value[i - 1];"),
    (B, "total = total + value[i];", "total = total + value[i]; total = total + value[i];"),
    (B, "total = total + value[i];", "total = value[i];"),
    (B, "total = total + value[i];", "if (value[i] > 0.0f) { total = total + value[i]; }"),
    (B, "total = value[0];", "total = value[1];"),
    (B, "int i = 1; i < 8", "int i = 2; i < 8"),
    (B, "int i = 1; i < 8", "int i = 1; i < 7"),
    (B, "find_together(starts, segments, from)", "find_together(starts, segments, from + 1)"),
    (B, "    sum_together(target, r, total);\n}", "}"),
    (B, "    sum_together(target, r, total);\n}", "    sum_together(target, r + 1, total);\n}"),
    # the kernel
    (B, "sum_runs_8(sum_values, rowptr, rows, k", "sum_runs_8(sum_values, rowptr, rows - 1, k"),
    (B, "sum_runs_8(sum_values, rowptr, rows, k", "sum_runs_8(sum_values, col, rows, k"),
    (B, "1622016 + k, sum);", "1622016 + k + 1, sum);"),
    (B, "1622016 + k, sum);", "1622016 + k_ooi * 2048 + tx * 4, sum);"),
    (B, "sum_values[sum_start] = -0.0f;", "sum_values[sum_start] = 0.0f;"),
    (B, "sum_start < 8", "sum_start < 7"),
    (B, "float sum_values[8];", "float sum_values[9];"),
    (B, "sum_values[k_io * 4 + 1] = val4.y", "sum_values[k_io * 4 + 2] = val4.y"),
    (B, "sum_values[k_io * 4 + 1] = val4.y * x[col4.y];", "sum_values[k_io * 4 + 1] = val4.y * x[col4.x];"),
    (B, "sum_values[k_io * 4 + 1] = val4.y * x[col4.y];", ""),
    (B, "k_io * 4 + 3 < (long long)rowptr[rows]", "k_io * 4 + 2 < (long long)rowptr[rows]"),
    (
        B,
        "sum_runs_8(sum_values, rowptr, rows, k_ooo",
        "if (tx < 8) sum_runs_8(sum_values, rowptr, rows, k_ooo",
    ),
    # aggregate_sum
    (A, "__match_any_sync(__activemask(), at)", "__match_any_sync(0xffffffffu, at)"),
    (A, "__match_any_sync(__activemask(), at)", "__match_any_sync(__activemask(), at / 2)"),
    (A, "first = __ffs(peers) - 1", "first = __ffs(peers)"),
    (A, "__shfl_sync(peers, value, first)", "__shfl_sync(peers, value, 0)"),
    (A, "__shfl_sync(peers, value, first)", "value"),
    (A, "left = peers & (peers - 1)", "left = peers"),
    (A, "left &= left - 1", "left &= peers - 1"),
    (A, "__ffs(left) - 1)", "first)"),
    (A, "__shfl_sync(peers, value, __ffs", "__shfl_sync(0xffffffffu, value, __ffs"),
    (A, "total = total + other", "total = other"),
    (A, "total = total + other", "total = total + value"),
    (A, "if (threadIdx.x % 32 == first) {", "if (threadIdx.x % 16 == first) {"),
    (A, "if (threadIdx.x % 32 == first) {", "if (true) {"),
    (A, "if (threadIdx.x % 32 == first) {", "__syncthreads();\n    if (threadIdx.x % 32 == first) {"),
    (
        A,
        "if (threadIdx.x % 32 == first) {",
        "if (value > 1e30f) { total = 0.0f; } if (threadIdx.x % 32 == first) {",
    ),
    (A, "atomicAdd(&cells[at], total)", "atomicAdd(&cells[0], total)"),
    (A, "atomicAdd(&cells[at], total)", "atomicAdd(&cells[at], value)"),
    (A, "atomicAdd(&cells[at], total)", "cells[at] += total"),
    (A, "atomicAdd(&cells[at], total)", "atomicMax((int*)&cells[at], 1)"),
    (A, "find(rowptr, rows, k_oo * 96", "find(rowptr, rows, 1 + k_oo * 96"),
    (A, "find(rowptr, rows, k_oo", "find(col, rows, k_oo"),
    (A, "find(rowptr, rows, k_oo", "find(rowptr, rows - 1, k_oo"),
    (A, "aggregate_sum(sum, find", "aggregate_sum(sum + 1, find"),
    (ALIKE, "(int)__popc(peers) * value", "value"),
    (ALIKE, "(int)__popc(peers) * value", "(int)__popc(peers) * value + 1"),
    (ALIKE, "(int)__popc(peers) * value", "(int)__popc(__activemask()) * value"),
    (ALIKE, "aggregate_sum_alike_i32(hist, x[i], 1);", "aggregate_sum_alike_i32(hist, tx, 1);"),
    (ALIKE, "i], 1);", "i], 2);"),
    (ALIKE, "i], 1);", "i], x[0]);"),
)


@pytest.mark.parametrize("name", [B, F, A, ALIKE])
def test_what_is_emitted_is_proved(name: str) -> None:
    verdict = program(name).read_back()
    assert verdict.proved, str(verdict)


@pytest.mark.parametrize(("name", "old", "new"), EDITS)
def test_an_edit_is_found(name: str, old: str, new: str) -> None:
    text = program(name).rendered.text
    assert old in text
    verdict = program(name).read_back(text.replace(old, new, 1))
    assert not verdict.proved
    assert "Error" not in verdict.reason


def test_a_search_that_is_only_slower_is_a_search() -> None:
    """What looks in fewer parts a step ends a step early, and each lane then searches for itself."""
    text = program(F).rendered.text
    for old, new in (("(high - low + 32) / 33", "(high - low) / 33"), ("low + r;", "low + r + 0;")):
        assert old in text
        text = text.replace(old, new, 1)
    assert program(F).read_back(text).proved
