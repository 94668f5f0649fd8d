"""One GPU: agent-steps per second where worlds and learners live on it, and what limits them.

    python benchmarks/gpu.py                       5 agents and 256, the stacked update for 1 to 256 agents
    python benchmarks/gpu.py --learning            300 epochs of treasure hunt: multiples of random; --device cpu to compare
    python benchmarks/gpu.py --joined              ten seeds of 5 agents at once, one by one, and one run of 50
    python benchmarks/gpu.py --kernels             where the time of a stacked update goes (torch.profiler)
    python benchmarks/gpu.py --device cpu --small  the same code without a GPU, to see that it works

The work: treasure hunt with 50 turns, five stacked views of radius 2, IQN 250 wide, 64 rows, 12 quantiles, one update per
agent and epoch (50 steps). Shares: playing, putting batches together, the rest of learning, of the time of all passes but
the first, in which everything is recorded. The limit is the stacked update alone: if nothing else took any time.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

import torch

from abreast.bench.reference import LEARNER, TURNS
from abreast.games import find_game
from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models import algorithm as find_algorithm
from abreast.models.stacked import Recorded, make_stack
from abreast.models.stacked.learning import LearnerStack
from abreast.training.collect import collect_pass
from abreast.training.joined import run_joined
from abreast.training.learners.base import MakeTrainer
from abreast.training.run.metrics import EpochRecord

SIZES = {5: 10, 16: 14, 64: 24, 256: 44}
"""Cells a side of the map, by agents: as crowded as the reference."""
BARS = {5: 300_000, 256: 1_000_000}
LANES = {5: 1024, 256: 2048}
SEEDS = 3


def build(
    agents: int, lanes: int, device: str, passes: int = 1, batched: bool = True, **model: object
) -> TreasurehuntEnv:
    """The reference game on a device."""
    side = next(size for count, size in SIZES.items() if agents <= count)
    settings = {**LEARNER, "buffer_capacity": max(1024, 2 * TURNS * lanes), **model}
    known = find_algorithm(settings["algorithm"]).Config.model_fields
    config = {
        "experiment": {"epochs": passes * lanes, "max_turns": TURNS, "num_agents": agents},
        "model": {name: value for name, value in settings.items() if name in known},
        "world": {"height": side, "width": side, "gem_value": 10.0, "spawn_prob": 0.02, "batched": batched},
        "multiprocessing": {"num_envs": lanes, "device": device},
    }
    return TreasurehuntEnv(TreasurehuntWorld(config), config)


def seconds_of(call: Callable[[], object], device: str, calls: int) -> float:
    """Of a call, in the mean of some."""
    call()
    _wait(device)
    started = time.perf_counter()
    for _ in range(calls):
        call()
    _wait(device)
    return (time.perf_counter() - started) / calls


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def filled_stack(agents: int, device: str, lanes: int = 32, **model: object) -> LearnerStack:
    """The learners of a game that was played for a pass."""
    env = build(agents, lanes, device, **model)
    collect_pass(env.game, 0, lanes)
    return make_stack([agent.model for agent in env.agents])


def update_rows(device: str, counts: list[int], updates: int) -> Iterator[str]:
    """The stacked update for several numbers of agents, and the single one."""
    alone: float | None = None
    for agents in counts:
        stack = filled_stack(agents, device)
        each = seconds_of(lambda stack=stack: stack.train(updates, lambda: None), device, 2) / updates
        if alone is None:
            model = stack.models[0]
            alone = seconds_of(lambda model=model: [model.train_step() for _ in range(5)], device, 2) / 5
            yield f"update of one agent by itself: {alone * 1e3:.3f} ms"
        yield (
            f"stacked update of {agents:>3} agents: {each * 1e3:7.3f} ms, {agents / each:>9,.0f} agent-updates/s,"
            f" enough for {agents * TURNS / each:>11,.0f} agent-steps/s; {alone * agents / each:5.1f} times as fast as one"
            " by one"
        )
        del stack
        if device != "cpu":
            torch.cuda.empty_cache()


def whole_run(agents: int, lanes: int, device: str, passes: int, **model: object) -> Iterator[str]:
    """Agent-steps per second of a run, and its shares."""
    if device != "cpu":
        gc.collect()  # stacks of other benchmarks, with the memory of their graphs
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    env = build(agents, lanes, device, passes, **model)
    epochs = env.run_experiment(animate=False, logging=False).epochs
    first, last = epochs[lanes - 1], epochs[-1]
    steps, elapsed = last["agent_steps"] - first["agent_steps"], last["time"]["elapsed_s"] - first["time"]["elapsed_s"]
    rate = steps / elapsed
    played, trained = (sum(each["time"][name] for each in epochs[lanes:]) for name in ("collect_s", "train_s"))
    is_sampled = env.agents[0].model.config.algorithm != "ppo"
    sampling = _sampling_seconds(agents, device, lanes, **model) * lanes * (passes - 1) if is_sampled else 0.0
    bar = BARS.get(agents, 0) if model.get("algorithm") == "iqn" else 0
    told = f", the bar is {bar:,}: {'reached' if rate >= bar else 'MISSED'}" if bar and device != "cpu" else ""
    yield f"{agents} agents, {lanes} lanes: {rate:,.0f} agent-steps/s{told}"
    yield (
        f"    playing {played / elapsed:.0%}, putting batches together {sampling / elapsed:.0%}, the rest of learning"
        f" {(trained - sampling) / elapsed:.0%}, records and the rest {1 - (played + trained) / elapsed:.0%}"
    )
    alone = steps / played
    yield f"    playing alone: {alone:,.0f} agent-steps/s"
    if device != "cpu":
        yield f"    memory of the device: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most"


def _sampling_seconds(agents: int, device: str, lanes: int, **model: object) -> float:
    """To put one batch of each agent together."""
    stack = filled_stack(agents, device, min(lanes, 64), **model)
    stack.train(1, lambda: None)
    if stack._rows is None:  # type: ignore[attr-defined]
        return seconds_of(stack._sample, device, 5)  # type: ignore[attr-defined]
    batch = Recorded(lambda: stack._batch() and None, device, (), "a batch")  # type: ignore[attr-defined]
    with torch.no_grad():
        return seconds_of(batch, device, 50)


def rewards(device: str, batched: bool, seeds: int, epochs: int) -> tuple[list[float], float]:
    """What agents get in the last tenth of so many epochs, for each seed, and what random ones get in that world.

    (The reward of random agents differs by 48 from epoch to epoch, so it takes many epochs to know its mean.)
    """
    game, found = find_game("treasurehunt"), []
    settings = [f"multiprocessing.device={device}", f"world.batched={str(batched).lower()}", "model.algorithm=iqn"]
    settings += ["model.n_frames=1"]
    for seed in range(seeds):
        own = [f"experiment.epochs={epochs}", "multiprocessing.num_envs=8", f"experiment.seed={seed}"]
        records = (
            game.build(game.configure(None, [*settings, *own])).run_experiment(animate=False, logging=False).epochs
        )
        found.append(fmean(each["reward"] for each in records[-epochs // 10 :]))
    many = [f"experiment.epochs={10 * epochs}", "multiprocessing.num_envs=50", "model.buffer_capacity=10000"]
    env = game.build(game.configure(None, [*settings, *many]))
    env.act_at_random()
    return found, fmean(each["reward"] for each in env.run_experiment(animate=False, logging=False).epochs)


def rate_of(envs: Sequence[TreasurehuntEnv], device: str) -> tuple[float, list[list[float]]]:
    """Agent-steps per second of runs that learn together, recording of graphs included; and the rewards of each run."""

    def start(env: TreasurehuntEnv, trainer: MakeTrainer) -> list[EpochRecord]:
        env.trainer = trainer
        return env.run_experiment(animate=False, logging=False).epochs

    started = time.perf_counter()
    found = run_joined([partial(start, env) for env in envs])
    _wait(device)
    elapsed = time.perf_counter() - started
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return sum(run[-1]["agent_steps"] for run in found) / elapsed, [[each["reward"] for each in run] for run in found]


def joined_rows(device: str, seeds: int, lanes: int, passes: int, algorithm: str) -> Iterator[str]:
    """Runs that differ in their seed: at once, one after the other, and one run of as many agents."""

    def seeded(seed: int) -> TreasurehuntEnv:
        env = build(5, lanes, device, passes, algorithm=algorithm)
        config = env.config.with_derived(experiment=env.config.experiment.with_derived(seed=seed))
        return TreasurehuntEnv(TreasurehuntWorld(config), config)

    rates = [rate_of([seeded(seed)], device) for seed in range(2)]
    alone = [rewards for _, each in rates for rewards in each]
    one_rate = rates[1][0]  # the first has started the device
    many_rate, at_once = rate_of([seeded(seed) for seed in range(seeds)], device)
    crowd_rate, _ = rate_of([build(5 * seeds, lanes, device, passes, algorithm=algorithm)], device)
    yield f"{algorithm}, {lanes} lanes: {seeds} seeds of 5 agents at once {many_rate:,.0f} agent-steps/s"
    yield f"    {many_rate / one_rate:.2f} times as fast as one after the other ({one_rate:,.0f})"
    ratio = many_rate / crowd_rate
    told = "reached" if ratio >= 0.8 else "MISSED"
    yield f"    {ratio:.2f} of one run with {5 * seeds} agents ({crowd_rate:,.0f}); the bar is 0.8: {told}"
    same = [rewards == other for rewards, other in zip(alone, at_once, strict=False)]
    yield f"    rewards of all epochs equal to the run alone: {', '.join('yes' if each else 'no' for each in same)}"


def kernels(agents: int, device: str) -> str:
    """Where the time of a stacked update goes."""
    from torch.profiler import ProfilerActivity, profile

    stack = filled_stack(agents, device)
    stack.train(4, lambda: None)
    kinds = [ProfilerActivity.CPU] if device == "cpu" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds) as profiled:
        stack.train(20, lambda: None)
        _wait(device)
    order = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
    return str(profiled.key_averages().table(sort_by=order, row_limit=18, max_name_column_width=70))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--agents", type=int, nargs="*", default=[5, 256])
    parser.add_argument("--lanes", type=int, help="of every run; else 1024 for 5 agents, 2048 for 256")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--algorithm", default="iqn", choices=["dqn", "iqn", "ppo"], help="of whole runs")
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--runs", action="store_true", help="whole runs only, without the table of updates")
    parser.add_argument("--learning", action="store_true")
    parser.add_argument("--joined", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--small", action="store_true", help="a few seconds on a CPU")
    given = parser.parse_args()
    device = given.device
    if given.kernels:
        for agents in given.agents:
            print(kernels(agents, device), flush=True)
        return
    if given.joined:
        sizes = (3, 8, 3) if given.small else (10, given.lanes or 256, given.passes)
        for line in joined_rows(device, *sizes, given.algorithm):
            print(line, flush=True)
        return
    if given.learning:
        seeds, epochs = (1, 40) if given.small else (SEEDS, 300)
        found, at_random = rewards(device, device != "cpu", seeds, epochs)
        name = "object world on the CPU" if device == "cpu" else f"batched world on {device}"
        each = ", ".join(f"{reward / at_random:.2f}" for reward in found)
        print(f"{name}: {fmean(found) / at_random:.2f} times random after {epochs} epochs ({each})", flush=True)
        return
    model = {"algorithm": given.algorithm, "precision": given.precision}
    counts, updates = ([1, 2], 2) if given.small else ([1, 2, 5, 16, 64, 256], 64)
    for line in [] if given.runs or given.algorithm != "iqn" else update_rows(device, counts, updates):
        print(line, flush=True)
    for agents in given.agents[: 1 if given.small else None]:
        lanes, passes = (8, 3) if given.small else (given.lanes or LANES.get(agents, 256), given.passes)
        for line in whole_run(agents, lanes, device, passes, **model):
            print(line, flush=True)


if __name__ == "__main__":
    main()
