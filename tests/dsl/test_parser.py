"""Program texts: what parses to what, and what is refused where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.dsl.parser import MAX_BYTES, MAX_HOLES, MAX_STATEMENTS, parse, parse_statement
from evolve.dsl.program import Hole, ListValue, Name, Operation, Program, Statement
from evolve.ir.errors import EvolveError


def refused(text: str) -> EvolveError:
    with pytest.raises(EvolveError) as e:
        parse(text, "p.dsl")
    assert e.value.code == "malformed-program"
    assert e.value.file == "p.dsl"
    return e.value


def test_a_program() -> None:
    program = parse(
        "# one block a row\n\nspecialize(cols == 8192 and rows % 4 == 0)\n"
        "bind(row, grid.x)  # rows\nco, ci = split(c, ?[64, 128])\r\nxr = stage(x, scope=register, at=row)"
    )
    is_8192 = Operation("==", Name("cols"), 8192)
    multiple = Operation("==", Operation("%", Name("rows"), 4), 0)
    assert program == Program(
        (
            Statement((), "specialize", (Operation("and", is_8192, multiple),)),
            Statement((), "bind", (Name("row"), Name("grid.x"))),
            Statement(("co", "ci"), "split", (Name("c"), Hole((64, 128)))),
            Statement(("xr",), "stage", (Name("x"),), (("at", Name("row")), ("scope", Name("register")))),
        )
    )
    assert [s.line for s in program.statements] == [3, 4, 5, 6]
    assert str(program) == (
        "specialize(cols == 8192 and rows % 4 == 0)\nbind(row, grid.x)\n"
        "co, ci = split(c, ?[64, 128])\nxr = stage(x, at=row, scope=register)\n"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "  \n # nothing"])
def test_empty_programs(text: str) -> None:
    assert parse(text) == Program(())


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("split(loop=c, factor=64)", "split(c, 64)"),
        ("split(c, factor=64)", "split(c, 64)"),
        ("launch_bounds(256, 0)", "launch_bounds(256)"),
        ("launch_bounds(256, 2)", "launch_bounds(256, min_blocks=2)"),
        ("promote_to_shared(x, at=row)", "stage(x, at=row, scope=shared)"),
        ("promote_to_register(x, row)", "stage(x, at=row, scope=register)"),
        ("stage(x, row, shared)", "stage(x, at=row, scope=shared)"),
        ("fuse(c, c_2)", "jam(c, c_2)"),
        ("fission([i, j])", "distribute([i, j])"),
        ("unroll(c, factor=4)", "unroll(c, factor=4)"),
        ("tile([ i,j, ],[32,  ?[8, 16]],)", "tile([i, j], [32, ?[8, 16]])"),
        ("specialize((cols % (2 * 4)) == 0)", "specialize(cols % (2 * 4) == 0)"),
        ("specialize(cols - (rows - 1) > 0)", "specialize(cols - (rows - 1) > 0)"),
        ("specialize(a == 1 and (b == 2 and c == 3))", "specialize(a == 1 and (b == 2 and c == 3))"),
        ("split(c, ?[64, 64, 32])", "split(c, ?[64, 32])"),
        ("split(android, 64)", "split(android, 64)"),
        ("split(xr.1.o, 64)", "split(xr.1.o, 64)"),
    ],
)
def test_canonical_text(spelling: str, canonical: str) -> None:
    assert str(parse_statement(spelling)) == canonical
    assert parse_statement(canonical) == parse_statement(spelling)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("split(c, 64)\nsplit(c 64)", 2, "`64`"),
        ("split(c, 64", 1, "end of line"),
        ("split(c, 64) split(d, 64)", 1, "`split`"),
        ("split(c, $)", 1, "'$'"),
        ("\n\nsplot(c, 64)", 3, "no primitive splot"),
        ("split(c)", 1, "needs the argument factor"),
        ("split(c, 64, 3)", 1, "takes 2 arguments"),
        ("split(c, 64, factor=3)", 1, "factor twice"),
        ("split(c, factor=3, factor=4)", 1, "given twice"),
        ("split(factor=3, c)", 1, "positional"),
        ("split(c, size=3)", 1, "no argument size"),
        ("split(c, 1)", 1, "at least 2"),
        ("split(c, 0)", 1, "at least 2"),
        ("split(c, 99999999999999999999)", 1, "an integer"),
        ("split(c, ?[64, 1])", 1, "at least 2"),
        ("split(c, x)", 1, "an integer"),
        ("split([], 4)", 1, "a loop, a group"),
        ("split([1], 4)", 1, "a loop, a group"),
        ("split([[c]], 4)", 1, "a loop, a group"),
        ("bind(row, grid.w)", 1, "one of grid.x"),
        ("bind([row, c], [grid.x])", 1, "one of grid.x"),
        ("stage(x, at=row, scope=global)", 1, "one of shared"),
        ("stage(x, at=[row], scope=shared)", 1, "a loop"),
        ("promote_to_shared(x, at=row, scope=register)", 1, "already says scope=shared"),
        ("specialize(cols)", 1, "comparisons"),
        ("specialize(cols + 1)", 1, "comparisons"),
        ("specialize(cols == 1 == 1)", 1, "`==`"),
        ("specialize(cols == [1])", 1, "comparisons"),
        ("specialize(1 and 2)", 1, "comparisons"),
        ("a = split(c, 4)", 1, "2 results"),
        ("a, a = split(c, 4)", 1, "one name"),
        ("a = bind(row, grid.x)", 1, "no result"),
        ("a.b, c = split(c, 4)", 1, "'.'"),
        ("split(c, -4)", 1, "`-`"),
        ("split(c, ?[])", 1, "`]`"),
        ("import os", 1, "`os`"),
        ("__import__('os')", 1, '"\'"'),
        ("split(\nc, 4)", 1, "end of line"),
    ],
)
def test_malformed(text: str, line: int, says: str) -> None:
    error = refused(text)
    assert says in error.message
    assert error.line == line
    assert str(error).startswith(f"p.dsl:{line}: ")


def test_a_close_name_is_offered() -> None:
    assert refused("splti(c, 64)").hint == "did you mean split?"
    assert "split(loop, factor)" in (refused("split(c)").hint or "")


def test_limits() -> None:
    assert "bytes" in refused("#" * (MAX_BYTES + 1)).message
    assert "statements" in refused("unroll(c)\n" * (MAX_STATEMENTS + 1)).message
    assert "nested" in refused("split(" + "[" * 5000).message
    assert "in a row" in refused("specialize(n " + "% 7 " * 10000 + "== 0)").message
    assert "in a row" in refused("specialize(" + "n == 1 and " * 20 + "n == 2)").message
    assert "comparisons" in refused("specialize(n % 9 % 8 % 7 % 6 % 5 % 4 % 3 % 2 % 9 == 0)").message
    assert "holes" in refused("split(c, ?[2, 3])\n" * (MAX_HOLES + 1)).message
    assert len(parse("unroll(c)\n" * MAX_STATEMENTS).statements) == MAX_STATEMENTS


def test_holes_are_found_in_order() -> None:
    program = parse(
        "split(c, ?[64, 128])\nt = stage(x, at=c.o, scope=?[shared, register])\nsplit(t.0, ?[2, 4])"
    )
    assert program.holes() == (Hole((64, 128)), Hole((Name("shared"), Name("register"))), Hole((2, 4)))


def test_one_statement_is_one() -> None:
    with pytest.raises(EvolveError, match="one statement is expected"):
        parse_statement("unroll(c)\nunroll(d)")


names = st.from_regex(r"[a-z][a-z0-9_]{0,3}", fullmatch=True).filter(lambda n: n != "and")
paths = st.builds(
    lambda n, parts: ".".join([n, *parts]), names, st.lists(st.sampled_from(["o", "i", "1"]), max_size=3)
)
factors = st.one_of(
    st.integers(2, 4096),
    st.builds(
        lambda xs: Hole(tuple(dict.fromkeys(xs))), st.lists(st.integers(2, 64), min_size=1, max_size=3)
    ),
)
groups = st.one_of(
    st.builds(Name, paths),
    st.builds(lambda xs: ListValue(tuple(map(Name, xs))), st.lists(paths, min_size=1, max_size=3)),
)
arithmetic = st.recursive(
    st.one_of(st.integers(0, 100), st.builds(Name, names)),
    lambda inner: st.builds(Operation, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
    max_leaves=5,
)
comparisons = st.builds(
    Operation, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), arithmetic, arithmetic
)
conditions = st.recursive(
    comparisons, lambda inner: st.builds(Operation, st.just("and"), inner, inner), max_leaves=4
)
two_names = st.lists(names, min_size=2, max_size=2, unique=True).map(tuple)
statements = st.one_of(
    st.builds(Statement, st.one_of(st.just(()), two_names), st.just("split"), st.tuples(groups, factors)),
    st.builds(Statement, st.just(()), st.just("specialize"), st.tuples(conditions)),
    st.builds(
        Statement,
        st.just(()),
        st.just("stage"),
        st.tuples(st.builds(Name, names)),
        st.tuples(
            st.tuples(st.just("at"), st.builds(Name, paths)),
            st.tuples(st.just("scope"), st.sampled_from([Name("shared"), Name("register")])),
        ),
    ),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(statements, max_size=4).map(lambda s: Program(tuple(s))))
def test_printed_programs_parse_to_themselves(program: Program) -> None:
    assert parse(str(program)) == program


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(alphabet="splitbndc(),=?[]#\n .%1\\\t'\x00é", max_size=60))
def test_any_text_parses_or_is_malformed(text: str) -> None:
    try:
        parse(text)
    except EvolveError as e:
        assert e.code == "malformed-program"


def test_a_number_of_thousands_of_digits_is_malformed() -> None:
    with pytest.raises(EvolveError, match="more than 100 digits") as caught:
        parse("unroll(i)\nsplit(i, " + "9" * 6000 + ")\n")
    assert (caught.value.code, caught.value.line) == ("malformed-program", 2)
