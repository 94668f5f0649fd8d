"""Environments in the form of PettingZoo and Gymnasium: some keep the contract in unusual ways, others break it."""

from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Meeting(ParallelEnv):
    """Agents come and go by the calendar: who is there in each turn is fixed. What an agent sees and gets is drawn."""

    metadata: ClassVar = {"name": "meeting", "render_modes": []}
    calendar = (("host", "guest"), ("host", "guest", "late"), ("host", "late"), ("host", "guest"), ("host", "late"))
    """`guest` ends for good in turn 2, comes back for turn 4, and leaves without a word. `late` joins in turn 2, is cut in
    turn 3, and comes back for turn 5."""
    ends: ClassVar = {1: ("guest",)}
    cuts: ClassVar = {2: ("late",)}

    def __init__(self, turns=5):
        self.turns = turns
        self.possible_agents = ["host", "guest", "late"]
        self.agents = []

    def observation_space(self, agent):
        return spaces.Box(-1.0, 1.0, (2 if agent == "host" else 3,), np.float64)

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "host" else 2, start=0 if agent == "host" else 1)

    def reset(self, seed=None, options=None):
        self.rng, self.turn = np.random.default_rng(seed), 0
        self.agents = list(self.calendar[0])
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        return {agent: self.rng.uniform(-1, 1, self.observation_space(agent).shape) for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), "all who are there act, and nobody else"
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        there, ended, cut = list(self.agents), self.ends.get(self.turn, ()), self.cuts.get(self.turn, ())
        rewards = {agent: float(10 * self.turn + actions[agent]) for agent in there}
        self.turn += 1
        is_over = self.turn >= min(self.turns, len(self.calendar))
        self.agents = [] if is_over else list(self.calendar[self.turn])
        seen = self.seen()
        return (
            seen,
            rewards,
            {agent: agent in ended for agent in there},
            {agent: agent in cut or (is_over and agent not in ended) for agent in there},
            {agent: {} for agent in there},
        )


class Auction(AECEnv):
    """Agents act in turn. Each action pays the agent that acted before; the last pays itself when the game ends."""

    metadata: ClassVar = {"name": "auction", "render_modes": ["ansi"], "is_parallelizable": False}

    def __init__(self, rounds=3, render_mode=None):
        self.rounds, self.render_mode = rounds, render_mode
        self.possible_agents = ["ann", "bob", "eve"]

    def observation_space(self, agent):
        mask = spaces.Box(0, 1, (4,), np.int8)
        return spaces.Dict({"observation": spaces.MultiDiscrete([10, 4]), "action_mask": mask})

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.moves, self.last_action = 0, 0
        self.agent_selection = self.agents[0]
        self.forbidden = int(self.rng.integers(4))

    def observe(self, agent):
        mask = np.ones(4, np.int8)
        mask[self.forbidden] = 0
        return {"observation": np.array([self.moves % 10, self.last_action]), "action_mask": mask}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert action != self.forbidden, "against the mask"
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        others = self.agents
        before = others[(others.index(agent) - 1) % len(others)]
        if self.moves:
            self.rewards[before] = float(action)
        self.moves, self.last_action = self.moves + 1, int(action)
        if self.moves == 2 * len(others) and "eve" in others:
            self.terminations["eve"] = True  # she leaves after two rounds; the others go on
        if self.moves >= self.rounds * 3:
            self.rewards[agent] += 100.0
            self.truncations.update(dict.fromkeys(self.agents, True))
        self.agent_selection = others[(others.index(agent) + 1) % len(others)]
        self.forbidden = int(self.rng.integers(4))
        self._accumulate_rewards()
        self._deads_step_first()

    def render(self):
        return f"moves: {self.moves}"


