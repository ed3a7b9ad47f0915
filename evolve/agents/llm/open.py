"""An agent from a run's settings, tried before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping

from evolve.agents.llm.agent import LlmAgent
from evolve.events.schema import Settings
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.client import Client
from evolve.llm.faults import AGAIN, Fault
from evolve.llm.model import read_model
from evolve.llm.patience import Patience
from evolve.llm.prompts import Prompts
from evolve.llm.request import Request

_HELLO = Request([{"role": "user", "content": "Answer with the one word: ready"}])
_USABLE = frozenset(("empty", "refusal"))
"""What a model may say to that and still be of use."""
_TRIES = Patience(attempts=3, first_s=0.5, most_s=5.0)


def open_agent(settings: Settings, prompts: Mapping[str, str]) -> LlmAgent:
    """The agent, once its model has answered a first request.

    Raises EvolveError: what `read_model`, `Client` and `Prompts` raise, and `model-failed` if the server,
    the key or the model is not what it should be.
    """
    model = read_model(settings.model, settings.api_base)
    templates = Prompts(prompts)
    client = Client(model, settings.model_timeout_s, settings.answer_tokens)
    try:
        _try(client)
    except BaseException:
        client.close()
        raise
    return LlmAgent(client, model.text, templates)


def _try(client: Client) -> None:
    def ask() -> object:
        try:
            return client.ask(_HELLO)
        except Fault as fault:
            if fault.kind in _USABLE:
                return None
            raise

    try:
        _TRIES.ask(ask)
    except Fault as fault:
        where = client.model.api_base or "its own server"
        message = f"{client.model.text} at {where} does not answer: {fault.kind}: {fault.message}"
        hint = fault.hint or ("try again later" if fault.kind in AGAIN else None)
        raise NegativeAnswerError("model-failed", message, hint=hint) from None
