"""Who lives in the valley."""

from functools import cache
from typing import Any, ClassVar

import numpy as np

from abreast.agents import MovingAgent
from abreast.games.art import figures
from abreast.games.cleanup.entities import Apple, Beam, CleanBeam, Dirt, Orchard, Water, ZapBeam
from abreast.games.cleanup.world import AIR, GROUND, TOP, CleanupConfig, beam_path
from abreast.games.walkers import Walker, action_towards, walk_towards
from abreast.worlds import Gridworld
from abreast.worlds.sprites import Pixels

ACTIONS = ("up", "down", "left", "right", "clean", "zap")
FACING_KINDS = {facing: f"AgentFacing{facing.title()}" for facing in MovingAgent.DIRECTIONS}
FROZEN_KIND = "FrozenAgent"


class CleanupAgent(Walker):
    """Walks, eats, cleans and zaps.

    Where an agent looks decides where its beams go, and a frozen one can do nothing, so both are part of its kind:
    otherwise neither it nor the others could tell from an observation.
    """

    SYMBOLS: ClassVar[dict[str, str]] = {"up": "^", "down": "v", "left": "<", "right": ">"}

    settings: CleanupConfig

    def reset(self) -> None:
        """A new epoch begins: awake and looking down."""
        super().reset()
        self.turns_frozen = 0
        self.turns_missed = 0
        """Spent frozen in this epoch."""
        self.face("down")

    def face(self, direction: str) -> None:
        super().face(direction)
        self.kind = FACING_KINDS[direction]
        self.symbol = self.SYMBOLS[direction]

    def act(self, world: Gridworld, action: int) -> float:
        """Do it, unless frozen."""
        if self.turns_frozen:
            self._wait_frozen(world)
            return 0.0
        reward = 0.0
        match self.action_spec.get_readable_action(action):
            case "clean":
                self._clean(world)
            case "zap":
                self._zap(world)
                reward = -self.settings.zap_cost
            case _:
                reward = super().act(world, action)
                world.add(self.location, self)  # it may have turned without moving, and its kind with it
        return reward

    def hit(self, world: Gridworld) -> None:
        """Be hit by a zap. One who is frozen already is left alone, so that nobody can be kept frozen for nothing."""
        if self.turns_frozen:
            return
        self.turns_frozen = self.settings.freeze_turns
        self.give(-self.settings.hit_penalty)
        self.kind, self.symbol = FROZEN_KIND, "*"
        self.sprite = _frozen_figures(self.number)[self.facing]
        world.add(self.location, self)

    def _wait_frozen(self, world: Gridworld) -> None:
        self.turns_frozen -= 1
        self.turns_missed += 1
        if not self.turns_frozen:
            self.face(self.facing)
            world.add(self.location, self)

    def _clean(self, world: Gridworld) -> None:
        for row, column in self._fire(world, CleanBeam):
            if isinstance(world.observe((row, column, GROUND)), Dirt):
                world.add((row, column, GROUND), Water())

    def _zap(self, world: Gridworld) -> None:
        for row, column in self._fire(world, ZapBeam):
            target = world.observe((row, column, TOP))
            if isinstance(target, CleanupAgent):
                target.hit(world)

    def _fire(self, world: Gridworld, beam: type[Beam]) -> list[tuple[int, int]]:
        """Make a beam appear in front of the agent; returns the (row, column) of its cells."""
        step = self.DIRECTIONS[self.facing]
        cells = list(beam_path(world, self.location, step, self.settings.beam_length))
        for row, column in cells:
            world.add((row, column, AIR), beam(is_vertical=step[0] != 0))
        return cells


def clean(agent: CleanupAgent, world: Any) -> int:
    """Walk to dirt and clean it while a quarter of what stops all growth is dirty, or more; else eat."""
    if world.dirty_share < world.settings.dirt_threshold / 4:
        return eat(agent, world)
    cells = beam_path(world, agent.location, agent.DIRECTIONS[agent.facing], agent.settings.beam_length)
    if any(isinstance(world.observe((row, column, GROUND)), Dirt) for row, column in cells):
        return agent.action_spec.actions.index("clean")
    return walk_towards(agent, world, lambda cell: isinstance(world.observe((*cell[:2], GROUND)), Dirt), "clean")


def eat(agent: CleanupAgent, world: Gridworld) -> int:
    """Walk to the nearest apple; while there is none, to the orchard, or up and down in it."""
    action = action_towards(agent, world, lambda cell: isinstance(world.observe(cell), Apple))
    if action is None and not isinstance(world.observe((*agent.location[:2], GROUND)), Orchard):
        action = action_towards(agent, world, lambda cell: isinstance(world.observe((*cell[:2], GROUND)), Orchard))
    return agent.action_spec.actions.index("up") if action is None else action


@cache
def _frozen_figures(number: int) -> dict[str, Pixels]:
    """The figures of agent `number` in a block of ice."""
    return {facing: _in_ice(figure) for facing, figure in figures(number).items()}


def _in_ice(figure: Pixels) -> Pixels:
    ice, thickness = np.array([176, 224, 248]), 0.5
    frozen = figure.copy()
    frozen[..., :3] = figure[..., :3] * (1 - thickness) + ice * thickness
    is_clear = figure[..., 3] == 0
    frozen[is_clear] = (*ice, int(255 * thickness))
    frozen[0, :] = frozen[:, 0] = (255, 255, 255, 255)  # light on the upper left edges of the block,
    frozen[-1, :] = frozen[:, -1] = (104, 168, 208, 255)  # shade on the lower right ones
    return frozen
