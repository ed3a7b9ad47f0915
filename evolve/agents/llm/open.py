"""An agent from a run's settings, tried before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping

from evolve.agents.llm.agent import LlmAgent
from evolve.events.schema import Settings
from evolve.llm.client import Client
from evolve.llm.model import read_model
from evolve.llm.probe import probe
from evolve.llm.prompts import Prompts
from evolve.llm.window import Window


def open_agent(settings: Settings, prompts: Mapping[str, str]) -> LlmAgent:
    """The agent, once its model has answered a first request.

    Raises EvolveError: what `read_model`, `Client` and `Prompts` raise, and `model-failed` if the server,
    the key or the model is not what it should be.
    """
    model = read_model(settings.model, settings.api_base)
    templates = Prompts(prompts)
    client = Client(model, settings.model_timeout_s, settings.answer_tokens)
    try:
        found = probe(client, settings.context)
    except BaseException:
        client.close()
        raise
    window = Window(found.context, settings.answer_tokens, found.scale)
    return LlmAgent(client, model.text, templates, window=window, probe=found)
