"""Chapter 6: who waits for whom. Lockstep, pipelined, free; and how old weights are.

python docs/guide/06_who_waits.py
"""

import time

import torch

from abreast import DQN, MARLMultiprocessingSystem
from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.training.collect import collect_pass

PASSES = 6
IDLE_MACHINE = [0, 1, 2, 3, 4, 5]
BUSY_MACHINE = [0, 0, 0, 1, 1, 2]
"""How many rounds the learners have finished when pass 0, 1, 2 … begins. The operating system decides, and tells nobody."""


class SlowDQN(DQN):
    """A DQN whose learners are held up before every update, as on a machine with other work."""

    pause = 0.0

    def train_step(self):
        time.sleep(type(self).pause)
        return super().train_step()


def make_env(schedule="lockstep"):
    return TreasurehuntEnv.make(
        {
            "experiment": {"epochs": PASSES, "max_turns": 20, "num_agents": 5, "seed": 0},
            "model": {
                "algorithm": f"{__file__}:SlowDQN",
                "hidden_size": 16,
                "n_frames": 1,
                "batch_size": 8,
                "gradient_steps": 1,
                "epsilon": 0.0,
                "learning_rate": 0.05,
            },
            "multiprocessing": {"schedule": schedule, "workers": "threads", "num_workers": 2},
        }
    )


def nobody_waits(rounds_finished):
    """A pass plays with the newest weights there are. Returns the version of each pass, and the rewards of its agents."""
    env, version, versions, rewards = make_env(), 0, [], []
    for number in range(PASSES):
        while version < rounds_finished[number]:
            for agent in env.agents:
                agent.model.train_step()
            version += 1
        played = collect_pass(env.game, number)
        versions.append(version)
        rewards.append(played[0].reward_per_agent)
    return versions, rewards


def by_schedule(schedule, pause):
    """The same by a schedule of the library, with learners that take so much longer."""
    env, versions = make_env(schedule), []
    type(env.agents[0].model).pause = pause
    with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
        asked = system.learners.acting_versions
        system.learners.acting_versions = lambda: versions.append(asked()[0]) or asked()
        epochs = system.run()
    return versions, [epoch["reward_per_agent"] for epoch in epochs]


def main():
    torch.set_num_threads(1)

    # The pitfall: the newest weights there are. How old they are depends on the machine, and so does the result.
    results = {}
    for machine in (IDLE_MACHINE, BUSY_MACHINE):
        versions, results[tuple(machine)] = nobody_waits(machine)
        lags = [number - version for number, version in enumerate(versions)]
        print(
            f"nobody waits: versions {versions}, rounds not yet seen {lags}, last rewards {results[tuple(machine)][-1]}"
        )
    assert results[tuple(IDLE_MACHINE)] != results[tuple(BUSY_MACHINE)], "the same seed, and the same result"

    # Mended: which version a pass plays with follows from its number. Whoever is early waits.
    for schedule, expected in {"lockstep": [0, 1, 2, 3, 4, 5], "pipelined": [0, 0, 1, 2, 3, 4]}.items():
        (versions, fast), (same, slow) = by_schedule(schedule, 0.0), by_schedule(schedule, 0.01)
        print(f"{schedule}: versions {versions}, with slow learners the same rewards: {fast == slow}")
        assert versions == same == expected and fast == slow


if __name__ == "__main__":
    main()
