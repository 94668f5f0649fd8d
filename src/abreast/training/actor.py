"""Collecting: play epochs and remember them. The sequential and the parallel run both call this.

Several copies of an environment can be played side by side, one in each lane: L lanes play L epochs in one pass. Agent i of
every lane chooses with the same model, for all lanes in one go; the worlds of the lanes have nothing to do with each other.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from abreast.agents import Agent
from abreast.models.stacked import StackedChoice, can_be_stacked

if TYPE_CHECKING:
    from abreast.training.environment import Environment


class Played(NamedTuple):
    """What an epoch came to."""

    turns: int
    reward_per_agent: list[float]


def collect_pass(
    lanes: "Sequence[Environment]", epoch: int, before_turn: Callable[[], None] | None = None
) -> list[Played]:
    """Play one epoch in every lane, from a fresh world: at most `max_turns` turns, fewer if the world says it is done.

    `epoch` is the number of the first of them. `before_turn` is called before each turn of the first lane and once more
    at its end (to record it, say).
    """
    first, models = lanes[0], [agent.model for agent in lanes[0].agents]
    for env in lanes:
        env.reset()
    for model in models:
        model.start_epoch_action(epoch=epoch)
    together = _together(lanes[0])
    while playing := [env for env in lanes if env.is_playing]:
        if before_turn is not None and first.is_playing:
            before_turn()
        take_turn(playing, together)
    if before_turn is not None:
        before_turn()
    for env in lanes:
        for agent in env.agents:
            agent.conclude(env.world)
    for model in models:
        model.end_epoch_action(epoch=epoch)
    return [Played(env.turn, [agent.score for agent in env.agents]) for env in lanes]


def take_turn(lanes: "Sequence[Environment]", together: StackedChoice | None = None) -> None:
    """One turn in every lane: the world changes by itself, then the agents see, choose, act and remember.

    `together` chooses for all agents at once, where they choose before anybody acts (`turn_order: simultaneous`).
    """
    for env in lanes:
        env.turn += 1
        env.world.transition()
    everybody = list(zip(*(env.agents for env in lanes), strict=True))  # per agent, its bodies in the lanes
    if lanes[0].config.experiment.turn_order == "sequential":
        for bodies in everybody:
            _act_in_turn(bodies, lanes)
    else:
        states = [[body.pov(env.world) for body, env in zip(bodies, lanes, strict=True)] for bodies in everybody]
        if together is not None:
            actions = together.take_actions(states, [body.lane for body in everybody[0]])
        else:
            actions = [_choose(bodies, seen) for bodies, seen in zip(everybody, states, strict=True)]
        for bodies, seen, chosen in zip(everybody, states, actions, strict=True):
            for body, env, state, action in zip(bodies, lanes, seen, chosen, strict=True):
                body.perform(env.world, state, action)


def _together(env: "Environment") -> StackedChoice | None:
    models = [agent.model for agent in env.agents]
    if env.config.experiment.turn_order != "simultaneous" or not can_be_stacked(models):
        return None
    return StackedChoice(models) if all(_chooses_by_model(agent) for agent in env.agents) else None


def _act_in_turn(bodies: Sequence[Agent], lanes: "Sequence[Environment]") -> None:
    if len(bodies) == 1 or not _chooses_by_model(bodies[0]):
        for body, env in zip(bodies, lanes, strict=True):
            body.transition(env.world)
        return
    states = [body.pov(env.world) for body, env in zip(bodies, lanes, strict=True)]
    for body, env, state, action in zip(bodies, lanes, states, _choose(bodies, states), strict=True):
        body.perform(env.world, state, action)


def _choose(bodies: Sequence[Agent], states: Sequence[object]) -> list[int]:
    if len(bodies) == 1 or not _chooses_by_model(bodies[0]):
        return [body.get_action(state) for body, state in zip(bodies, states, strict=True)]  # type: ignore[arg-type]
    return bodies[0].model.take_actions(states, [body.lane for body in bodies])  # type: ignore[arg-type]


def _chooses_by_model(agent: Agent) -> bool:
    """Whether an agent leaves its choice to its model, so that all lanes can be asked at once."""
    kind = type(agent)
    return kind.get_action is Agent.get_action and kind.transition is Agent.transition
