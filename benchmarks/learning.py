"""Do agents learn as fast as those of other libraries? Tasks of the field, ours beside Stable-Baselines3 at the same steps.

    python benchmarks/learning.py run --output DIR [--tasks NAME ...] [--seeds 5] [--workers 2] [--zoo] [--longest SECONDS]
    python benchmarks/learning.py table --output DIR      what was run so far, as a table

Every cell is a task, an algorithm, a library and a seed: a process of one thread, whose result is a line of
DIR/results.jsonl. Those that are there are not run again, so a run that was stopped goes on. What is not installed
(Stable-Baselines3, Box2D, MuJoCo, a task's package) is skipped by name.

Both libraries train at their defaults for the same number of steps of the environment, and are then evaluated in the same
way: 20 episodes of other seeds, value learners greedily, PPO and SAC by their own policies. Tasks with several agents have
no counterpart in Stable-Baselines3: there, random agents are the comparison. With --zoo, both have the settings that rl-zoo
publishes for CartPole, Acrobot, LunarLander and Pendulum, ours in our own words (`ZOO`).

`final` is the mean return of the evaluation, `area` the mean return of all episodes of the training, weighted by their
steps. Intervals are 95 %, bootstrapped over the seeds.
"""

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

EPISODES = 20
"""Of an evaluation."""


@dataclass(frozen=True)
class Task:
    """What is learned, and how long."""

    target: str
    steps: int
    algorithms: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Packages."""
    settings: tuple[str, ...] = ()
    """Of ours: of the environment, not of the algorithm."""
    single: str | None = None
    """Gymnasium's name of the environment, if it has one agent."""
    goals: Mapping[str, float] = field(default_factory=dict)
    """Return to reach, by algorithm."""


HERE = Path(__file__).parent
FORAGING = f"pettingzoo:{HERE / 'external' / 'foraging.py'}:make"
DISCRETE, CONTINUOUS = ("ppo", "dqn", "iqn"), ("ppo", "sac")
TASKS = {
    "CartPole": Task(
        "gymnasium:CartPole-v1", 100_000, DISCRETE, single="CartPole-v1", goals={"ppo": 475, "dqn": 400, "iqn": 400}
    ),
    "Acrobot": Task(
        "gymnasium:Acrobot-v1", 100_000, DISCRETE, single="Acrobot-v1", goals=dict.fromkeys(DISCRETE, -100)
    ),
    "LunarLander": Task(
        "gymnasium:LunarLander-v3",
        500_000,
        DISCRETE,
        ("Box2D",),
        single="LunarLander-v3",
        goals=dict.fromkeys(DISCRETE, 200),
    ),
    "MountainCarContinuous": Task(
        "gymnasium:MountainCarContinuous-v0", 50_000, CONTINUOUS, single="MountainCarContinuous-v0"
    ),
    "Pendulum": Task("gymnasium:Pendulum-v1", 20_000, CONTINUOUS, single="Pendulum-v1", goals={"sac": -200}),
    "Hopper": Task("gymnasium:Hopper-v5", 50_000, CONTINUOUS, ("mujoco",), single="Hopper-v5"),
    "simple_spread": Task("pettingzoo:mpe2.simple_spread_v3", 100_000, DISCRETE, ("mpe2",)),
    "simple_adversary": Task("pettingzoo:mpe2.simple_adversary_v3", 100_000, DISCRETE, ("mpe2",)),
    "Foraging 5x5": Task(
        FORAGING, 150_000, DISCRETE, ("lbforaging",), ("world.name=Foraging-5x5-2p-1f-v3",), goals={"ppo": 0.85}
    ),
    "Foraging 8x8": Task(FORAGING, 150_000, DISCRETE, ("lbforaging",), ("world.name=Foraging-8x8-2p-1f-v3",)),
    "Foraging 5x5 coop": Task(FORAGING, 150_000, DISCRETE, ("lbforaging",), ("world.name=Foraging-5x5-2p-1f-coop-v3",)),
    "Breakout": Task(f"gymnasium:{HERE / 'external' / 'minatar_game.py'}:make", 200_000, DISCRETE, ("minatar",)),
    "treasurehunt": Task("treasurehunt", 30_000, DISCRETE),
}
OTHERS = {"Foraging", "simple_spread", "simple_adversary", "treasurehunt"}
"""Tasks with several agents begin with one of these."""
WIDE = {"policy_kwargs": {"net_arch": [256, 256]}}
COPIED = ("model.target_rate=0", "model.hidden_size=256", "model.n_step=1", "model.anneal=[]")
ZOO: dict[tuple[str, str], tuple[int, tuple[str, ...], dict[str, Any]]] = {
    ("CartPole", "dqn"): (
        50_000,
        (*COPIED, "model.learning_rate=0.0023", "model.buffer_capacity=100000", "model.learning_starts=1000",
         "model.target_interval=128", "model.train_freq=256", "model.gradient_steps=128", "model.exploration_fraction=0.16",
         "model.epsilon_min=0.04"),
        {**WIDE, "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000,
         "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
         "exploration_final_eps": 0.04},
    ),
    **{
        (task, "dqn"): (
            100_000,
            (*COPIED, "model.learning_rate=0.00063", "model.batch_size=128", "model.buffer_capacity=50000",
             "model.learning_starts=0", "model.target_interval=250", "model.train_freq=4", "model.gradient_steps=-1",
             "model.exploration_fraction=0.12", "model.epsilon_min=0.1"),
            {**WIDE, "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
             "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
             "exploration_final_eps": 0.1},
        )
        for task in ("Acrobot", "LunarLander")
    },
    ("CartPole", "ppo"): (
        100_000,
        ("multiprocessing.num_envs=8", "model.n_steps=256", "model.batch_size=256", "model.gae_lambda=0.8",
         "model.gamma=0.98", "model.gradient_steps=20", "model.entropy_weight=0", "model.learning_rate=0.001",
         "model.anneal=[learning_rate,clip]"),
        {"n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
         "learning_rate": lambda left: left * 1e-3, "clip_range": lambda left: left * 0.2},
    ),
    ("Pendulum", "sac"): (20_000, ("model.learning_rate=0.001",), {"learning_rate": 1e-3}),
}  # fmt: skip
"""By task and algorithm: steps, our settings, and the arguments of Stable-Baselines3. A target is copied every so many steps
of the environment there, and gradient steps here."""


