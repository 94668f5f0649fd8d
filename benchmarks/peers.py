"""What do our algorithms reach in PettingZoo's games, beside RLlib's, each with its defaults and as many agent-steps?

    python benchmarks/peers.py --ours [--steps 72000] [--seeds 5] [--games NAME ...] [--algorithms NAME ...]
    PEER/bin/python benchmarks/peers.py --peer           as long; PEER: pip install "ray[rllib]" torch mpe2 pettingzoo
    python benchmarks/peers.py --table                   what is in the file of results

Each run is a line of `--results` (runs/peers.jsonl) with the settings that it was made with. Runs that are there already
are left out, so a stop loses one run; both sides can write at once.

Both sides: the same environments with their default arguments, an independent learner for each agent, one copy of the
environment, one thread, no GPU. Ours trains as `abreast train pettingzoo:mpe2.GAME model.algorithm=...` does. RLlib: the
new API stack, a module for each agent, no env runners or learners but the main process, else as it comes.

Trained agents then play the same 100 episodes (the same seeds of the environment), in the same loop. They do what seems
best to them (`greedy`); PPO, whose policies are random, also draws its actions as in training, which is how RLlib
evaluates by default (`drawn`).
"""

import argparse
import importlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray

AGENTS = {"simple_spread_v3": 3, "simple_speaker_listener_v4": 2, "simple_reference_v3": 2}
TURNS = 25
"""Of an episode of these games."""
OURS = {"random": (), "ppo": (), "ppo, an update an epoch": ("experiment.train_interval=1",), "dqn": (), "iqn": ()}
"""What is trained of ours, and what is not as it is by default; the first word is the algorithm."""
PEERS = ("ppo",)
EPISODES, FIRST_SEED = 100, 10_000
"""Of the evaluation."""
BATCH = 4000
"""Turns that RLlib's PPO plays before each update, by default."""
TOLD_OF_PEER = {
    *("lr", "gamma", "train_batch_size_per_learner", "minibatch_size", "num_epochs", "lambda_", "clip_param"),
    *("entropy_coeff", "vf_loss_coeff", "vf_clip_param", "use_kl_loss", "kl_coeff", "grad_clip", "grad_clip_by"),
}
"""What a line says of RLlib's settings, beside its network."""

Choose = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, Sequence[int]]]
"""The actions of each agent, given what each sees in all environments."""


def make(game: str) -> Any:
    return importlib.import_module(f"mpe2.{game}").parallel_env()


def play(game: str, choose: Choose) -> list[float]:
    """The mean return of each agent. All episodes are played side by side; they are equally long."""
    envs = [make(game) for _ in range(EPISODES)]
    seen = [env.reset(seed=FIRST_SEED + number)[0] for number, env in enumerate(envs)]
    returns = dict.fromkeys(envs[0].possible_agents, 0.0)
    while envs[0].agents:
        actions = choose({agent: np.stack([each[agent] for each in seen]) for agent in returns})
        for number, env in enumerate(envs):
            seen[number], rewards, *_ = env.step({agent: int(each[number]) for agent, each in actions.items()})
            for agent, reward in rewards.items():
                returns[agent] += float(reward) / EPISODES
    assert not any(env.agents for env in envs)
    return list(returns.values())


# ---- ours


def train_ours(game: str, algorithm: str, seed: int, steps: int) -> dict[str, Any]:
    """One run with our defaults, and what its agents get."""
    from abreast.games import find_game

    epochs = steps // (AGENTS[game] * TURNS) if algorithm != "random" else 1
    found = find_game(f"pettingzoo:mpe2.{game}")
    name = algorithm.partition(",")[0]
    asked = [f"model.algorithm={name}", f"experiment.epochs={epochs}", f"experiment.seed={seed}", *OURS[algorithm]]
    experiment = found.build(found.configure(None, [*asked, "multiprocessing.device=cpu"]))
    config = experiment.config
    assert (config.experiment.num_agents, config.experiment.max_turns) == (AGENTS[game], TURNS)
    experiment.run_experiment(animate=False, logging=False)
    models = [player.model for player in experiment.game.players]

    def choose(seen: Mapping[str, NDArray[Any]]) -> Mapping[str, Sequence[int]]:
        pairs = zip(models, seen.items(), strict=True)
        return {agent: [model.take_action(row) for row in rows] for model, (agent, rows) in pairs}

    for agent, model in enumerate(models):
        model.start_epoch_action(epoch=epochs)  # what was learned last is what chooses
        model.choose_from(np.random.SeedSequence(seed, spawn_key=(agent,)))
    drawn = play(game, choose) if name in ("ppo", "random") else None
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(model.act_greedily())
        greedy = play(game, choose)
    settings = {**config.model.model_dump(), "epochs": epochs, "train_interval": config.experiment.train_interval}
    return {"greedy": greedy, "drawn": drawn, "settings": settings, "versions": versions("abreast")}


# ---- theirs


