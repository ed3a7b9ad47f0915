"""What a person is told of a refusal: statement, places in the source, witness, what is legal instead."""

from __future__ import annotations

import re

import pytest

from evolve.compiler.compile import compile_program
from evolve.compiler.explain import nearest
from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.parser import parse, parse_statement
from evolve.legality.verdict import Limits
from tests.illegal.lifted import source
from tests.illegal.programs import Illegal, programs

ONE_OF_EACH = list({p.refused: p for p in reversed(programs())}.values())
WITHOUT_PLACE = {"E-CONTRADICTION"}
"""Of sizes alone: no statement of the source is involved."""


def told(kernel: str, text: str) -> tuple[Diagnostic, ...]:
    return compile_program(source(kernel), parse(text), Limits(), blame=True).verdict.diagnostics


@pytest.mark.parametrize("p", ONE_OF_EACH, ids=lambda p: p.refused)
def test_a_refusal_names_its_statement_and_its_places_in_the_source(p: Illegal) -> None:
    lines = p.text.splitlines()
    for d in told(p.kernel, p.text):
        assert d.statement is not None and d.line is not None
        assert parse_statement(lines[d.line - 1]) == parse(p.text).statements[d.statement]
        assert d.spans or d.code in WITHOUT_PLACE
        assert all(span.file.endswith(f"{p.kernel}.cu") and span.line > 0 for span in d.spans)
        assert d.repair


def test_what_is_offered_instead_is_proved() -> None:
    tried = 0
    for p in ONE_OF_EACH[::6]:
        (*_, last) = told(p.kernel, p.text)
        found = re.search(r"legal here: (.*)$", last.repair or "")
        if found is None or last.line is None:
            continue
        tried += 1
        before = "\n".join(p.text.splitlines()[: last.line - 1])
        assert compile_program(source(p.kernel), parse(f"{before}\n{found[1]}\n"), Limits()).verdict.proved
    assert tried > 1


PROGRAMS = {p.id: p for p in programs()}
ADVICE = {
    "matmul/k_over_threads": "block_reduce(k) or warp_reduce(k)",
    "softmax/columns_over_threads": "block_reduce(c)",  # a warp has not so many lanes
    "accumulate/columns_over_blocks": "reduce across the threads, or bind another loop",  # neither is
}


ADVISED = ("E-CARRIED", "E-VECTOR-TAIL", "E-CACHE", "E-VERSIONS")
"""Codes whose repairs are statements."""


def steps_of(repair: str) -> list[list[str]]:
    """The statements of each way that a repair names; none where it is in words."""
    told = repair.partition("; or, legal here: ")[0]
    if not re.fullmatch(r"[a-z_]+\(.*\)", told):
        return []
    return [[one] for one in told.split(" or ")]


def test_statements_that_a_repair_names_are_legal_there() -> None:
    followed = 0
    for p in (p for p in PROGRAMS.values() if p.refused in ADVISED):
        for d in told(p.kernel, p.text):
            for steps in steps_of(d.repair or ""):
                assert d.statement is not None
                statements = [str(s) for s in parse(p.text).statements[: d.statement + 1]]
                under = steps[0].startswith(("specialize(", "assume("))
                tried = [*statements[:-1], *steps, *(statements[-1:] if under else ())]
                verdict = compile_program(source(p.kernel), parse("\n".join(tried)), Limits()).verdict
                assert verdict.proved, (p.id, d.code, steps, verdict)
                followed += 1
    assert followed >= 12


@pytest.mark.parametrize("name", ADVICE)
def test_of_several_ways_those_are_told_that_are_legal(name: str) -> None:
    p = PROGRAMS[name]
    assert ADVICE[name] in (told(p.kernel, p.text)[0].repair or "")


def test_a_race_says_which_threads_do_what_to_which_element() -> None:
    (race, *_) = told("recurrence", "bind(r, grid.x)\nspecialize(cols == 17)\nbind(c, thread.x)")
    assert race.code == "E-RACE" and race.witness is not None
    assert race.witness.startswith(
        "thread 15 reads y[0][15], which thread 14 writes, and no barrier is between"
    )
    blocks = next(p for p in programs() if p.name == "rows_inside_the_sweep_over_blocks")
    (race, *_) = told(blocks.kernel, blocks.text)
    assert race.witness is not None and "of block 0 writes, and nothing orders blocks" in race.witness


@pytest.mark.parametrize("p", [p for p in programs() if p.refused == "E-OWNER"], ids=lambda p: p.id)
def test_an_element_that_the_wrong_thread_touches_is_named_with_who_holds_it(p: Illegal) -> None:
    (d, *_) = told(p.kernel, p.text)
    said = r"at .*, (thread\.[xyz]) (\d+) touches \w+(\[\d+\])+, which (.*) (\d+) holds"
    found = re.fullmatch(said, d.witness or "")
    assert found is not None and found[1] == found[4] and found[2] != found[5], d


def test_iterations_that_update_one_cell_are_named() -> None:
    (d, *_) = told("row_sum", "bind(r, grid.x)\nspecialize(cols == 64)\nbind(c, thread.x)")
    assert d.code == "E-CARRIED" and d.witness == "c=0 and c=1 both update total[]"


def test_each_reason_is_blamed_on_its_own_statement() -> None:
    text = "set_precision(y, fast)\nsplit(row, 64)\nset_precision(s, fast)\nbind(row.o, grid.x)"
    found = told("softmax", text)
    assert {(d.code, d.message[:3], d.statement) for d in found} == {
        ("E-NUMERICS", "`y[", 0),
        ("E-NUMERICS", "`s[", 2),
    }


def test_the_nearest_move_is_of_the_same_primitive() -> None:
    moves = ["split(c, 4)", "bind(row, grid.x)", "bind(c.i, thread.x)", "bind(c.o, grid.y)"]
    assert nearest(parse_statement("bind(c.i, thread.z)"), moves)[0] == "bind(c.i, thread.x)"
    assert nearest(parse_statement(["t", "bind(c.i, thread.x)"][1]), moves)[0] == "bind(c.o, grid.y)"
    assert nearest(parse_statement("jam(a, b)"), moves) == []
