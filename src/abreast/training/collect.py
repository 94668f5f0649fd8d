"""Collecting: play an epoch in every lane and remember it. Every run, sequential or parallel, calls `collect_pass`."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ConfigError, ModelError, RewardError, WorldError, short
from abreast.models import BaseModel
from abreast.models.stacked import StackedChoice, can_be_stacked
from abreast.streams import seeded_globals, shared_streams
from abreast.worlds.playable import Decision, Late, Playable, Played, as_reward

PLAYING = 2
"""The part of a seed's spawn key that stands for playing."""


def collect_pass(
    game: Playable,
    epoch: int,
    lanes: int = 1,
    seed: int = 0,
    *,
    first_epoch: int | None = None,
    is_dealt: bool = False,
    beat: Callable[[], None] | None = None,
    on_turn: Callable[[], None] | None = None,
) -> list[Played]:
    """Play one epoch in each of so many lanes; `epoch` is the number of the first of them,
    `first_epoch` that of the first of the whole pass, if other actors play the epochs before it. `is_dealt`: how
    many of them there are must not matter.

    `seed` is the experiment's: users' code may draw from generators that the process shares. `beat` is called at every
    decision, in any lane. `on_turn` is called before each turn of the first lane and once
    more at its end (to record it, say).
    """
    with seeded_globals(np.random.SeedSequence(seed), PLAYING, epoch):
        before = shared_streams() if is_dealt else []
        played = play_lanes(game, epoch if first_epoch is None else first_epoch, lanes, beat, on_turn)
        if is_dealt and shared_streams() != before:
            raise WorldError(
                "the game draws from generators that a process shares (random, numpy.random or torch), so results would"
                " depend on how many actors there are: let it draw from world.rng, or set multiprocessing.num_actors to 1."
            )
    for player in game.players:
        player.model.own_attributes.check_choosing()
    return played


def play_lanes(
    game: Playable,
    epoch: int,
    lanes: int,
    beat: Callable[[], None] | None = None,
    on_turn: Callable[[], None] | None = None,
) -> list[Played]:
    """As `collect_pass`, with the generators that the process shares as they are; `epoch` is the first of the whole pass."""
    play_whole_pass = getattr(game, "play_pass", None)  # on a device, without a word in between
    if play_whole_pass is not None and (played := play_whole_pass(epoch, lanes, beat, on_turn)) is not None:
        return played  # type: ignore[no-any-return]
    models: list[BaseModel] = [player.model for player in game.players]
    game.reset(lanes)
    if [id(player.model) for player in game.players] != [id(model) for model in models]:
        raise ConfigError(
            "the agents have other models after `reset`, which have learned nothing: make new bodies there if you like, but"
            " give them the models they had."
        )
    before = [model.memory.written for model in models]
    for model in models:
        model.start_epoch_action(epoch=epoch)
    choose, seen = _Chooser(models).choose, -1
    unchecked = set(range(len(models)))
    """Agents whose first observation has not been looked at."""
    while True:
        if on_turn is not None and game.turns != seen:
            seen = game.turns
            on_turn()
        decisions = game.decisions()
        if decisions is None:
            break
        if unchecked:
            for agent, _, states, _ in decisions:
                if agent in unchecked:
                    check_observation(agent, models[agent], states[0])
                    unchecked.discard(agent)
        actions = choose(decisions)
        outcomes, late = game.step(actions)
        if beat is not None:
            beat()  # before anything is remembered: an actor that was replaced ends here
        for (agent, numbers, states, _), chosen, (rewards, terminated) in zip(
            decisions, actions, outcomes, strict=True
        ):
            if not isfinite(sum(rewards)):
                wrong = next(index for index, reward in enumerate(rewards) if not isfinite(reward))
                raise RewardError(
                    f"agent {agent}, turn {game.turns}, action {chosen[wrong]}: the reward is {rewards[wrong]!r}, expected a"
                    " finite number."
                )
            models[agent].remember_all(states, chosen, rewards, terminated, numbers)
        for each in late:
            _amend(models[each.agent], each, before[each.agent])
    played, late = game.finish()
    for each in late:
        _amend(models[each.agent], each, before[each.agent])
    for model in models:
        model.end_epoch_action(epoch=epoch)
    return played


