"""The agents of a run's models, each tried before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evolve.agents.llm.agent import LlmAgent
from evolve.agents.portfolio.arms import Arm
from evolve.events.schema import Settings
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.client import Client
from evolve.llm.model import read_model
from evolve.llm.probe import probe
from evolve.llm.prompts import Prompts
from evolve.llm.window import ASSUMED, Window


def open_agents(
    settings: Settings, arms: Sequence[Arm], prompts: Mapping[str, str], *, needed: bool
) -> tuple[dict[str, LlmAgent], list[str]]:
    """An agent for each arm, once its model was tried with a first request; and what is wrong with those that
    did not answer.

    Raises EvolveError: what `read_model`, `Client` and `Prompts` raise, and where they are `needed`, nobody
    else being there, `model-failed` if of none the server, the key and the model are what they should be.
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
    """The agent of a model, and why it is of no use now, if it is."""
    try:
        found = probe(client, settings.context)
    except NegativeAnswerError as failed:
        window = Window(settings.context or ASSUMED, settings.answer_tokens)
        return LlmAgent(client, client.model.text, templates, window=window, answers=settings.answers), failed
    window = Window(found.context, settings.answer_tokens, found.scale)
    made = LlmAgent(
        client, client.model.text, templates, window=window, probe=found, answers=settings.answers
    )
    return made, None