def train_peer(game: str, algorithm: str, seed: int, steps: int) -> dict[str, Any]:
    """One run with RLlib's defaults, and what its agents get."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    assert algorithm == "ppo"
    register_env(game, lambda config: ParallelPettingZooEnv(make(game)))
    agents = list(make(game).possible_agents)
    config = (
        PPOConfig()
        .environment(game)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .multi_agent(policies=set(agents), policy_mapping_fn=lambda agent, episode, **more: agent)
        .debugging(seed=seed)
    )
    algo = config.build_algo()
    played = 0
    while played < steps:
        played = int(algo.train()["num_env_steps_sampled_lifetime"]) * len(agents)
    modules = {agent: algo.get_module(agent) for agent in agents}
    generator = torch.Generator().manual_seed(seed)

    def choose_from(is_greedy: bool) -> Choose:
        def choose(seen: Mapping[str, NDArray[Any]]) -> Mapping[str, Sequence[int]]:
            chosen = {}
            for agent, rows in seen.items():
                logits = modules[agent].forward_inference({"obs": torch.from_numpy(rows)})["action_dist_inputs"]
                drawn = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
                chosen[agent] = (logits.argmax(dim=1) if is_greedy else drawn).tolist()
            return chosen

        return choose

    with torch.inference_mode():
        drawn, greedy = play(game, choose_from(False)), play(game, choose_from(True))
    assert played == steps and config.train_batch_size_per_learner == BATCH
    settings = {name: getattr(config, name) for name in sorted(TOLD_OF_PEER)} | {"network": str(modules[agents[0]])}
    algo.stop()
    return {"greedy": greedy, "drawn": drawn, "settings": settings, "versions": versions("ray")}


# ---- results


def versions(library: str) -> dict[str, str]:
    names = (library, "torch", "mpe2", "pettingzoo", "numpy", "gymnasium")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("side", "game", "algorithm", "seed", "steps"))


def train_all(
    side: str, games: Sequence[str], algorithms: Sequence[str], seeds: int, steps: int, results: Path
) -> None:
    """All runs of a side that are not in the results yet: first all of one seed, so that a stop leaves a whole table."""
    train = train_ours if side == "ours" else train_peer
    for seed in range(seeds):
        for algorithm in algorithms:
            for game in games:
                run = {"side": side, "game": game, "algorithm": algorithm, "seed": seed, "steps": steps}
                if key(run) in map(key, read(results)):
                    continue
                cpu = time.process_time()
                run |= train(game, algorithm, seed, steps)
                run["cpu_s"] = time.process_time() - cpu
                results.parent.mkdir(parents=True, exist_ok=True)
                with results.open("a") as file:
                    file.write(json.dumps(run, default=str) + "\n")
                print(f"{side} {algorithm} {game} seed {seed}: {sum(run['greedy']):.1f} greedy", flush=True)


def print_table(results: Path, games: Sequence[str], steps: int) -> None:
    """Per game and algorithm, over seeds: the interquartile mean of the sum of agents' returns with its interval, of greedy
    and of drawn actions; the mean of each agent; how often a run is better than one of RLlib's PPO.
    """
    from abreast.training.statistics import (
        improvement_interval,
        interquartile_mean,
        mean,
        probability_of_improvement,
        stratified_interval,
    )

    def with_interval(sums: Sequence[float]) -> str:
        ends = stratified_interval([sums])
        return f"{interquartile_mean(sums):.1f}" + ("" if ends is None else f" [{ends[0]:.1f}, {ends[1]:.1f}]")

    runs = list(
        {key(run): run for run in read(results) if run["steps"] == steps}.values()
    )  # two at once may train one twice
    print(
        "| game | agents | greedy | drawn | each agent | better than RLlib's PPO | CPU s | seeds |\n" + "|---" * 8 + "|"
    )
    for game in games:
        own = [run for run in runs if run["game"] == game]
        theirs = [sum(run["greedy"]) for run in own if run["side"] == "peer" and run["algorithm"] == "ppo"]
        for side, algorithm in (*(("ours", name) for name in OURS), *(("peer", name) for name in PEERS)):
            these = [run for run in own if (run["side"], run["algorithm"]) == (side, algorithm)]
            if not these:
                continue
            greedy = [sum(run["greedy"]) for run in these]
            drawn = [sum(run["drawn"]) for run in these if run["drawn"] is not None]
            kind = "drawn" if algorithm == "random" else "greedy"
            each = ", ".join(f"{mean(values):.1f}" for values in zip(*(run[kind] for run in these), strict=True))
            better, name = "–", f"{'RLlib' if side == 'peer' else 'ours,'} {algorithm[:3].upper()}{algorithm[3:]}"
            if theirs and side == "ours" and algorithm != "random":
                ends = improvement_interval([greedy], [theirs])
                better = f"{probability_of_improvement([greedy], [theirs]):.2f}"
                better += "" if ends is None else f" [{ends[0]:.2f}, {ends[1]:.2f}]"
            columns = [
                game,
                "random" if algorithm == "random" else name,
                "–" if algorithm == "random" else with_interval(greedy),
                with_interval(drawn) if drawn else "–",
                each,
                better,
                f"{mean([run['cpu_s'] for run in these]):.0f}",
                str(len(these)),
            ]
            print("| " + " | ".join(columns) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--ours", action="store_true")
    side.add_argument("--peer", action="store_true")
    side.add_argument("--table", action="store_true")
    parser.add_argument("--steps", type=int, default=72_000, help="agent-steps of a run, of all agents together")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--games", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--algorithms", nargs="+", choices=OURS)
    parser.add_argument("--results", type=Path, default=Path("runs/peers.jsonl"))
    given = parser.parse_args()
    if given.table:
        print_table(given.results, given.games, given.steps)
        return
    whole = math.lcm(*(AGENTS[game] * BATCH for game in given.games))
    if given.steps % whole:
        parser.error(f"--steps is {given.steps}: give a multiple of {whole}, so that both sides play as many.")
    torch.set_num_threads(1)
    if given.peer:
        import ray

        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    algorithms = given.algorithms or list(OURS if given.ours else PEERS)
    train_all("ours" if given.ours else "peer", given.games, algorithms, given.seeds, given.steps, given.results)


if __name__ == "__main__":
    main()
