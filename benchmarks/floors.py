"""How near to the products are an update and an action? Everything else they do is overhead.

    python benchmarks/floors.py [--hidden 250] [--rounds 60]

The reference learner (IQN, 64 rows, 12 quantiles, five stacked views of treasure hunt). The floor is every matrix product of
an update, with the same shapes, one after the other into memory that is there, by one thread. Both take turns, and the
medians are compared.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models.crew import Crew
from abreast.models.iqn import IQN
from abreast.training.collect import collect_pass

BAR = 1.3
AGENTS, TURNS = 5, 50


def build(lanes: int, **model: object) -> TreasurehuntEnv:
    """The reference environment."""
    config = {
        "experiment": {"epochs": lanes, "max_turns": TURNS, "num_agents": AGENTS},
        "model": {"algorithm": "iqn", "gradient_steps": 1, "n_step": 3, "n_frames": 5, "hidden_size": 250, **model},
        "world": {"height": 10, "width": 10, "gem_value": 10.0, "spawn_prob": 0.02},
        "multiprocessing": {"num_envs": lanes, "device": "cpu"},
    }
    return TreasurehuntEnv(TreasurehuntWorld(config), config)


def learner(threads: int = 1, **model: object) -> IQN:
    """A model with a full memory."""
    found = build(8, **model).agents[0].model
    rng, memory = np.random.default_rng(0), found.memory
    for row in range(memory.rows_per_lane):
        for lane in range(memory.lanes):
            state = rng.integers(0, 2, memory.obs_shape).astype(memory.dtype)
            memory.add(state, int(rng.integers(4)), float(rng.random()), row % TURNS == TURNS - 1, lane)
    found.crew = Crew(threads)
    return found


def products_of(model: IQN) -> Callable[[], None]:
    """Every product of an update: forward for two networks and the double-Q choice, and backward."""
    config = model.config
    batch, wide, inputs, cosines = config.batch_size, config.hidden_size, model.input_size, config.n_cosines
    rows, ranked, outputs = batch * config.n_quantiles, batch * config.choosing_quantiles, 1 + model.n_actions
    forward = [(batch, inputs, wide), (rows, cosines, wide), (rows, wide, wide), (rows, wide, outputs)]
    shapes = [(batch, inputs, wide), (ranked, wide, wide), (batch, wide, outputs), *forward, *forward]
    shapes += [(rows, outputs, wide), (rows, wide, wide)]  # back through dueling and trunk
    shapes += [(wide, rows, wide), (wide, rows, cosines), (wide, batch, inputs), (outputs, rows, wide)]  # weights
    operands = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def run() -> None:
        for left, right, out in operands:
            torch.mm(left, right, out=out)

    return run


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def updates(hidden: int, rounds: int) -> None:
    """Updates of several kinds, and their products, in turns."""
    settings = {"hidden_size": hidden}
    kinds: dict[str, Callable[[], object]] = {"products": products_of(learner(**settings))}
    kinds["update"] = learner(**settings).train_step
    kinds["update, 2 threads"] = learner(threads=2, **settings).train_step
    kinds["update, bf16"] = learner(precision="bf16", **settings).train_step
    kinds["update, 4 choosing quantiles"] = learner(choosing_quantiles=4, **settings).train_step
    for run in kinds.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, run in kinds.items():
            run()  # the caches are its own
            times[name].append(seconds(run))
    floor = median(times["products"])
    for name, values in times.items():
        ratio = median(values) / floor
        told = f" (bar {BAR:g}: {'reached' if ratio <= BAR else 'MISSED'})" if name == "update" else ""
        print(f"  {name:30} {median(values) * 1e3:7.2f} ms  {ratio:5.2f} times the products{told}")


def play(hidden: int, rounds: int) -> None:
    """An agent-step of play, with world and memory."""
    for lanes in (1, 8, 16):
        for quantiles in (12, 4):
            for epsilon in (0.6, 0.01):
                env = build(lanes, hidden_size=hidden, choosing_quantiles=quantiles)
                env.make_lanes()
                for agent in env.agents:
                    agent.model.epsilon = epsilon
                times = [seconds(lambda: collect_pass(env.game, 0, lanes)) for _ in range(max(4, rounds // lanes))]
                step = median(times) / (lanes * AGENTS * TURNS)
                print(
                    f"  {lanes:2} lanes, {quantiles:2} choosing quantiles, epsilon {epsilon:<4g}: {step * 1e6:6.1f} us"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"an update, {arguments.hidden} wide")
    updates(arguments.hidden, arguments.rounds)
    print("an agent-step of play")
    play(arguments.hidden, arguments.rounds)


if __name__ == "__main__":
    main()