def check_observation(agent: int, model: BaseModel, state: NDArray[Any]) -> None:
    """Refuse what the rows of the memory would hold otherwise than it is."""
    seen, memory = np.asarray(state), model.memory
    if seen.dtype.kind == "f" and not np.isfinite(seen).all():
        odd = seen[~np.isfinite(seen)].tolist()[0]
        raise WorldError(f"agent {agent} observes {odd}: let `pov` return finite numbers.")
    if seen.shape != memory.obs_shape or not np.array_equal(seen, seen.astype(memory.dtype)):
        raise WorldError(
            f"agent {agent} observes {seen.dtype} of shape {seen.shape}, for example {short(seen.reshape(-1)[:4].tolist())},"
            f" but its observation spec says {memory.dtype} of shape {memory.obs_shape}: let `pov` and the spec"
            " (`input_size`, `dtype`) say the same."
        )


class _Chooser:
    """Asks models for actions: all agents in one stacked product, where they choose at once and are alike."""

    def __init__(self, models: Sequence[BaseModel]) -> None:
        self._models = models
        self._stacked: StackedChoice | None = None

    def choose(self, decisions: Sequence[Decision]) -> list[list[int]]:
        if len(decisions) == 1 and decisions[0].masks is None:
            agent, lanes, states, _ = decisions[0]
            return [self._models[agent].take_actions(states, lanes)]
        for agent, lanes, _, masks in decisions:
            if masks is not None:
                self._models[agent].note_masks(lanes, masks)
        actions = self._chosen(decisions)
        for (agent, lanes, _, masks), chosen in zip(decisions, actions, strict=True):
            if masks is not None:
                self._check_legal(agent, lanes, masks, chosen)
        return actions

    def _chosen(self, decisions: Sequence[Decision]) -> list[list[int]]:
        if len(decisions) > 1 and self._are_alike(decisions):
            if self._stacked is None:  # with the weights of this epoch
                self._stacked = StackedChoice(self._models)  # type: ignore[arg-type]
            return self._stacked.take_actions([each.states for each in decisions], decisions[0].lanes)
        return [self._models[agent].take_actions(states, lanes) for agent, lanes, states, _ in decisions]

    def _check_legal(
        self, agent: int, lanes: Sequence[int], masks: Sequence[NDArray[np.bool_]], actions: Sequence[int]
    ) -> None:
        """Refuse what a user's model has chosen against the rules."""
        for lane, mask, action in zip(lanes, masks, actions, strict=True):
            if not mask[action]:
                raise ModelError(
                    f"{type(self._models[agent]).__name__}.take_action of agent {agent} returned {action}, which is not"
                    f" legal now (legal are {short(np.flatnonzero(mask).tolist())}): choose one for which"
                    f" self.legal_actions({lane or ''}) is true."
                )

    def _are_alike(self, decisions: Sequence[Decision]) -> bool:
        """Whether every agent chooses, in the same lanes, with a network of the same shape."""
        if len(decisions) != len(self._models) or any(each.lanes != decisions[0].lanes for each in decisions):
            return False
        return self._stacked is not None or (can_be_stacked(self._models) and not any(map(_is_elsewhere, self._models)))


def _is_elsewhere(model: BaseModel) -> bool:
    """Whether a model chooses on another device than the CPU, to which it moves what it sees."""
    return getattr(model, "chooses_on", "cpu") != "cpu"


def _amend(model: BaseModel, late: Late, before: NDArray[Any]) -> None:
    """Add to the newest row what came late, if there is a row of this epoch."""
    has_row = model.memory.written[late.lane] > before[late.lane]
    if late.reward:
        reward = as_reward(late.reward)
        if has_row or type(model).amend is not BaseModel.amend:
            model.amend(reward, late.lane)
        elif type(model).remember is not BaseModel.remember:
            raise ModelError(
                f"agent {late.agent} got a reward of {reward:g} after its last step, but {type(model).__name__} put no row"
                " of this epoch into self.memory: call super().remember, or say in `amend` what becomes of such a reward."
            )
    if (late.terminated or late.truncated) and has_row:
        model.end_episode(late.lane, done=late.terminated)
