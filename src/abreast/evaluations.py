"""What the agents of a run get at each of its checkpoints, in episodes of their own; kept in the run folder.

evaluations.json   {"version", "agents": [names], "played": {"CHECKSUM-EPISODES-SEED-MODE": rewards by episode and agent}}

The checksum is that of the agents, so what is kept stays right whatever becomes of the checkpoints; of random agents it is
"random". The mode is how the agents acted (`mode_text`); where it is missing, an earlier version has played greedily.
"""

import hashlib
import json
from collections.abc import Callable
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from abreast import __version__
from abreast.errors import CheckpointError
from abreast.files import write_whole
from abreast.games import AnyGame
from abreast.games.trained import evaluated_config, trained_experiment
from abreast.training import Config, Experiment
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints
from abreast.training.evaluate import mode_of_run, play_episodes

FILE = "evaluations.json"
EPISODES, TIMES = 32, 10
"""Episodes at each checkpoint, and how many times as many at the best."""

Rewards = list[list[float]]
"""By episode and agent."""


class Point(NamedTuple):
    """A checkpoint that was evaluated."""

    epochs: int
    agent_steps: int
    rewards: Rewards


def evaluated_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run that have agents, one for each number of epochs, in their order."""
    found = [each for each in list_checkpoints(run) if isinstance(each, Checkpoint) and each.agents]
    if not found:
        raise CheckpointError(f"{run} has no checkpoint to evaluate: its run has not come so far.")
    return list({each.epochs: each for each in found}.values())


class RunEvaluations:
    """The evaluations of one run. Those that are not there are played when they are asked for."""

    def __init__(
        self,
        run: Path,
        find: Callable[[], AnyGame],
        episodes: int = EPISODES,
        seed: int = 0,
        greedy: bool | None = None,
    ) -> None:
        """`find`: what finds the game of the run. `greedy`: how agents act, as in `evaluate`."""
        self.run, self.episodes, self.seed, self.greedy = run, episodes, seed, greedy
        self._find = find
        self.names: list[str] = []
        """Of the agents; known after the first evaluation."""
        self._played = self._read()

    def curve(self, on_point: Callable[[], None] = lambda: None) -> list[Point]:
        """Every checkpoint, evaluated."""
        found = []
        for each in evaluated_checkpoints(self.run):
            found.append(Point(each.epochs, each.facts.agent_steps, self.rewards(each)))
            on_point()
        return found

    def absolute(self, curve: list[Point]) -> tuple[int, Rewards, str, tuple[str, Rewards] | None]:
        """Evaluate the best checkpoint, by the mean of all rewards, again, with another seed.

        Returns its epochs, the rewards of many more episodes, their mode, and the other mode with the rewards of the first
        of these episodes in it. The other mode is greedy if an agent explores, else the declared one. Where both are the
        same, as for value learners, there is no other (None), and nothing more is played.
        """
        best = max(curve, key=lambda point: sum(map(sum, point.rewards)) / len(point.rewards)).epochs
        (checkpoint,) = (each for each in evaluated_checkpoints(self.run) if each.epochs == best)
        mode, other = self.mode(checkpoint), copy(self)
        other.greedy = True if "explore" in mode else None
        is_one = other.mode(checkpoint) == mode
        second = None if is_one else (other.mode(checkpoint), other.rewards(checkpoint, seed=self.seed + 1))
        return best, self.rewards(checkpoint, self.episodes * TIMES, self.seed + 1), mode, second

    def mode(self, checkpoint: Checkpoint) -> str:
        """Return how the agents of a checkpoint act, as a text (`mode_text`)."""
        return mode_of_run(self._config, len(checkpoint.agents), self.greedy)

    def rewards(self, checkpoint: Checkpoint, episodes: int | None = None, seed: int | None = None) -> Rewards:
        """Return what the agents of a checkpoint get."""
        episodes, seed = episodes or self.episodes, self.seed if seed is None else seed
        sums = "".join(checkpoint.files[f"{agent}.safetensors"].sha256 for agent in checkpoint.agents)
        key = f"{hashlib.sha256(sums.encode()).hexdigest()[:16]}-{episodes}-{seed}-{self.mode(checkpoint)}"
        return self._kept(
            key,
            lambda: trained_experiment(
                self._game, self._config, checkpoint, {agent: checkpoint.part(agent) for agent in checkpoint.agents}
            ),
            episodes,
            seed,
        )

    def random(self, at_random: Callable[[AnyGame, Config[Any, Any]], Experiment]) -> Rewards:
        """Return what random agents, as `at_random` makes them, get in the episodes that the best checkpoint plays."""
        how = self.episodes * TIMES, self.seed + 1
        return self._kept("random-{}-{}-".format(*how), lambda: at_random(self._game, self._config), *how)

    def _kept(self, key: str, make: Callable[[], Experiment], episodes: int, seed: int) -> Rewards:
        """Return the rewards that are kept, or play them."""
        if key not in self._played:
            env = make()
            self.names = list(env.game.agent_names or [f"agent {number}" for number in range(len(env.game.players))])
            self._played[key] = play_episodes(env, episodes, seed, self.greedy).rewards
            kept = {"version": __version__, "agents": self.names, "played": self._played}
            write_whole(self.run / FILE, json.dumps(kept, allow_nan=False).encode())
        return self._played[key]

    @cached_property
    def _game(self) -> AnyGame:
        return self._find()

    @cached_property
    def _config(self) -> Any:
        return evaluated_config(self._game, self.run / "config.yaml", None)

    def _read(self) -> dict[str, Rewards]:
        """What is kept; nothing of a file that is damaged, or of another version."""
        try:
            kept = json.loads((self.run / FILE).read_bytes())
            if kept["version"] != __version__:
                return {}
            self.names = [str(name) for name in kept["agents"]]
            return {
                key if key.count("-") > 2 else f"{key}-greedy": [[*map(float, each)] for each in rewards]
                for key, rewards in kept["played"].items()
            }
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return {}
