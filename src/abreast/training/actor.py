"""Collecting: play one epoch and remember it. The sequential and the parallel run both call this."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from abreast.training.environment import Environment


class Played(NamedTuple):
    """What an epoch came to."""

    turns: int
    reward_per_agent: list[float]


def collect_epoch(env: "Environment", epoch: int, before_turn: Callable[[], None] | None = None) -> Played:
    """Play one epoch from a fresh world: at most `max_turns` turns, fewer if the world says it is done.

    `before_turn` is called with the world as it is before each turn and once more at the end (to record it, say).
    """
    models = [agent.model for agent in env.agents]
    env.reset()
    for model in models:
        model.start_epoch_action(epoch=epoch)
    while env.turn < env.config.experiment.max_turns and not env.world.is_done:
        if before_turn is not None:
            before_turn()
        env.take_turn()
    if before_turn is not None:
        before_turn()
    for model in models:
        model.end_epoch_action(epoch=epoch)
    return Played(env.turn, [agent.score for agent in env.agents])
