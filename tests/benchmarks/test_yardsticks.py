"""Everything of the comparison with PyTorch that needs neither a GPU nor PyTorch."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.prepared_programs import PROGRAMS, WORKLOADS, files_of, prepare
from benchmarks.torch_bench import LEAST_TURNS, interleaved
from benchmarks.torch_work import works
from benchmarks.yardsticks import ESTIMATED, dry_run, figures, interval, main
from tests.illegal.lifted import workload

KERNELS = list(works(None, {}))


def launched(line: str) -> tuple[str, int]:
    """A launch's kernel and number of arguments."""
    words = line.split()
    return words[0], int(words[-1])


def test_a_dry_run_ends_before_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "rmsnorm", "matvec"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["kernel"], second["kernel"]) == ("rmsnorm", "matvec")
    assert first["bytes_read"] == 4 * (8192 * 8192 + 8192) and first["bytes_written"] == 4 * 8192 * 8192
    assert [launched(x) for x in first["launches"]["rmsnorm"]] == [("rmsnorm_v1", 5)]
    assert set(second["launches"]) == {f.stem for f in files_of("matvec")}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_program_is_proved_and_built(kernel: str) -> None:
    (found,) = dry_run([kernel])
    assert list(found["launches"]) == [f.stem for f in files_of(kernel)]
    assert all(lines for lines in found["launches"].values())


@pytest.mark.parametrize("arguments", [["no_such_kernel"], ["vecadd"], ["--out", "x.json", "vecadd"]])
def test_calls_that_say_too_little_or_nonsense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_every_function_has_a_program_and_every_alternative_a_function() -> None:
    assert {f.stem for f in PROGRAMS.glob("*.dsl")} >= set(KERNELS)
    alternatives = {f.name for f in (PROGRAMS / "alternatives").iterdir()}
    cases = [*KERNELS, *(f.stem for f in WORKLOADS.iterdir())]
    assert alternatives == {f.name for c in cases for f in files_of(c) if f.parent.name == "alternatives"}


def test_a_case_has_the_alternatives_named_after_it() -> None:
    fast = "masked_softmax-fast"
    first, *others = [f.stem for f in files_of(fast)]
    assert first == "masked_softmax" and fast in others and all(x.startswith(fast) for x in others)
    assert not {*others} & {f.stem for f in files_of("masked_softmax")}
    assert files_of("histogram-equal") == files_of("histogram")
    assert [f.stem for f in files_of("row_sum-exact")] == ["row_sum-exact"]


def test_a_case_is_run_under_its_contract() -> None:
    found = prepare("cross_entropy-fast", ESTIMATED)
    assert found.problem.numerics == "fast" and "__expf(" in found.programs[1].built.rendered.text


def test_a_program_that_is_not_proved_is_not_timed(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PROGRAMS.__class__(str(tmp_path))
    (folder / "row_sum.dsl").write_text(
        "bind(r, grid.x)\nsplit(c, 32)\nreorder([c.i, c.o])\nbind(c.i, thread.x)\n"
    )
    monkeypatch.setattr("benchmarks.prepared_programs.PROGRAMS", folder)
    with pytest.raises(ValueError, match=r"row_sum\.dsl: REFUTED"):
        prepare("row_sum", ESTIMATED)


# ---- what the functions compute; without PyTorch, those that are written with operators only


def binary64(a: np.ndarray) -> np.ndarray:
    """Numbers in binary64; integers as they are."""
    return a.astype(float) if np.issubdtype(a.dtype, np.floating) else a.copy()


@pytest.mark.parametrize("kernel", ["stencil", "stencil3x3"])
def test_the_interior_is_what_the_kernel_writes(kernel: str) -> None:
    of = workload(kernel)
    (output,) = of.outputs
    got = works(None, {})[kernel].compiled(*(binary64(a) for n, a in of.arrays.items() if n != output))
    assert np.allclose(got, of.wanted[output][1:-1, 1:-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_functions_are_the_kernels_own(kernel: str) -> None:
    torch = pytest.importorskip("torch")
    of = workload(kernel)
    (output,) = of.outputs
    work = works(torch, of.scalars)[kernel]
    want = of.wanted[output][1:-1, 1:-1] if work.interior else of.wanted[output]
    for function in (work.eager, work.compiled):
        given = {n: torch.from_numpy(binary64(a)) for n, a in of.arrays.items()}
        got = function(*(t for n, t in given.items() if n != output or kernel in ("histogram", "saxpy")))
        assert np.allclose(got.numpy(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_constants_are_those_of_the_kernel(kernel: str) -> None:
    """Literals with an exponent, a point, or none: those that PyTorch is given stand in the kernel too."""
    text = (PROGRAMS.parent / f"{kernel}.cu").read_text()
    used = re.findall(r"\d+e-\d+|\d+\.\d+", inspect.getsource(works(None, {})[kernel].eager))
    assert all(literal in text for literal in used)
    assert bool(used) == (kernel in ("blur", "layernorm", "masked_softmax", "rmsnorm", "stencil"))


# ---- how it is timed


class Clock:
    """Notes what is timed; a sample is as long as the call says."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def sample(self, calls: Sequence[Callable[[], object]], limit_s: float, flushes: int) -> SimpleNamespace:
        assert limit_s > 0 and flushes > 0
        for call in calls:
            name, us = call()  # type: ignore[misc]
            self.seen.append(name)
        return SimpleNamespace(us=us * len(calls))


def test_turns_go_forth_and_back_and_the_first_are_not_counted() -> None:
    clock = Clock()
    got = interleaved(clock, {"a": lambda: ("a", 1.0), "b": lambda: ("b", 2.0)}, warm_s=0.0, timed_s=0.0)
    assert "".join(clock.seen).startswith("abbaabba")
    assert len(clock.seen) == 2 * (4 + LEAST_TURNS)
    assert got == {"a": [1.0] * LEAST_TURNS, "b": [2.0] * LEAST_TURNS}


def test_launches_in_a_row_share_their_time() -> None:
    clock = Clock()
    calls = {"a": lambda: ("a", 1.0), "b": lambda: ("b", 2.0)}
    got = interleaved(clock, calls, warm_s=0.0, timed_s=0.0, launches=3)
    assert "".join(clock.seen).startswith("aaabbbbbbaaa")
    assert got == {"a": [1.0] * LEAST_TURNS, "b": [2.0] * LEAST_TURNS}


# ---- figures


def test_drift_that_both_see_is_not_in_the_interval() -> None:
    drift = np.linspace(100, 200, 41)
    assert interval(list(drift * 0.9), list(drift)) == (0.9, 0.9)


def test_an_interval_is_as_wide_as_the_noise() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(100, 5, 61), rng.normal(110, 5, 61)
    low, high = interval(list(a), list(b))
    assert low < 100 / 110 < high and 0.01 < high - low < 0.08


def test_fractions_are_of_speeds_and_not_of_times() -> None:
    samples = {"mine": [10.0] * 9, "eager": [20.0] * 9, "compiled": [8.0] * 9, "copy": [10.0] * 9}
    got = figures("mine", samples, moved=8_000_000, yardstick_bytes={"copy": 10_000_000})
    assert got["ours_over_eager"] == 0.5 and got["ours_over_compiled"] == 1.25
    assert got["ours_over_compiled_95"] == (1.25, 1.25)
    assert got["of_copy"] == 0.8 and got["of_copy_95"] == (0.8, 0.8)
    assert got["tb_per_s"] == 0.8
    assert got["median_us"]["compiled"] == 8.0
