"""Programs made to fit a kernel, and brought to one spelling."""

from __future__ import annotations

import pytest

from evolve.dsl.parser import parse
from evolve.search import bench as bench_module
from evolve.search.bench import Bench, Fitted
from evolve.transforms.apply import apply_program
from tests.transforms.fixtures import KERNELS
from tests.transforms.programs import KERNEL_OF, PROGRAMS


def fitted(kernel: str, text: str, most_dropped: int = 0) -> Fitted | None:
    return Bench(KERNELS[kernel]()).fit(parse(text).statements, most_dropped)


def lines(found: Fitted | None) -> list[str]:
    assert found is not None
    return [str(s) for s in found.statements]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_applies_stays_as_it_is(name: str) -> None:
    kernel, program = KERNELS[KERNEL_OF[name]](), parse(PROGRAMS[name])
    found = Bench(kernel).fit(program.statements)
    assert found == Fitted(program.statements, apply_program(kernel, program).kernel, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Cut once instead of twice: the loop with the same last step.
        ("split([c, c_2], 32)\nwarp_reduce([c.o.i, c_2.o.i])", "warp_reduce([c.i, c_2.i])"),
        # Cut twice instead of once.
        ("split(c, 4)\nsplit(c.o, 32)\nunroll(c.o, 8)", "unroll(c.o.o, factor=8)"),
        # A loop of a copy that is not there leaves the group.
        ("split(c, 4)\nunroll([xr.1, c.i])", "unroll(c.i)"),
        # One that is bound already leaves it too.
        ("split([c, c_2], 32)\nwarp_reduce(c.i)\nwarp_reduce([c.i, c_2.i])", "warp_reduce(c_2.i)"),
    ],
)
def test_names_of_another_program_are_given_the_loops_that_are_there(text: str, expected: str) -> None:
    assert lines(fitted("softmax", text))[-1] == expected


def test_what_cannot_be_is_left_out_with_what_depends_on_it() -> None:
    text = "split(c, 4)\nset_layout(t, pad=[0, 1])\nsplit(t.0, 8)\nunroll(c.i)"
    assert fitted("softmax", text, 1) is None
    found = fitted("softmax", text, 2)
    assert lines(found) == ["split(c, 4)", "unroll(c.i)"]
    assert found is not None and found.dropped == 2


def test_holes_stay_and_are_tried_with_their_first_choice() -> None:
    assert lines(fitted("vecadd", "split(i, ?[128, 256])\nbind(i.i, thread.x)"))[0] == "split(i, ?[128, 256])"
    assert fitted("vecadd", "split(i, ?[2048, 256])\nbind(i.i, thread.x)") is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plain_form_means_the_same_and_is_its_own(name: str) -> None:
    kernel = KERNELS[KERNEL_OF[name]]()
    bench = Bench(kernel)
    program = parse(PROGRAMS[name]).statements
    plain = bench.plain(program)
    assert len(plain) == len(program)
    mine, other = bench.fit(program), bench.fit(plain)
    assert mine is not None and other is not None and mine.kernel == other.kernel
    assert bench.plain(plain) == plain


def test_the_plain_form_names_copies_but_no_loops_and_no_groups() -> None:
    text = """specialize(cols == 64)
        co, ci = split(c, 4)
        a, b = split([c_2, c_3], 8)
        stage(x, at=row, scope=shared)
        unroll([ci, b])
        unroll(co, 2)"""
    plain = Bench(KERNELS["softmax"]()).plain(parse(text).statements)
    assert [str(s) for s in plain[1:]] == [
        "split(c, 4)",
        "split([c_2, c_3], 8)",
        "x_s = stage(x, at=row, scope=shared)",
        "unroll([c.i, c_2.i, c_3.i])",
        "unroll(c.o, factor=2)",
    ]


def test_what_is_remembered_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse(PROGRAMS["softmax"]).statements
    bench = Bench(KERNELS["softmax"]())
    first = bench.fit(program)
    monkeypatch.setattr(bench_module, "_REMEMBERED", 3)
    assert bench.fit(program) == first
    assert bench.fit(program) == first
    assert bench._held <= 2 * len(program)


def test_a_bug_in_a_transform_refuses_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kernel: object, statement: object, names: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(bench_module, "apply", broken)
    monkeypatch.delenv("EVOLVE_DEBUG", raising=False)
    program = parse("split(i, 4)").statements
    assert Bench(KERNELS["vecadd"]()).fit(program) is None
    assert Bench(KERNELS["vecadd"]()).plain(program) == program
    monkeypatch.setenv("EVOLVE_DEBUG", "1")
    with pytest.raises(KeyError):
        Bench(KERNELS["vecadd"]()).fit(program)


def test_without_a_kernel_everything_is_taken() -> None:
    program = parse("split(q, 4)\nbind(z, grid.x)").statements
    assert Bench(None).fit(program) == Fitted(program, None, 0)
    assert Bench(None).plain(program) == program
