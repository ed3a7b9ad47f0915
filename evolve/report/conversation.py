"""What was said to a model, for people: `evolve show --prompts`, and the ledger's lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolve.llm.effects import calibration


def conversation_text(exchanges: Sequence[Mapping[str, Any]]) -> str:
    """All exchanges. What every prompt begins with is shown once."""
    if not exchanges:
        return "no model was asked in this run"
    lines: list[str] = []
    shown: list[Any] = []
    stepped = {one["ask"] for one in exchanges if one["step"] and not _is_repair(one)}
    for one in exchanges:
        for_what = "asked for one statement" if one["ask"] in stepped else "asked for programs"
        for_what = "sent back what was refused" if _is_repair(one) else for_what
        lines += [f"==== ask {one['ask']}, {one['model']}: {for_what}", ""]
        for message in one["prompt"]:
            if message in shown:
                lines += [f"---- {message['role']}: as before", ""]
            else:
                lines += [f"---- {message['role']}", message["content"].rstrip(), ""]
                shown.append(message)
        if one["answer"] is None:
            lines += [f"---- no answer: {one['fault']}: {one['message']}", ""]
        else:
            cut = ", cut off" if one["cut"] else ""
            lines += [f"---- answer ({_cost(one)}{cut})", one["answer"].rstrip(), ""]
            shown.append({"role": "assistant", "content": one["answer"]})
    return "\n".join(lines)


def _is_repair(one: Mapping[str, Any]) -> bool:
    return any(message["role"] == "assistant" for message in one["prompt"])


def _cost(one: Mapping[str, Any]) -> str:
    tokens = f", {_count(one['prompt_tokens'])} tokens in, {_count(one['completion_tokens'])} out"
    return f"{one['seconds']:.1f} s{tokens}"


def ledger_lines(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was asked of each model, what came back and what it took."""
    return [_ledger_line(one) for one in models]


def _ledger_line(one: Mapping[str, Any]) -> str:
    cached = f" ({one['cached_tokens']} cached)" if one["cached_tokens"] else ""
    faults = ", ".join(f"{count} {kind}" for kind, count in one["faults"].items())
    lost = f"; no answer: {faults}" if faults else ""
    tokens = f"{_count(one['prompt_tokens'])} tokens in{cached}, {_count(one['completion_tokens'])} out"
    tokens += f" and at most {one['counted']} not told" if one.get("counted") else ""
    price = "price unknown" if one.get("usd") is None else f"{one['usd']:.4f} USD"
    half = one.get("median_answer_s")
    slow = "" if half is None else f"half of them within {half:.1f} s, "
    answers = f"{one['answered']} answers to {one['requests']} requests, {slow}{one['seconds']:.1f} s in all"
    return f"{one['model']}: {answers}, {tokens}, {price}{lost}"


def effect_lines(effects: Sequence[Mapping[str, Any]]) -> list[str]:
    """How what was expected of programs and what came of it compare."""
    pairs = [(one["expected_factor"], one["actual_factor"]) for one in effects]
    said = calibration([(want, got) for want, got in pairs if want and got])
    return [f"expectations: {said}"] if said else []


def probed_lines(probes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What models and their servers were found to be."""
    return [_probed_line(one) for one in probes]


def _probed_line(one: Mapping[str, Any]) -> str:
    keeps = [name for name, kept in (("a grammar", one["grammar"]), ("a schema", one["schema_kept"])) if kept]
    return (
        f"{one['model']}: context {one['context']} tokens ({one['context_from']}); answers are held to "
        f"{' or '.join(keeps) or 'no form'}"
    )


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)
