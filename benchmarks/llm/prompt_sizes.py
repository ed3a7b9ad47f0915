"""How many tokens prompts have, for each kernel of `kernels/` and each tier.

    python -m benchmarks.llm.prompt_sizes --commit $(git rev-parse HEAD) [--server http://127.0.0.1:8080]

Writes `benchmarks/results/prompt-sizes.json` and prints the table of `prompts/README.md`. `first` is the
first prompt of a run, `later` one with every section at its tier's limit (`benchmarks.llm.contexts`), both
with the system's message, counted by the rule of `llm.window`. Each tier is taken at a usual size of
context. With `--server`, a llama.cpp server also counts the same texts with its model's vocabulary: `rule`
says what its count is of the rule's.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.llm.contexts import first_context, later_context
from benchmarks.llm.scored import KERNELS, program_of
from evolve.agents.llm.question import Questions
from evolve.dsl.reference import compact_reference, full_reference
from evolve.llm.prompts import Prompts
from evolve.llm.request import Messages
from evolve.llm.window import Window, tokens

RESULT = Path(__file__).parents[1] / "results" / "prompt-sizes.json"
SIZES = {"least": 2048, "tiny": 4096, "small": 8192, "medium": 32_768, "large": 131_072}
"""The context at which each tier is shown, in tokens, and the least at which all these kernels fit."""


def questions(context: int) -> Questions:
    """The questions to a model with such a context."""
    return Questions(Prompts(), Window(context))


def sizes(name: str) -> dict[str, dict[str, int]]:
    """Tokens of a kernel's prompts, by tier."""
    first, later = first_context(name), later_context(name)
    found = {}
    for tier, context in SIZES.items():
        asking = questions(context)
        found[tier] = {
            "first": asking.window.count(asking.first(first)),
            "later": asking.window.count(asking.first(later)),
        }
    return found


def table(record: Mapping[str, Any]) -> str:
    """The table of the documentation."""
    heads = [f"{tier}, {context}" for tier, context in record["contexts"].items()]
    lines = [f"| kernel | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for name, found in record["kernels"].items():
        cells = [f"{one['first']} to {one['later']}" for one in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compared(server: str) -> dict[str, float]:
    """The server's count of tokens over the rule's: of texts of each kind, and the most that any whole prompt
    of the table takes in the model's own template."""
    texts = {
        "compact reference": compact_reference(),
        "full reference": full_reference(),
        "programs": "".join(program_of(path.stem) for path in sorted(KERNELS.glob("*.cu"))),
    }
    shares = {name: _count(server, text) / tokens(text) for name, text in texts.items()}
    whole = [_share(server, *one) for path in sorted(KERNELS.glob("*.cu")) for one in _prompts(path.stem)]
    shares |= {"prompts, least": min(whole), "prompts, most": max(whole)}
    return {name: round(share, 3) for name, share in shares.items()}


def _prompts(name: str) -> Iterator[tuple[Window, Messages]]:
    for context in SIZES.values():
        asking = questions(context)
        for told in (first_context(name), later_context(name)):
            yield asking.window, asking.first(told)


def _share(server: str, window: Window, messages: Messages) -> float:
    text = _post(server, "/apply-template", {"messages": messages})["prompt"]
    return _count(server, text) / window.count(messages)


def _count(server: str, text: str) -> int:
    return len(_post(server, "/tokenize", {"content": text, "parse_special": True})["tokens"])


def _post(server: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        server + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as page:
        return json.load(page)


def main() -> None:
    """Writes the file and prints the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commit", required=True)
    options.add_argument("--server")
    options.add_argument("--vocabulary", default="", help="whose vocabulary the server has")
    options.add_argument("--out", type=Path, default=RESULT)
    args = options.parse_args()
    record: dict[str, Any] = {
        "command": "python -m benchmarks.llm.prompt_sizes",
        "date": time.strftime("%Y-%m-%d"),
        "commit": args.commit,
        "contexts": SIZES,
        "kernels": {path.stem: sizes(path.stem) for path in sorted(KERNELS.glob("*.cu"))},
    }
    if args.server:
        record["rule"] = {"vocabulary": args.vocabulary} | compared(args.server)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record))


if __name__ == "__main__":
    main()
