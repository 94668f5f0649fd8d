"""Agents of other runs, as the options --load-agent, --agent and --freeze name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from abreast.errors import ConfigError, short
from abreast.settings import merge
from abreast.training.config import agent_number
from abreast.training.moved import AgentOf, agent_settings


def parse_agents(texts: Iterable[str], option: str) -> dict[int, str]:
    """What `2=RUN:4` and others like it say: agents, and where each comes from."""
    found: dict[int, str] = {}
    for text in texts:
        number, equals, source = text.partition("=")
        agent = agent_number(number)
        if agent is None or not equals or not source:
            raise ConfigError(
                f"{option} {short(text)} is not of the form NUMBER=RUN or NUMBER=RUN:NUMBER, say {option} 2=runs/x:4."
            )
        if agent in found:
            raise ConfigError(
                f"{option} is given twice for agent {agent}, {short(found[agent])} and {short(source)}: give one of them."
            )
        found[agent] = source
    return found


def parse_numbers(text: str, option: str) -> list[int]:
    """The agents that `0,3` names."""
    found = [agent_number(part.strip()) for part in text.split(",")]
    numbers = [number for number in found if number is not None]
    if len(numbers) < len(found):
        raise ConfigError(f"{option} {short(text)} is no list of agents: expected numbers, say {option} 0,3.")
    return numbers


def with_agents(values: Mapping[str, Any], sources: Mapping[int, str]) -> dict[str, Any]:
    """Sections of a configuration, in which some agents are those of other runs, with the settings they have there."""
    agents = {agent: agent_settings(source, agent) for agent, source in sources.items()}
    if not agents:
        return dict(values)
    model = values.get("model")
    others = model.get("per_agent") if isinstance(model, Mapping) else None
    if isinstance(others, Mapping):  # nothing of an agent that is replaced stays
        kept = {key: own for key, own in others.items() if agent_number(key) not in agents}
        values = {**values, "model": {**model, "per_agent": kept}}  # type: ignore[dict-item]
    return merge(values, {"experiment": {"load_agents": sources}, "model": {"per_agent": agents}})


def check_algorithms(values: Mapping[str, Any], sources: Mapping[int, str]) -> None:
    """Refuse another algorithm for an agent than that of the run it comes from, before its settings are found unknown."""
    model = values.get("model")
    given = model.get("per_agent") if isinstance(model, Mapping) else None
    for key, own in given.items() if isinstance(given, Mapping) else ():
        agent = agent_number(key)
        if agent is not None and agent in sources and isinstance(own, Mapping) and "algorithm" in own:
            algorithm = agent_settings(sources[agent], agent)["algorithm"]
            if own["algorithm"] != algorithm:
                raise ConfigError(
                    f"model.per_agent.{agent}.algorithm is {short(own['algorithm'])}, but agent {agent} is loaded from"
                    f" {AgentOf.parse(sources[agent], agent)}, whose algorithm is {algorithm!r}: leave it out."
                )
