"""Grammars that hold a model's answer to the language: GBNF, as llama.cpp and others read it.

`grammar.lark` is what the parser takes, from anybody; here is what one kernel's programs look like in
canonical text, made from the signatures of `dsl_spec/` and the names of the kernel. Every rule is
right-recursive or a bounded repetition, and a whole answer is finite, so that no model talks for ever. Not
covered, though the parser takes it: spellings that are not canonical, brackets within conditions, and holes
for words and in lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evolve.dsl.registry import Parameter, Primitive, statements
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, For
from evolve.ir.visit import walk

DONE = "done"
"""What ends a program that is made statement by statement."""
_MADE_LOOPS = (
    "o",
    "i",
    "init",
    "all",
    "part",
    "scale",
    "next",
    "copy",
    "first",
    "main",
    "last",
    "at",
    "back",
)
_MADE_BUFFERS = ("s", "r", "p", "part", "at", "old", "ask", "before", "sum")
"""What names that transforms give end in."""
_PLACES = "abcd"
_STEMS = ("t", "u", "v", "new", "made")
_HEAD, _TAIL = r'"Hypothesis: " note "\nExpected: " note "\n```\n"', r'"```\n"'
_DEEPEST = 6
_LONGEST_LIST = 16
_MOST_CHOICES = 4
_MOST_TERMS = 4
_MOST_DIGITS = 6
_MOST_NOTE = 120


@dataclass(frozen=True)
class Vocabulary:
    """What a kernel's programs can name: its loops, its buffers and its scalars."""

    loops: tuple[str, ...]
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]


def vocabulary(kernel: Kernel) -> Vocabulary:
    """The names of a kernel, in textual order."""
    inside = [s.stmt for s in walk(kernel.body)]
    loops = tuple(s.var for s in inside if isinstance(s, For))
    own = tuple(s.buffer.name for s in inside if isinstance(s, Alloc))
    arrays = tuple(b.name for b in kernel.buffers)
    return Vocabulary(loops, arrays + own, tuple(s.name for s in kernel.scalars))


def step_grammar(said: Sequence[str]) -> str:
    """One of these texts: statements, and `done` where a program may end."""
    return f"root ::= {_one_of(said)}\n"


def answer_grammar(words: Vocabulary, most_programs: int, most_statements: int) -> str:
    """Whole answers in the form that prompts ask for: `Hypothesis:`, `Expected:`, a program between fences.

    A program has at most that many statements. Its names are the kernel's, those that transforms make of
    them, and `results` for what its own statements give; its numbers have at most six digits, in conditions
    nine. Notes have no brackets and ticks, so that nothing in them looks like a program.
    """
    rules = {
        "root": f"answer{_times(1, most_programs)}",
        "answer": f"{_HEAD} line{_times(1, most_statements)} {_TAIL}",
        "note": f"[A-Za-z0-9] [ -Z_a-z]{_times(0, _MOST_NOTE)}",
        "line": r'statement "\n"',
        "statement": " | ".join(map(_rule_name, statements())),
        **dict(_names(words)),
        **dict(_conditions(words)),
        **{_rule_name(name): _statement(one) for name, one in statements().items()},
    }
    for least in sorted({_least(p) for one in statements().values() for p in one.parameters}):
        one = f"int-{least}"
        rules[one] = " | ".join(_at_least(least))
        rules[f"number-{least}"] = f'{one} | "?[" {one} (", " {one}){_times(0, _MOST_CHOICES - 1)} "]"'
        rules[f"list-{least}"] = f'"[" {one} (", " {one}){_times(0, _MOST_TERMS - 1)} "]"'
    return "".join(f"{name} ::= {rule}\n" for name, rule in rules.items())


def results(words: Vocabulary) -> str:
    """What the names of results begin with, before a number and a letter: `t` in `t1a, t1b = split(c, 4)`."""
    taken = {name for kind in (words.loops, words.buffers, words.scalars) for name in kind}
    return next(stem for stem in _STEMS if not any(_is_result(stem, n) for n in taken))


