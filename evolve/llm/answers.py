"""Lenient reading of what a model says: programs with a line about each, whatever stands around them.

Three forms are read, the first that holds a program: JSON (alone, fenced or within prose), fenced blocks,
and plain lines that look like statements. What comes out is text for the parser of the language, which
is strict; nothing a model says does more than that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evolve.dsl.grammar import DONE
from evolve.dsl.parser import parse_statement
from evolve.ir.errors import EvolveError

MOST_DRAFTS = 8
"""Of one answer; further ones are not looked at."""
_MOST_BYTES = 64 * 1024
_MOST_NOTE = 300
_MOST_LINE = 1000
_MOST_OPENINGS = 2000
_OPENING = re.compile(r"[\[{]")

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(```|~~~)[`~]*([^`~]*)")
_STATEMENT = re.compile(
    r"(?:[A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_][\w.]*)*\s*=\s*)?[A-Za-z_]\w*\(.*\)\s*+(?:;\s*+)?(?:#.*)?"
)
_BETWEEN = re.compile(r"(?<=\));\s*(?=[A-Za-z_])")
"""Between two statements on one line."""
_ASIDE = re.compile(r"^//.*|(?<=[);])\s*//[^()]*$")
"""A comment as C++ has it; `//` in an expression is a quotient."""
_BULLET = re.compile(r"^\s*(?:\d+[.)]|[-*>])\s+")
_SAYS = re.compile(
    r"^[\s#/*>_-]*(hypothesis|idea|expected(?: effect)?|effect)[*_]*\s*[:=-]\s*[*_]*\s*(.*)$", re.IGNORECASE
)
_PROGRAM_KEYS = ("program", "code", "dsl", "statements", "transform", "text")
_LIST_KEYS = ("programs", "candidates", "proposals", "answers", "results")
_HYPOTHESIS_KEYS = ("hypothesis", "idea", "note", "reason", "rationale", "why")
_EFFECT_KEYS = ("expected", "expected_effect", "effect")


@dataclass(frozen=True)
class Draft:
    """A program as a model wrote it, not parsed yet, with its hypothesis and the effect it expects."""

    program: str
    hypothesis: str = ""
    expected: str = ""

    @property
    def note(self) -> str:
        """Both, in a line."""
        effect = f" Expected: {self.expected}" if self.expected else ""
        return f"{self.hypothesis}{effect}".strip()


def read_answer(text: str) -> tuple[Draft, ...]:
    """The programs of an answer in its order, different ones, at most 8; none where there are none."""
    said = _THOUGHT.sub("", text).rpartition("</think>")[2].replace("\r\n", "\n")
    for form in (_from_json, _from_fences, _from_lines):
        found = {draft.program: draft for draft in map(_tidy, form(said)) if draft.program.strip()}
        if found:
            return tuple(found.values())[:MOST_DRAFTS]
    return ()


def read_step(text: str) -> str:
    """The one statement that an answer picks, in its canonical spelling, or `done`; "" where it says neither.

    The first statement counts, in JSON the `move`; the word `done` counts alone on a line.
    """
    said = _THOUGHT.sub("", text).rpartition("</think>")[2]
    for value in _values(said):
        if isinstance(value, dict) and isinstance(value.get("move"), str):
            said = value["move"]
            break
    for line in map(_line, said.splitlines()):
        if line.strip("*. ").lower() == DONE:
            return DONE
        if _is_statement(line):
            return _canonical(line)
    return ""


def _canonical(line: str) -> str:
    try:
        return str(parse_statement(line))
    except EvolveError:
        return line


def _tidy(draft: Draft) -> Draft:
    """Within limits, lines as the parser reads them."""
    raws = (part for raw in draft.program[:_MOST_BYTES].splitlines() for part in _BETWEEN.split(raw))
    lines = (_line(raw) for raw in raws)
    program = "".join(f"{line}\n" for line in lines if line)
    return Draft(program, _plain(draft.hypothesis), _plain(draft.expected))


def _line(raw: str) -> str:
    """A line without what models put around statements: numbering, ticks, a semicolon, comments."""
    line = _BULLET.sub("", raw.strip()).strip("`").strip()
    return _ASIDE.sub("", line.split("#", 1)[0]).strip().rstrip(";").rstrip()


def _plain(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.strip("*_` ").split())[:_MOST_NOTE]


# ---- JSON


def _from_json(text: str) -> Iterator[Draft]:
    for value in _values(text):
        yield from _drafts(value)


def _values(text: str) -> Iterator[Any]:
    """Every JSON object or list that stands in the text, outermost ones only."""
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(_MOST_OPENINGS):
        found = _OPENING.search(text, at)
        if found is None:
            return
        try:
            value, at = decoder.raw_decode(text, found.start())
            yield value
        except (ValueError, RecursionError):
            at = found.end()


def _drafts(value: Any) -> Iterator[Draft]:
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                yield from _drafts(one)
    elif isinstance(value, dict):
        program = _program(_first(value, _PROGRAM_KEYS))
        if program:
            hypothesis, expected = (_first(value, keys) for keys in (_HYPOTHESIS_KEYS, _EFFECT_KEYS))
            yield Draft(program, _text(hypothesis), _effect(expected))
        inner = _first(value, _LIST_KEYS)
        if isinstance(inner, list | dict):
            yield from _drafts(inner)
            yield from (
                Draft(_program(one)) for one in inner if isinstance(one, str | list) and _program(one)
            )


def _first(value: dict[str, Any], keys: Sequence[str]) -> Any:
    lowered = {str(key).lower(): item for key, item in value.items()}
    return next((lowered[key] for key in keys if key in lowered), None)


def _program(value: Any) -> str:
    """A program given as a text, possibly fenced, or as a list of lines."""
    if isinstance(value, list):
        value = "\n".join(line for line in value if isinstance(line, str))
    if not isinstance(value, str):
        return ""
    return next(("\n".join(body) for _, body in _blocks(value)), value)


def _effect(value: Any) -> str:
    """An effect as text; a number alone is a factor."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}x" if number else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ---- fences and plain lines


