"""Chapter 7: determinism. Streams, rounding, threads, order.

python docs/guide/07_determinism.py
"""

import numpy as np
import torch

from abreast.games.treasurehunt import TreasurehuntEnv

AGENTS, TURNS = 5, 20


def make_env(**parallel):
    model = {"algorithm": "dqn", "hidden_size": 16, "n_frames": 1, "batch_size": 8, "gradient_steps": 1, "epsilon": 0.1}
    experiment = {"epochs": 4, "max_turns": TURNS, "num_agents": AGENTS, "seed": 3}
    return TreasurehuntEnv.make(
        {"experiment": experiment, "model": {**model, "learning_rate": 0.05}, "multiprocessing": parallel}
    )


def actions(generators, explorers):
    """What each agent does. One that explores draws a second number; the others take action 0."""
    chosen = [[] for _ in range(AGENTS)]
    for _ in range(TURNS):
        for agent, rng in enumerate(generators):
            explores = rng.random() < 0.5
            chosen[agent].append(int(rng.integers(4)) if explores and agent in explorers else 0)
    return chosen


def one_generator(explorers):
    """As it is often written first: `np.random.seed(3)`, or one generator that is handed around."""
    return actions([np.random.default_rng(3)] * AGENTS, explorers)


def own_generators(explorers):
    """A stream for each agent, by its number: it does not matter what the others draw, or how many there are."""
    env = make_env()
    return actions([np.random.default_rng(env.agent_seed(agent)) for agent in range(AGENTS)], explorers)


def total(gradients, order):
    """The sum of what five workers have computed, added in this order."""
    result = np.zeros_like(gradients[0])
    for worker in order:
        result += gradients[worker]
    return result


def run(way, **parallel):
    """Every reward and every weight of a run."""
    env = make_env(**parallel)
    epochs = getattr(env, way)(animate=False, logging=False).epochs
    weights = b"".join(agent.model.online_block.values.detach().numpy().tobytes() for agent in env.agents)
    return [epoch["reward_per_agent"] for epoch in epochs], weights


def main():
    everybody, others = {0, 1, 2, 3, 4}, {1, 2, 3, 4}

    # Pitfall 1: agent 0 stops exploring, and agents 1 to 4, of whom nothing was changed, act differently.
    before, after = one_generator(everybody)[1:], one_generator(others)[1:]
    print("one generator: agents that act differently:", sum(map(list.__ne__, before, after)), "of 4")
    assert before != after
    before, after = own_generators(everybody)[1:], own_generators(others)[1:]
    print("own streams:   agents that act differently:", sum(map(list.__ne__, before, after)), "of 4")
    assert before == after

    # Pitfall 2: results are added as they arrive. Numbers of a computer are rounded after every addition.
    gradients = np.random.default_rng(0).normal(size=(AGENTS, 1000)).astype(np.float32)
    first, second = total(gradients, [0, 1, 2, 3, 4]), total(gradients, [3, 0, 4, 1, 2])
    print(
        f"order of arrival: {np.mean(first != second):.0%} of the sums differ, by at most {abs(first - second).max():.1g}"
    )
    assert (first != second).any()
    arrived = {worker: gradients[worker] for worker in [3, 0, 4, 1, 2]}
    assert (total(arrived, sorted(arrived)) == first).all()  # by number, whoever came first

    # Not asserted, because it depends on the processor: the same row, alone, among others, and with more threads.
    rows, weights = torch.randn(64, 125), torch.randn(125, 250)
    results = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results |= {f"64 rows, {threads} thread(s)": (rows @ weights)[0], f"alone, {threads}": (rows[:1] @ weights)[0]}
    one = results["64 rows, 1 thread(s)"]
    print("the same row as in 64 rows with 1 thread:", {name: torch.equal(each, one) for name, each in results.items()})

    # Mended: streams by number, sums in a fixed order, shapes and threads as configured. The same bits wherever it runs.
    torch.set_num_threads(1)
    plain = run("run_experiment")
    in_threads = run("run_experiment_mp", schedule="lockstep", workers="threads", num_workers=2)
    print("lockstep in threads is the sequential run:", in_threads == plain)
    assert in_threads == plain
    alone = run("run_experiment_mp", schedule="pipelined", workers="threads", num_workers=1)
    shared = run("run_experiment_mp", schedule="pipelined", workers="threads", num_workers=5)
    print("pipelined with 1 worker is the same as with 5:", alone == shared, "and as sequential:", alone == plain)
    assert alone == shared != plain


if __name__ == "__main__":
    main()
