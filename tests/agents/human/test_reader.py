"""Answers of a person, from a pipe, a file or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evolve.agents.human.reader import MOST_CHARS, Reader


@pytest.fixture
def pipe() -> Iterator[tuple[Reader, int]]:
    reading, writing = os.pipe()
    yield Reader(reading), writing
    os.close(reading)


def test_an_answer_ends_at_an_empty_line_a_dot_or_the_end(pipe: tuple[Reader, int]) -> None:
    reader, writing = pipe
    assert reader.answer() is None
    os.write(writing, b"\n\nsplit(i, 4)\nbind(i")
    assert reader.answer() is None
    os.write(writing, b".o, grid.x)\r\n\nsplit(i, 8)\n.\n")
    assert reader.answer() == "split(i, 4)\nbind(i.o, grid.x)"
    assert reader.answer() == "split(i, 8)"
    assert reader.answer() is None
    os.write(writing, b"unroll(i)")
    os.close(writing)
    assert reader.answer() == "unroll(i)"
    for _ in range(2):
        with pytest.raises(EOFError):
            reader.answer()


def test_empty_lines_in_a_fenced_block_end_nothing(pipe: tuple[Reader, int]) -> None:
    reader, writing = pipe
    os.write(writing, b"Hypothesis: a\n```\nsplit(i, 4)\n\nunroll(i)\n```\n\nnext")
    os.close(writing)
    assert reader.answer() == "Hypothesis: a\n```\nsplit(i, 4)\n\nunroll(i)\n```"
    assert reader.answer() == "next"


def test_what_is_no_text_or_too_long_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    path.write_bytes(b"\xff\xfe\n" + b"x" * (2 * MOST_CHARS))
    descriptor = os.open(path, os.O_RDONLY)
    reader = Reader(descriptor)
    answer = reader.answer()
    os.close(descriptor)
    assert answer is not None and answer.startswith("\ufffd\ufffd\n") and len(answer) == MOST_CHARS
    with pytest.raises(EOFError):
        Reader(descriptor).answer()
