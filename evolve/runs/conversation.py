"""What was said to a model in a run and what it cost: folds over `exchanged` events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolve.events.blobs import BlobStore
from evolve.events.log import read_log
from evolve.events.schema import Asked, Event, Exchanged, Idea, Proposed
from evolve.ir.errors import EvolveError
from evolve.llm.answers import read_answer, read_step
from evolve.runs.folder import RunFolder


def ledger(exchanges: Iterable[Exchanged]) -> list[dict[str, Any]]:
    """One entry a model, a person being none: requests, faults by kind, tokens, seconds.

    A sum of tokens is None where no answer told any, `usd` None where no price is known. `counted` tokens are
    those that no server told, by the rule, at most.
    """
    models: dict[str, list[Exchanged]] = {}
    for one in (one for one in exchanges if one.model != "human"):
        models.setdefault(one.model, []).append(one)
    return [_entry(model, said) for model, said in models.items()]


def _entry(model: str, said: Sequence[Exchanged]) -> dict[str, Any]:
    faults: dict[str, int] = {}
    for one in said:
        if one.fault:
            faults[one.fault] = faults.get(one.fault, 0) + 1
    answered = sorted(one.seconds for one in said if one.answer is not None)
    return {
        "model": model,
        "requests": len(said),
        "answered": len(answered),
        "faults": faults,
        "prompt_tokens": _sum(one.prompt_tokens for one in said),
        "completion_tokens": _sum(one.completion_tokens for one in said),
        "cached_tokens": _sum(one.cached_tokens for one in said),
        "seconds": round(sum(one.seconds for one in said), 3),
        "median_answer_s": answered[len(answered) // 2] if answered else None,
        "counted": sum(one.counted for one in said),
        "usd": None
        if all(one.usd is None for one in said)
        else round(sum(one.usd or 0.0 for one in said), 6),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def conversation(folder: RunFolder) -> list[dict[str, Any]]:
    """Every exchange in order: the event, with its prompt as messages and its answer as text.

    Raises EvolveError as `read_log` does, and `damaged-blob`.
    """
    return [
        one.model_dump(mode="json", exclude={"kind"})
        | {"prompt": _messages(folder.blobs, one.prompt)}
        | {"answer": None if one.answer is None else folder.blobs.get(one.answer)}
        for one in (event.body for event in read_log(folder.log).events)
        if isinstance(one, Exchanged)
    ]


def _messages(blobs: BlobStore, digest: str) -> list[dict[str, str]]:
    try:
        return [{"role": str(m["role"]), "content": str(m["content"])} for m in json.loads(blobs.get(digest))]
    except (ValueError, TypeError, KeyError) as cause:
        raise EvolveError(
            "damaged-blob", "a prompt is no list of messages", file=str(blobs.path(digest))
        ) from cause


def check_answers(events: Iterable[Event], blobs: BlobStore) -> None:
    """Reads recorded answers again: each program that a model or a person is said to have offered must stand
    in one, or be made of the statements that one answer each picks, after those of its parent.

    Raises EvolveError `diverged`, naming the ask, and `damaged-blob`.
    """
    said: dict[int, list[str]] = {}
    programs: dict[int, str] = {}
    for body in (event.body for event in events):
        if isinstance(body, Exchanged) and body.answer is not None:
            said.setdefault(body.ask, []).append(body.answer)
        elif isinstance(body, Proposed):
            programs[body.proposal] = body.program
        elif isinstance(body, Asked) and body.ask in said:
            answers = [blobs.get(blob) for blob in said[body.ask]]
            read = {draft.program for answer in answers for draft in read_answer(answer)}
            made = [idea for idea in body.ideas if idea.operator in ("llm", "human")]
            if any(idea.program not in read and not _stepped(idea, answers, programs) for idea in made):
                message = f"ask {body.ask} has a program that is in none of the recorded answers"
                raise EvolveError(
                    "diverged", message, hint="another version of evolve made this run, or its log was edited"
                )


def _stepped(idea: Idea, answers: Sequence[str], programs: Mapping[int, str]) -> bool:
    """Whether a program is its parent's with statements that these answers pick, in their order."""
    begun = programs.get(idea.parents[0], "").strip() if idea.parents else ""
    added = idea.program.removeprefix(begun).split("\n")
    picked = map(read_step, answers)
    return any(added) and all(line in picked for line in added if line)