@dataclass(frozen=True)
class Cell:
    """One run."""

    task: str
    algorithm: str
    library: str
    seed: int
    zoo: bool = False

    @property
    def name(self) -> str:
        return "/".join(map(str, (self.task, self.algorithm + ("-zoo" if self.zoo else ""), self.library, self.seed)))


# ---- runs


def ours(cell: Cell, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train ours, and evaluate it."""
    from abreast.games import find_game
    from abreast.training.evaluate import evaluate

    task = TASKS[cell.task]
    steps, settings = task.steps, (*task.settings, *overrides)
    if cell.zoo:
        steps, own, _ = ZOO[cell.task, cell.algorithm]
        settings = (*settings, *own)
    given = [f"model.algorithm={cell.algorithm}", f"experiment.max_steps={steps}", f"experiment.seed={cell.seed}"]
    given.append("multiprocessing.device=cpu")  # as Stable-Baselines3 here
    game = find_game(task.target)
    env = game.build(game.configure(None, [*given, *settings]))
    started = time.perf_counter()
    result = env.run_experiment(animate=False, logging=False)
    seconds = time.perf_counter() - started
    curve = [[record["steps"], record["reward"]] for record in result.epochs]
    final = [
        float(sum(rewards))
        for rewards in zip(*(agent.values for agent in evaluate(env, EPISODES, 1000).agents), strict=True)
    ]
    return {"curve": curve, "final": final, "seconds": seconds, "updates": result.epochs[-1]["updates"]}


def random_agents(cell: Cell) -> dict[str, Any]:
    """What random agents get."""
    from abreast.games import find_game
    from abreast.training.evaluate import evaluate

    task = TASKS[cell.task]
    game = find_game(task.target)
    env = game.build(game.configure(None, ["model.algorithm=random", f"experiment.seed={cell.seed}", *task.settings]))
    found = evaluate(env, EPISODES, 1000 + cell.seed).agents
    final = [float(sum(rewards)) for rewards in zip(*(agent.values for agent in found), strict=True)]
    return {"curve": [[task.steps, float(np.mean(final))]], "final": final, "seconds": 0.0, "updates": 0}


def sb3(cell: Cell) -> dict[str, Any]:
    """Train Stable-Baselines3's, and evaluate it."""
    import gymnasium
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    task, steps, arguments = TASKS[cell.task], TASKS[cell.task].steps, {}
    if cell.zoo:
        steps, _, arguments = ZOO[cell.task, cell.algorithm]
    arguments = dict(arguments)
    curve: list[list[float]] = []

    class Watch(gymnasium.Wrapper):
        """Keeps the returns of episodes."""

        total, count = 0.0, 0

        def step(self, action: Any) -> Any:
            result = self.env.step(action)
            self.total += float(result[1])
            Watch.count += 1
            if result[2] or result[3]:
                curve.append([Watch.count, self.total])
                self.total = 0.0
            return result

        def reset(self, **given: Any) -> Any:
            self.total = 0.0
            return self.env.reset(**given)

    env: Any = lambda: Watch(gymnasium.make(task.single))  # noqa: E731
    lanes = arguments.pop("n_envs", 1)
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    venv: Any = DummyVecEnv([env] * lanes)
    if arguments.pop("normalize", False):
        venv = VecNormalize(venv, gamma=arguments.get("gamma", 0.99))
    model = getattr(stable_baselines3, cell.algorithm.upper())(
        "MlpPolicy", venv, seed=cell.seed, device="cpu", **arguments
    )
    started = time.perf_counter()
    model.learn(steps)
    seconds = time.perf_counter() - started
    final = []
    test = gymnasium.make(task.single)
    for episode in range(EPISODES):
        seen, _ = test.reset(seed=10_000 * cell.seed + episode)
        total, over = 0.0, False
        while not over:
            shown = venv.normalize_obs(seen) if hasattr(venv, "normalize_obs") else seen
            action, _ = model.predict(shown, deterministic=cell.algorithm == "dqn")
            seen, reward, terminated, truncated, _ = test.step(action)
            total, over = total + float(reward), terminated or truncated
        final.append(total)
    return {"curve": curve, "final": final, "seconds": seconds, "updates": int(getattr(model, "_n_updates", 0))}


LIBRARIES: dict[str, Callable[[Cell], dict[str, Any]]] = {"abreast": ours, "sb3": sb3, "random": random_agents}


def work(cell: Cell) -> dict[str, Any]:
    """Run a cell in a process of its own."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    try:
        found = LIBRARIES[cell.library](cell)
    except Exception:
        return {**vars(cell), "error": traceback.format_exc()}
    curve = found.pop("curve")
    return {
        **vars(cell),
        **found,
        "area": area(curve),
        "first": part(curve, 0.0, 0.1),
        "last": part(curve, 0.9, 1.0),
        "curve": thinned(curve),
    }


def area(curve: list[list[float]]) -> float:
    """The mean return over all steps."""
    ends = np.array([step for step, _ in curve], dtype=float)
    weights = np.diff(ends, prepend=0.0)
    return float(np.average([reward for _, reward in curve], weights=np.maximum(weights, 1e-9)))


def part(curve: list[list[float]], low: float, high: float) -> float:
    """The mean return of the episodes that ended in a part of the steps."""
    last = curve[-1][0]
    found = [reward for step, reward in curve if low * last <= step <= high * last]
    return float(np.mean(found)) if found else float("nan")


def thinned(curve: list[list[float]], points: int = 50) -> list[list[float]]:
    """So many means of returns, at equal distances of steps."""
    last, found = curve[-1][0], []
    for number in range(points):
        mean = part(curve, number / points, (number + 1) / points)
        found.append([round(last * (number + 1) / points), mean])
    return found


def cells(tasks: list[str], seeds: int, zoo: bool, only: list[str] | None = None) -> Iterator[Cell]:
    """All cells, those of all seeds of a task after each other."""
    for name in tasks:
        for seed in range(seeds):
            algorithms = [algorithm for task, algorithm in ZOO if task == name] if zoo else TASKS[name].algorithms
            for algorithm in algorithms:
                if only and algorithm not in only:
                    continue
                yield Cell(name, algorithm, "abreast", seed, zoo)
                if TASKS[name].single and algorithm != "iqn":
                    yield Cell(name, algorithm, "sb3", seed, zoo)
            if not zoo:
                yield Cell(name, "random", "random", seed)


def is_there(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    tasks = [
        name
        for name in options.tasks or TASKS
        if not (gone := [each for each in TASKS[name].needs if not is_there(each)])
        or print(f"{name} is skipped: {', '.join(gone)} is not installed")
    ]
    libraries = {"abreast", "random"} | ({"sb3"} if is_there("stable_baselines3") else set())
    if "sb3" not in libraries:
        print("Stable-Baselines3 is skipped: it is not installed")
    done = {
        Cell(**{key: each[key] for key in ("task", "algorithm", "library", "seed", "zoo")})
        for each in results(options.output)
    }
    left = [
        each
        for each in cells(tasks, options.seeds, options.zoo, options.only)
        if each not in done and each.library in libraries
    ]
    left.sort(key=lambda each: -TASKS[each.task].steps * (each.library == "sb3" or each.algorithm in ("sac", "iqn")))
    options.output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + options.longest
    with (
        ProcessPoolExecutor(options.workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
        (options.output / "results.jsonl").open("a") as file,
    ):
        waiting = {pool.submit(work, each): each for each in left}
        try:
            for future in as_completed(waiting, timeout=options.longest):
                found = future.result()
                if "error" in found:
                    print(waiting[future].name, found["error"], flush=True)
                    continue
                file.write(json.dumps(found) + "\n")
                file.flush()
                print(
                    f"{waiting[future].name:<40} final {np.mean(found['final']):9.2f}  last tenth {found['last']:9.2f}"
                    f"  {found['seconds']:6.0f} s",
                    flush=True,
                )
        except TimeoutError:
            print(f"stopped after {time.monotonic() - until + options.longest:.0f} s: run it again to go on")
            for process in list(pool._processes.values()):
                process.kill()
            os._exit(0)


def results(folder: Path) -> list[dict[str, Any]]:
    """The lines there are."""
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


# ---- what came out


def interval(values: list[float], draws: int = 10_000) -> tuple[float, float]:
    """95 % of the means of samples drawn with replacement."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (draws, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def table(folder: Path) -> str:
    """Return the table of all cells."""
    found: dict[tuple[str, str, bool], dict[str, list[dict[str, Any]]]] = {}
    for each in results(folder):
        found.setdefault((each["task"], each["algorithm"], each["zoo"]), {}).setdefault(each["library"], []).append(
            each
        )
    lines = [
        "| task | algorithm | steps | random | ours | Stable-Baselines3 | difference | goal | seeds |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, task in TASKS.items():
        rows = [(algorithm, zoo) for (of, algorithm, zoo) in found if of == name and algorithm != "random"]
        chance = found.get((name, "random", False), {}).get("random", [])
        for algorithm, zoo in sorted(rows, key=lambda row: (row[1], row[0])):
            cell = found[name, algorithm, zoo]
            mine, theirs = (
                [float(np.mean(each["final"])) for each in cell.get(library, [])] for library in ("abreast", "sb3")
            )
            if not mine:
                continue
            told = [
                f"{np.mean(values):.4g} [{interval(values)[0]:.4g}, {interval(values)[1]:.4g}]" if values else "–"
                for values in (mine, theirs)
            ]
            difference = "–"
            if theirs:
                rng = np.random.default_rng(0)
                draws = rng.choice(mine, (10_000, len(mine))).mean(axis=1) - rng.choice(
                    theirs, (10_000, len(theirs))
                ).mean(axis=1)
                low, high = np.percentile(draws, [2.5, 97.5])
                difference = f"[{low:.4g}, {high:.4g}]" + (" **worse**" if high < 0 else "")
            goal = "" if zoo else task.goals.get(algorithm, "")
            random = f"{np.mean([np.mean(each['final']) for each in chance]):.4g}" if chance else "–"
            steps = ZOO[name, algorithm][0] if zoo else task.steps
            shown = [name, algorithm + ", rl-zoo" * zoo, f"{steps:,}", random, *told, difference, goal, len(mine)]
            lines.append(f"| {' | '.join(map(str, shown))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tasks", nargs="*", choices=TASKS)
    parser.add_argument("--only", nargs="*", help="algorithms")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--longest", type=float, default=1e9, help="seconds, after which it stops")
    options = parser.parse_args()
    if options.what == "run":
        run(options)
    elif options.what == "table":
        print(table(options.output))


if __name__ == "__main__":
    sys.exit(main())
