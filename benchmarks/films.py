"""Films: the picture of a game without sprites in docs/how-to/own-game.md, and what filming costs.

python benchmarks/films.py            trains, prints the share of snapshots in the run's CPU time and the size of the film
python benchmarks/films.py --keep     also writes docs/images/films.gif
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from abreast import ActionSpec, EmptyEntity, Entity, Environment, Gridworld, MovingAgent, OneHotObservationSpec
from abreast.training.run.films import Camera

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "films.gif"


class Apple(Entity):
    """Good."""

    passable, value = True, 1.0


class Pear(Apple):
    """Better."""

    value = 2.0


class Nettle(Entity):
    """Bad."""

    passable, value = True, -1.0


class Stone(Entity):
    """In the way."""


class Hedgewall(Entity):
    """Around everything."""


class Meadow(Environment):
    """Three agents without sprites gather things without sprites."""

    defaults: ClassVar = {
        "experiment": {"epochs": 200, "max_turns": 30, "num_agents": 3},
        "model": {"algorithm": "dqn", "n_frames": 1},
    }

    def setup_agents(self) -> None:
        kinds = ["Apple", "Pear", "Nettle", "Stone", "Hedgewall", "MovingAgent", "Wall"]
        view, actions = OneHotObservationSpec(kinds, vision_radius=3), ActionSpec(["up", "down", "left", "right"])
        self.agents = [MovingAgent(view, actions, self.make_model(view, 4, agent)) for agent in range(3)]

    def populate_environment(self) -> None:
        self.world.enclose(0, Hedgewall)
        things = [Apple() for _ in range(9)] + [Pear() for _ in range(5)] + [Nettle() for _ in range(6)]
        self.world.scatter([*things, *(Stone() for _ in range(5)), *self.agents], onto="EmptyEntity")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the film into docs/images")
    is_kept = parser.parse_args().keep
    spent, take = [], Camera.__call__

    def timed(camera: Camera) -> None:
        started = time.thread_time()
        take(camera)
        spent.append(time.thread_time() - started)

    Camera.__call__ = timed  # type: ignore[method-assign]
    env, started = Meadow(Gridworld(12, 12, 1, EmptyEntity()), Meadow.defaults), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        env.run_experiment(output_dir=Path(folder) / "run")
        share = sum(spent) / (time.process_time() - started)
        film = Path(folder) / "run" / "replays" / "best.gif"
        mean = 1e6 * sum(spent) / len(spent)
        print(
            f"a snapshot {mean:.1f} µs, {share:.2%} of the run's CPU time; a film {film.stat().st_size / 1000:.0f} kB"
        )
        if is_kept:
            shutil.copy(film, IMAGE)


if __name__ == "__main__":
    main()