def _is_result(stem: str, name: str) -> bool:
    return re.fullmatch(rf"{stem}\d+[{_PLACES}]", name) is not None


def _names(words: Vocabulary) -> Iterator[tuple[str, str]]:
    stem = results(words)
    for place in _PLACES:  # a letter for each: no two results of a statement have one name
        yield f"result-{place}", f'"{stem}" [1-9] [0-9]? "{place}"'
    yield "result", " | ".join(f"result-{place}" for place in _PLACES)
    again = '("_" [1-9] [0-9]?)?'
    yield "loop-made", f'"." ({_one_of(_MADE_LOOPS)} | [0-9] [0-9]?) {again}'
    yield "buffer-made", f'"_" ({_one_of(_MADE_BUFFERS)} | [2-9])'
    yield "buffer", f"({_one_of(words.buffers)} | result) buffer-made{_times(0, 2)}"
    loops = f"{_one_of(words.loops)} | " if words.loops else ""
    yield "loop", f"({loops}result | buffer) loop-made{_times(0, _DEEPEST)}"
    yield "loops", f'loop | "[" loop (", " loop){_times(0, _LONGEST_LIST - 1)} "]"'


def _conditions(words: Vocabulary) -> Iterator[tuple[str, str]]:
    scalar = f"({_one_of(words.scalars)})" if words.scalars else "size"
    yield "size", f"[1-9] [0-9]{_times(0, 8)}"
    yield "term", f'{scalar} (" " ("%" | "//" | "+" | "-" | "*") " " size)?'
    yield "comparison", f'term " " ("==" | "!=" | "<=" | ">=" | "<" | ">") " " ("0" | size | {scalar})'
    yield "condition", f'comparison (" and " comparison){_times(0, _MOST_TERMS - 1)}'


def _statement(one: Primitive) -> str:
    """A call in canonical text: positional arguments, then the others in the order of the signature."""
    call = ' ", " '.join(_argument(p) for p in one.parameters if p.is_positional)
    for p in (p for p in one.parameters if not p.is_positional):
        given = f'", {p.name}=" {_argument(p)}'
        call += f" {given}" if p.is_required else f" ({given})?"
    return f'{_targets(*one.results)}"{one.name}(" {call} ")"'


def _targets(least: int, most: int) -> str:
    """Names for results; none are needed."""
    names = [f"result-{place}" for place in _PLACES[:most]]
    if not names:
        return ""
    more = ""
    for name in reversed(names[max(least, 1) :]):
        more = f' (", " {name}{more})?'
    return "(" + ' ", " '.join(names[: max(least, 1)]) + more + ' " = ")? '


def _argument(p: Parameter) -> str:
    match p.type:
        case "int":
            return f"number-{_least(p)}"
        case "ints":
            return f"list-{_least(p)}"
        case "choice":
            return f"({_one_of(c for c in p.choices if c != p.default)})"
        case _:
            return p.type


def _least(p: Parameter) -> int:
    return int(p.minimum or 0)


def _at_least(least: int) -> Iterator[str]:
    """Whole numbers of at most `_MOST_DIGITS` digits, without zeros before them."""
    text = str(least)
    yield json.dumps(text)
    if not least:
        yield from _at_least(1)
        return
    for place, digit in enumerate(text):
        if digit != "9":
            rest = len(text) - place - 1
            yield f'"{text[:place]}" [{int(digit) + 1}-9]' + " [0-9]" * rest
    yield f"[1-9] [0-9]{_times(len(text), _MOST_DIGITS - 1)}"


def _times(least: int, most: int) -> str:
    return f"{{{least},{most}}}"


def _rule_name(primitive: str) -> str:
    """GBNF's rule names have no underscores."""
    return f"do-{primitive.replace('_', '-')}"


def _one_of(texts: Iterable[str]) -> str:
    return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
