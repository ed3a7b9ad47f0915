"""What an answer cost and how long it may be, by the table that litellm brings along.

The table is read without importing litellm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evolve.llm.protocols.reply import count

_TABLE = "model_prices_and_context_window_backup.json"
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")

_ALSO = ("_chat", "_converse")


def usd(model: str, counts: Mapping[str, Any]) -> float | None:
    """The price in USD of an answer of `provider/name`; None where no price or no count is known."""
    prompt, completion, entry = counts.get("prompt_tokens"), counts.get("completion_tokens"), _entry(model)
    if prompt is None or completion is None:
        return None
    tier = max((int(n) for n in map(_above, entry) if n and prompt > 1000 * int(n)), default=None)
    suffix = "" if tier is None else f"_above_{tier}k_tokens"

    def price(name: str) -> float | None:
        found = entry.get(name + suffix, entry.get(name))
        return float(found) if isinstance(found, int | float) else None

    fresh, answer = price("input_cost_per_token"), price("output_cost_per_token")
    if fresh is None or answer is None:
        return None
    read, written = counts.get("cached_tokens") or 0, counts.get("written_tokens") or 0
    cached, kept = price("cache_read_input_token_cost"), price("cache_creation_input_token_cost")
    cost: float = (
        max(prompt - read - written, 0) * fresh
        + read * (fresh if cached is None else cached)
        + written * (fresh if kept is None else kept)
        + completion * answer
    )
    return cost


def limits(model: str) -> dict[str, float | None]:
    """Of `provider/name` `max_input_tokens` and `max_output_tokens`, and what a token costs in USD at most,
    `usd_a_prompt_token` and `usd_a_completion_token`; None where they are not known."""
    entry = _entry(model)
    known: dict[str, float | None] = {
        name: count(entry.get(name)) for name in ("max_input_tokens", "max_output_tokens")
    }
    known["usd_a_prompt_token"] = _dearest(entry, "input_cost_per_token", "cache_creation_input_token_cost")
    known["usd_a_completion_token"] = _dearest(entry, "output_cost_per_token")
    return known


def _dearest(entry: Mapping[str, Any], first: str, *others: str) -> float | None:
    """The highest price by any of these names, for any length of a prompt; None where the first has none."""
    if not isinstance(entry.get(first), int | float):
        return None
    kinds = re.compile(f"(?:{'|'.join((first, *others))})(?:_above_[0-9]+k_tokens)?")
    return max(float(v) for k, v in entry.items() if kinds.fullmatch(k) and isinstance(v, int | float))


def _entry(model: str) -> Mapping[str, Any]:
    """The table has some models by their bare names; another provider's of the same name is another model."""
    table, (provider, _, name) = _table(), model.partition("/")
    entry, bare = table.get(model), table.get(name)
    if isinstance(entry, dict):
        return entry
    return bare if isinstance(bare, dict) and _is_of(provider, bare.get("litellm_provider")) else {}


def _is_of(provider: str, told: Any) -> bool:
    """Some providers have several names in the table: `vertex_ai-language-models`, `bedrock_converse`."""
    names = (provider, *(provider + ending for ending in _ALSO))
    return isinstance(told, str) and (told in names or told.startswith(f"{provider}-"))


def _above(name: str) -> str | None:
    found = _ABOVE.fullmatch(name)
    return found[1] if found else None


@cache
def _table() -> Mapping[str, Any]:
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            table = json.loads((Path(folder) / _TABLE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(table, dict):
            return table
    return {}