def _from_fences(text: str) -> Iterator[Draft]:
    for before, body in _blocks(text):
        if any(_is_statement(_line(raw)) for raw in body):
            said = _said(before) | _said(body)
            kept = [raw for raw in body if _SAYS.match(raw) is None]
            yield Draft("\n".join(kept), said.get("hypothesis") or _last(before), said.get("expected", ""))


def _blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Fenced blocks: the lines since the block before, and those inside. The last one need not be closed, and
    of an answer that was cut off in a statement that line is left out."""
    before: list[str] = []
    body: list[str] = []
    fence = ""
    for raw in text.splitlines():
        found = _FENCE.fullmatch(raw) if len(raw) <= _MOST_LINE else None
        if fence and found is not None and found[1] == fence and not found[2].strip():
            yield before, body
            before, body, fence = [], [], ""
        elif not fence and found is not None:
            fence = found[1]
        else:
            (body if fence else before).append(raw)
    if fence:
        yield before, body if not body or _is_statement(_line(body[-1])) else body[:-1]


def _from_lines(text: str) -> Iterator[Draft]:
    """Runs of lines that are statements; an empty line ends a run only if something else follows it."""
    before: list[str] = []
    run: list[str] = []
    for raw in [*text.splitlines(), "."]:
        line = _line(raw)
        if _is_statement(line):
            run.append(line)
        elif run and (not raw.strip() or raw.lstrip().startswith("#")) and not _SAYS.match(raw):
            continue
        elif run:
            said = _said(before)
            hypothesis = said.get("hypothesis") or _last(before)
            yield Draft("\n".join(run), hypothesis, said.get("expected", ""))
            before, run = [raw], []
        else:
            before.append(raw)


def _is_statement(line: str) -> bool:
    return len(line) <= _MOST_LINE and _STATEMENT.fullmatch(line) is not None


def _said(lines: Sequence[str]) -> dict[str, str]:
    """What lines such as `Hypothesis: …` and `Expected: …` say; the last of each counts."""
    found: dict[str, str] = {}
    for line in lines:
        said = _SAYS.match(line[:_MOST_LINE])
        if said is not None:
            kind = "hypothesis" if said[1].lower() in ("hypothesis", "idea") else "expected"
            found[kind] = said[2]
    return found


def _last(lines: Sequence[str]) -> str:
    """The last line that says something."""
    said = (line.strip(" #*>-:") for line in reversed(lines))
    return next((line for line in said if len(line) > 3), "")
