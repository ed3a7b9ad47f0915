"""Refusals are printed the way a compiler prints them."""

from __future__ import annotations

from evolve.report.refusals import Texts, refusal_lines

PROGRAM = "split(c, 4)\nunroll(c.i)\nx_r, y_r = bind(c.o, grid.x)  # not so\n"
KERNEL = '#line 1 "k.cu"\nint a;\n#line 1 "h.cuh"\n  float f;\n#line 3 "k.cu"\n    y[i] = x[i];\n'
TEXTS = Texts("p.dsl", PROGRAM, "k.cu", KERNEL)


def test_the_line_the_caret_notes_and_help() -> None:
    refused = {
        "code": "E-CARRIED",
        "message": "every iteration of c.o updates the same cell",
        "line": 3,
        "witness": "thread 1 writes m[0], which thread 0 writes",
        "repair": "block_reduce(c.o)",
        "spans": [{"file": "k.cu", "line": 3, "column": 5}, {"file": "h.cuh", "line": 1, "column": 0}],
    }
    assert refusal_lines(refused, TEXTS) == [
        "p.dsl:3: error[E-CARRIED]: every iteration of c.o updates the same cell",
        "    3 | x_r, y_r = bind(c.o, grid.x)  # not so",
        "      |                 ^^^",
        "k.cu:3: note: in the kernel",
        "    3 |     y[i] = x[i];",
        "      |     ^",
        "h.cuh:1: note: in the kernel",
        "    1 |   float f;",
        "      |   ^",
        "note: for example, thread 1 writes m[0], which thread 0 writes",
        "help: block_reduce(c.o)",
    ]


def test_the_whole_statement_is_marked_where_nothing_is_named() -> None:
    refused = {"code": "E-SHARED-SIZE", "message": "a block uses 65536 bytes", "line": 2}
    assert refusal_lines(refused, TEXTS)[1:] == ["    2 | unroll(c.i)", "      | ^^^^^^^^^^^"]


def test_without_a_place_there_is_the_message() -> None:
    lines = refusal_lines({"code": "E-TIME", "message": "given up", "spans": None}, TEXTS)
    assert lines == ["p.dsl: error[E-TIME]: given up"]
    gone = {"code": "E-X", "message": "m", "spans": [{"file": "gone.cu", "line": 9, "column": 1}]}
    assert refusal_lines(gone, TEXTS)[-1] == "gone.cu:9: note: in the kernel"