class Corridor(gymnasium.Env):
    """Walk right to the end. Seen is everything that spaces can hold."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = spaces.Dict(
        {
            "place": spaces.Discrete(5, start=1),
            "flags": spaces.MultiBinary(2),
            "pair": spaces.Tuple([spaces.Box(-100.0, 100.0, (2,)), spaces.MultiDiscrete([2, 3])]),
            "words": spaces.Text(10),
        }
    )
    action_space = spaces.MultiDiscrete([2, 3], start=[0, -1])

    def __init__(self, length=4, render_mode=None):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(2))
        return self.seen(), {"action_mask": self.mask()}

    def mask(self):
        return np.arange(6) != 5

    def seen(self):
        return {
            "place": self.place + 1,
            "flags": np.array([1, 0], np.int8),
            "pair": (np.array([50.0, -100.0], np.float32), np.array([1, 2])),
            "words": "hello",
        }

    def step(self, action):
        assert self.action_space.contains(action) and tuple(action) != (1, 1)
        self.place = min(max(self.place + int(action[1]), 0), self.length)
        is_over = self.place == self.length
        return self.seen(), np.float32(is_over), is_over, False, {"action_mask": self.mask()}

    def render(self):
        return np.full((30, 40, 3), 50 * self.place, np.uint8)


def corridor(length=4, render_mode=None):
    return Corridor(length, render_mode)


def needs_an_argument(size):
    return Corridor(size)


class PaysTheDead(Meeting):
    """`guest` is gone in turn 3, and is paid then for what it did before."""

    def step(self, actions):
        seen, rewards, *others = super().step(actions)
        if self.turn == 3:
            rewards["guest"] = 500.0
        return seen, rewards, *others


class FirstMoveWins(Auction):
    """It is over after the first move: two of three agents lose without having acted."""

    def __init__(self):
        super().__init__(rounds=0)

    def step(self, action):
        if self.moves == 0:
            self._cumulative_rewards.update(bob=-1.0, eve=-1.0)
        super().step(action)


class MasksAll(Auction):
    """What is seen lies beside the mask, in other parts than `observation`."""

    def observation_space(self, agent):
        parts = super().observation_space(agent).spaces
        return spaces.Dict(
            {"board": parts["observation"], "goal": spaces.Discrete(3), "action_mask": parts["action_mask"]}
        )

    def observe(self, agent):
        parts = super().observe(agent)
        return {"board": parts["observation"], "goal": 2, "action_mask": parts["action_mask"]}


class Notes(Corridor):
    """Keeps data of the episode before, which changes nothing: as physics engines and recorders do."""

    def reset(self, *, seed=None, options=None):
        self.data = [*getattr(self, "data", ())[-9:], self.np_random.random()]
        return super().reset(seed=seed)


class ManyMoves(Auction):
    """Has as many actions as PettingZoo's chess, of which two are legal, and a large observation."""

    number, large = 4672, 20_000

    def observation_space(self, agent):
        mask = spaces.Box(0, 1, (self.number,), np.int8)
        return spaces.Dict({"observation": spaces.Box(0, 1, (self.large,), np.int8), "action_mask": mask})

    def action_space(self, agent):
        return spaces.Discrete(self.number)

    def observe(self, agent):
        mask = np.zeros(self.number, np.int8)
        mask[[7, -1]] = 1
        return {"observation": np.zeros(self.large, np.int8), "action_mask": mask}


class Endless(Corridor):
    action_space = spaces.Discrete(2**20)


class SeveralInOne(Corridor):
    """Agents of an environment of Gymnasium, whose actions are a Tuple and whose rewards are a list."""

    action_space = spaces.Tuple([Corridor.action_space] * 2)


class PaysAList(Corridor):
    def step(self, action):
        seen, reward, *others = super().step(action)
        return seen, [reward, reward], *others


class NeedsADisplay(Corridor):
    def render(self):
        raise OSError("no display")


class DrawsNothing(Corridor):
    def render(self):
        return None


class AvoidsOldPlaces(Meeting):
    """Begins nowhere where an episode before has begun last: as Level-Based Foraging, which forgets old places too late."""

    place = None

    def reset(self, seed=None, options=None):
        _, infos = super().reset(seed)
        old, self.place = self.place, int(10 * self.rng.random())
        while self.place == old:
            self.place = int(10 * self.rng.random())
        return self.seen(), infos


# ---- such as break the contract


