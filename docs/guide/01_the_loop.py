"""Chapter 1: the sequential loop, and where its time goes.

python docs/guide/01_the_loop.py
"""

import time
from collections import Counter

import torch

from abreast.games.treasurehunt import TreasurehuntEnv

AGENTS, TURNS, EPOCHS, LANES = 5, 20, 4, 8
PARTS = ("world", "see", "choose", "act", "remember", "learn")


def make_env(lanes=1, epochs=EPOCHS):
    """Five agents on a beach of ten by ten cells. Each has a network, a replay and an optimiser of its own."""
    return TreasurehuntEnv.make(
        {
            "experiment": {"epochs": epochs, "max_turns": TURNS, "num_agents": AGENTS, "seed": 0},
            "model": {"gradient_steps": 1, "batch_size": 16, "epsilon": 0.1},
            "multiprocessing": {"num_envs": lanes},
        }
    )


class Stopwatch:
    """Adds up CPU seconds of this thread by part. Other programs on the machine do not disturb them."""

    def __init__(self):
        self.seconds = Counter()
        self._last = time.thread_time()

    def lap(self, part):
        """What has passed since the last lap belongs to this part."""
        now = time.thread_time()
        self.seconds[part] += now - self._last
        self._last = now

    def share(self, *parts):
        return sum(self.seconds[part] for part in parts) / sum(self.seconds.values())


def play_and_learn(env, watch):
    """The whole of independent multi-agent learning, one thing after the other."""
    for epoch in range(EPOCHS):
        env.reset()
        watch.lap("world")
        for agent in env.agents:
            agent.model.start_epoch_action(epoch=epoch)  # takes over what was learned so far
        watch.lap("choose")
        for _ in range(TURNS):
            env.world.transition()
            watch.lap("world")
            for agent in env.agents:
                state = agent.pov(env.world)
                watch.lap("see")
                action = agent.get_action(state)
                watch.lap("choose")
                reward = agent.act(env.world, action)
                watch.lap("act")
                agent.add_memory(state, action, reward, done=False)
                watch.lap("remember")
        for agent in env.agents:
            agent.model.end_epoch_action(epoch=epoch)
            watch.lap("remember")
            agent.model.train_step()
            watch.lap("learn")


def count_calls(env):
    """A list that grows by one entry whenever a network is asked for what choosing decides by."""
    calls = []
    for agent in env.agents:
        network = agent.model.policy

        def counted(*inputs, ask=network.preferences):
            calls.append(1)
            return ask(*inputs)

        network.preferences = counted
    return calls


def main():
    torch.set_num_threads(1)
    watch = Stopwatch()
    play_and_learn(make_env(), watch)
    for part in PARTS:
        print(f"{part:9}{watch.share(part):6.1%}")

    # The pitfall: "the game is slow Python, so I make the game faster". Then all else stays.
    game = watch.share("world", "see", "act")
    print(f"a game that takes no time at all: {1 / (1 - game):.2f} times as fast")
    assert 1 / (1 - game) < 2 and watch.share("choose", "learn") > game

    # Mended: eight lanes are played side by side, and an agent chooses for all of them in one call.
    calls = {}
    for lanes in (1, LANES):
        env = make_env(lanes, epochs=LANES)
        counted = count_calls(env)
        run = env.run_experiment(animate=False, logging=False)
        calls[lanes] = len(counted)
        print(f"{lanes} lane(s): {run.epochs[-1]['agent_steps']} agent-steps, {calls[lanes]} calls of a network")
    assert calls[LANES] < calls[1] / 4


if __name__ == "__main__":
    main()
