"""Lines of C that are too long."""

from __future__ import annotations

import re

import pytest

from evolve.codegen.wrap import WIDTH, gathered, wrapped

LONG = "a_long_name[another_one * 1024 + tx * 4] + b_long_name[another_one * 1024 + tx * 4]"
TEXTS = [
    f"    y[{LONG}] = {LONG} + {LONG};",
    f"    if ({LONG} < rows && {LONG} < cols && {LONG} >= 1) {{",
    f"    for (long long k_oo = 0; k_oo < ({LONG} + 31) / 32; ++k_oo) {{",
    f"    float v = {LONG} > 0.0f ? {LONG} : 0.0f;",
    f"    __pipeline_memcpy_async(&tile[{LONG}], &x[{LONG}], 16);",
]


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_lost_and_no_line_is_long(text: str) -> None:
    lines = wrapped(text)
    assert len(lines) > 1 and all(len(x) <= WIDTH for x in lines)
    assert all(x.startswith("    ") for x in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize("text", TEXTS)
def test_a_statement_is_gathered_on_its_first_line(text: str) -> None:
    lines = ["int a;", *wrapped(text), "// why", "b = 1;", "#pragma unroll", "for (;;) {  // twice", "}"]
    out = gathered("\n".join(lines)).split("\n")
    assert len(out) == len(lines) and out[1] == text and set(out[2 : len(wrapped(text)) + 1]) == {""}
    assert out[-5:] == lines[-5:] and out[0] == lines[0]


def test_a_long_comment_is_filled() -> None:
    lines = wrapped("    //   " + " ".join(["word"] * 60))
    assert all(len(x) <= WIDTH and x.startswith("    //   ") for x in lines)
    assert " ".join(re.sub(r"^\s*//\s*", "", x) for x in lines).split() == ["word"] * 60


def test_conditions_of_a_conjunction_are_not_torn() -> None:
    lines = wrapped("if (" + " && ".join(f"some_index * 1024 + {i} < some_size" for i in range(5)) + ") {")
    assert all(x.count("<") == x.count("some_size") for x in lines)


@pytest.mark.parametrize("text", ["short;", "#define M(x) " + "x + " * 60, "x" * 200, "a + " * 60 + "\\"])
def test_what_is_short_or_the_preprocessors_or_whole_stays(text: str) -> None:
    assert wrapped(text) == [text]


def test_text_in_quotes_is_not_broken() -> None:
    quoted = '"' + "a + b, " * 12 + '"'
    assert any(quoted in x for x in wrapped(f"    call({quoted}, other_argument, yet_another_argument);"))


def test_a_comment_behind_code_goes_above_it() -> None:
    assert wrapped(f"    {'x' * 80};  // {'why ' * 6}") == [f"    // {'why ' * 5}why", f"    {'x' * 80};"]