class RevivesAtOnce(Meeting):
    """`guest` ends, and plays on without having left."""

    calendar = (("host", "guest"),) * 4
    ends: ClassVar = {1: ("guest",)}
    cuts: ClassVar = {}

    def step(self, actions):
        return super().step({"guest": 1, **actions})


class ListsByChance(Meeting):
    order = ("host", "guest", "late")

    def __init__(self):
        super().__init__()
        self.possible_agents = list(self.order)


class ListsASet(Meeting):
    def __init__(self):
        super().__init__()
        self.possible_agents = {"host", "guest", "late"}


class ListsOneTwice(Meeting):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["host", "guest", "late", "late"]


class ReturnsLists(Meeting):
    def step(self, actions):
        seen, rewards, *others = super().step(actions)
        return seen, list(rewards.values()), *others


class SeesLists(Meeting):
    def step(self, actions):
        seen, *others = super().step(actions)
        return list(seen.values()), *others


class SelectsOneWhoLeft(Auction):
    def step(self, action):
        super().step(action)
        if "eve" not in self.agents:
            self.agent_selection = "eve"


class ObservesNaNLater(Meeting):
    def seen(self):
        return {agent: each * (np.nan if self.turn == 3 else 1) for agent, each in super().seen().items()}


class MasksByLogarithms(Auction):
    def observe(self, agent):
        seen = super().observe(agent)
        return {**seen, "action_mask": np.where(seen["action_mask"], 0.0, -1e9)}


class CannotBeMade(Meeting):
    def __init__(self, size=3):
        super().__init__()
        self.table = [[0] * row for row in range(size)]


class Continuous(Meeting):
    def action_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (2,))


class BringsAStranger(Meeting):
    calendar = (("host", "guest"), ("host", "guest", "stranger"))
    ends: ClassVar = {}

    def observation_space(self, agent):
        return spaces.Box(-1.0, 1.0, (2,))


class LacksAReward(Meeting):
    def step(self, actions):
        seen, _, *others = super().step(actions)
        return seen, {}, *others


class LacksAnObservation(Meeting):
    def step(self, actions):
        seen, *others = super().step(actions)
        seen.pop("late", None)
        return seen, *others


class PaysNothingFinite(Meeting):
    def step(self, actions):
        seen, rewards, *others = super().step(actions)
        return seen, dict.fromkeys(rewards, float("nan")), *others


class Grows(Meeting):
    def seen(self):
        return {agent: np.zeros(2 + self.turn + (agent != "host")) for agent in self.agents}


class ReturnsFour(Meeting):
    def step(self, actions):
        return super().step(actions)[:4]


class HasOldReset(Meeting):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0]


class Lingers(Meeting):
    """Keeps agents that have ended in `agents`, against the rules."""

    calendar = (("host", "guest"),) * 4
    ends: ClassVar = {1: ("guest",)}
    cuts: ClassVar = {}

    def step(self, actions):
        self.agents = sorted(actions)  # those who are sent an action
        return super().step(actions)


class Unseeded(Meeting):
    """Draws from the clock."""

    def reset(self, seed=None, options=None):
        return super().reset(seed=None)


class ForbidsAll(Auction):
    def observe(self, agent):
        return {**super().observe(agent), "action_mask": np.zeros(4, np.int8)}


class NeverLeaves(Auction):
    def step(self, action):
        if action is not None:
            super().step(action)


class SharesAList(Meeting):
    """All copies write into one list of the class, which each empties when it begins."""

    steps_of_all: ClassVar = []

    def seen(self):
        return {agent: each / (1 + len(self.steps_of_all)) for agent, each in super().seen().items()}

    def reset(self, seed=None, options=None):
        self.steps_of_all.clear()
        return super().reset(seed)

    def step(self, actions):
        self.steps_of_all.append(actions)
        return super().step(actions)


class OutOfBounds(Meeting):
    def seen(self):
        return {agent: np.full_like(each, 2.0) for agent, each in super().seen().items()}


class TakesNoSeed(Meeting):
    def reset(self):
        return super().reset(0)


class ListsNobody(Meeting):
    def reset(self, seed=None, options=None):
        found = super().reset(seed)
        del self.agents
        return found
