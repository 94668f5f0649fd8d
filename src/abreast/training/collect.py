"""Collecting: play an epoch in every lane and remember it. Every run, sequential or parallel, calls `collect_pass`."""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ConfigError, ModelError, RewardError, WorldError, short
from abreast.models import BaseModel
from abreast.models.stacked import StackedChoice, can_be_stacked
from abreast.processes.spans import details, span
from abreast.streams import seeded_globals, shared_streams
from abreast.training.social import RewardTimes, with_social_outcomes
from abreast.worlds.playable import Decision, Late, Playable, Played, as_reward

PLAYING = 2
"""The part of a seed's spawn key that stands for playing."""


def collect_pass(
    game: Playable,
    epoch: int,
    lanes: int = 1,
    seed: int = 0,
    *,
    beat: Callable[[], None] | None = None,
    on_turn: Callable[[], None] | None = None,
    on_shared_draws: Callable[[], None] | None = None,
) -> list[Played]:
    """Play one epoch in each of so many lanes; `epoch` is the number of the first epoch of the whole pass, also if other
    actors play lanes before these.

    `seed` is the experiment's: users' code may draw from generators that the process shares. `beat` is called at every
    decision, in any lane. `on_turn` is called before each turn of the first lane and once more at its end (to record it,
    say). `on_shared_draws` is called at the end if anything has drawn from generators that the process shares.
    """
    with seeded_globals(np.random.SeedSequence(seed), PLAYING, epoch):
        before = shared_streams() if on_shared_draws is not None else {}
        with span("play"):
            played = play_lanes(game, epoch, lanes, beat, on_turn)
        if on_shared_draws is not None and shared_streams() != before:
            on_shared_draws()
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
    """As `collect_pass`, with the generators that the process shares as they are."""
    if (whole := game.play_pass(epoch, lanes, beat, on_turn)) is not None:
        return whole
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
    choose, seen, times = _Chooser(models).choose, -1, RewardTimes(len(models))
    unchecked = set(range(len(models)))
    """Agents whose first observation has not been looked at."""
    steps = details("see", "choose", "act", "remember")
    while True:
        if on_turn is not None and game.turns != seen:
            seen = game.turns
            on_turn()
        mark = steps.begin()
        decisions = game.decisions()
        if decisions is None:
            break
        if unchecked:
            for agent, _, states, _ in decisions:
                if agent in unchecked:
                    check_observation(agent, models[agent], states[0])
                    unchecked.discard(agent)
        if mark:
            mark()
        actions = choose(decisions)
        if mark:
            mark()
        outcomes, late = game.step(actions)
        if mark:
            mark()
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
            times.note(agent, numbers, rewards)
        for each in late:
            _amend(models[each.agent], each, before[each.agent])
        times.note_late(late)
        if mark:
            mark()
    played, late = game.finish()
    for each in late:
        _amend(models[each.agent], each, before[each.agent])
    times.note_late(late)
    for model in models:
        model.end_epoch_action(epoch=epoch)
    return with_social_outcomes(played, times.means(len(played)))


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
        if len(decisions) < len(self._models) or not self._can_be_stacked:
            return [self._models[agent].take_actions(states, lanes) for agent, lanes, states, _ in decisions]
        if all(each.lanes == decisions[0].lanes for each in decisions):
            return self._stacked.take_actions([each.states for each in decisions], decisions[0].lanes)
        return self._chosen_by_group(decisions)

    def _chosen_by_group(self, decisions: Sequence[Decision]) -> list[list[int]]:
        """Where not all agents act in all lanes: in one stacked product for each group of lanes in which all of them do.

        Lanes of other groups, which another actor may play, make no difference.
        """
        actions = [[0] * len(each.lanes) for each in decisions]
        groups: dict[Hashable, dict[int, Sequence[int]]] = {}
        for index, (agent, lanes, _, _) in enumerate(decisions):
            streams = self._models[agent].streams
            for rows in streams.together(range(len(lanes)), lanes):
                groups.setdefault(streams.group_of(lanes[rows[0]]), {})[index] = rows
        for places in groups.values():
            lanes_of = [[decisions[index].lanes[row] for row in rows] for index, rows in places.items()]
            states = [[decisions[index].states[row] for row in rows] for index, rows in places.items()]
            if len(places) == len(self._models) and all(lanes == lanes_of[0] for lanes in lanes_of):
                chosen = self._stacked.take_actions(states, lanes_of[0])
            else:
                models = [self._models[decisions[index].agent] for index in places]
                chosen = [
                    model.take_actions(seen, lanes) for model, seen, lanes in zip(models, states, lanes_of, strict=True)
                ]
            for (index, rows), own in zip(places.items(), chosen, strict=True):
                for row, action in zip(rows, own, strict=True):
                    actions[index][row] = action
        return actions

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

    @cached_property
    def _can_be_stacked(self) -> bool:
        """Whether all agents choose with networks of the same shape, on the CPU."""
        return can_be_stacked(self._models) and all(model.chooses_on == "cpu" for model in self._models)  # type: ignore[attr-defined]

    @cached_property
    def _stacked(self) -> StackedChoice:
        """With the weights of this epoch."""
        return StackedChoice(self._models)  # type: ignore[arg-type]


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
