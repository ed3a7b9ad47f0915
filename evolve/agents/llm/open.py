"""The agents of a run's models, each tried before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from evolve.agents.llm.agent import LlmAgent
from evolve.agents.portfolio.arms import Arm
from evolve.events.schema import Settings
from evolve.ir.errors import EvolveError, NegativeAnswerError
from evolve.llm.client import Client
from evolve.llm.faults import Fault
from evolve.llm.model import read_model
from evolve.llm.probe import probe
from evolve.llm.prompts import Prompts
from evolve.llm.purse import Price, read_price
from evolve.llm.window import ASSUMED, Window


def open_agents(
    settings: Settings, arms: Sequence[Arm], prompts: Mapping[str, str], *, needed: bool
) -> tuple[dict[str, LlmAgent], list[str]]:
    """An agent for each arm, once its model was tried with a first request; and what is wrong with those that
    did not answer.

    Raises EvolveError: what `read_model`, `Client` and `Prompts` raise, `no-price` where `--max-usd` could
    not hold, and where they are `needed`, nobody else being there, `model-failed` if of none the server, the
    key and the model are what they should be.
    """
    models = [read_model(arm.model, arm.api_base) for arm in arms]
    templates = Prompts(prompts)
    clients = Client.several(models, settings.model_timeout_s, settings.answer_tokens)
    try:
        found = {
            arm.name: _agent(client, settings, templates) for arm, client in zip(arms, clients, strict=True)
        }
        failed = [why for _, why in found.values() if why is not None]
        if needed and len(failed) == len(clients):
            raise failed[0]
    except BaseException:
        for client in clients:
            client.close()
        raise
    return {name: agent for name, (agent, _) in found.items()}, [str(one) for one in failed]


def _agent(
    client: Client, settings: Settings, templates: Prompts
) -> tuple[LlmAgent, NegativeAnswerError | None]:
    """The agent of a model, and why it is of no use now, if it is. Raises EvolveError `no-price`."""
    told: dict[str, Any] = {"answers": settings.answers, "price": _price(client, settings)}
    try:
        found = probe(client, settings.context)
    except NegativeAnswerError as failed:
        window = Window(settings.context or ASSUMED, settings.answer_tokens)
        return LlmAgent(client, client.model.text, templates, window=window, **told), failed
    window = Window(found.context, settings.answer_tokens, found.scale)
    return LlmAgent(client, client.model.text, templates, window=window, probe=found, **told), None


def _price(client: Client, settings: Settings) -> Price | None:
    """What the model costs, if that is known. Raises EvolveError `no-price` where a limit has to hold."""
    try:
        price = read_price(client.about())
    except Fault:  # which the first request will have too
        return None
    if price is None and settings.max_usd is not None:
        message = f"--max-usd cannot hold: no price of {client.model.text} is known"
        hint = "--max-tokens holds for any model; prices are those of litellm's table"
        hint += "" if find_spec("litellm") else ", which 'evolve[llm]' installs"
        raise EvolveError("no-price", message, hint=hint)
    return price
