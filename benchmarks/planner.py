"""Does the planner choose well? The planned run against the best of all plans tried, and against the sequential run.

    python benchmarks/planner.py [--agents 1 2 5 16] [--widths 64 250] [--worlds cheap 1ms] [--lanes 8] [--passes 4]

For each number of agents, width of the network and cost of a world's turn (of CPU), the planner plans a long run. Then all
plans take turns within one process: inline, threads and processes with 1, 2, 4 … workers, and 1, 2, 4 actors where lanes
allow. What is planned is one of them, so both figures of a ratio come from the same runs: the fastest of each plan, because
whatever else uses the machine only slows them down. Start-up is left out (`abreast.bench.reference.speed`).
The bars: at least 0.9 of the best, and never less than 0.95 of the sequential run.
"""

import argparse
import time
from typing import Any

from abreast.bench.reference import speed
from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores
from abreast.training.planning.costs import Candidate

BEST, SEQUENTIAL = 0.9, 0.95
LONG = 100_000
"""Epochs of a run whose start does not count."""
WORLDS = {"cheap": 0.0, "1ms": 1e-3}


class BusyWorld(TreasurehuntWorld):
    """A turn of it takes so many seconds of CPU more."""

    seconds = 0.0

    def transition(self) -> None:
        super().transition()
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass


class SlowWorld(BusyWorld):
    """In which something is simulated, say."""

    seconds = WORLDS["1ms"]


def build(agents: int, width: int, world: str, lanes: int, epochs: int, **parallel: Any) -> TreasurehuntEnv:
    """The reference environment, of that size."""
    config = {
        "experiment": {"epochs": epochs, "max_turns": 50, "num_agents": agents},
        "model": {"algorithm": "iqn", "epsilon_decay": 0.0, "epsilon": 0.1, "gradient_steps": 1, "hidden_size": width},
        "world": {"height": 10, "width": 10, "gem_value": 10.0, "spawn_prob": 0.02},
        "multiprocessing": {"num_envs": lanes, "schedule": "pipelined", "device": "cpu", **parallel},
    }
    kind = SlowWorld if world == "1ms" else TreasurehuntWorld
    return TreasurehuntEnv(kind(config), config)


def all_plans(agents: int, lanes: int) -> list[Candidate]:
    """Those that are tried."""
    counts = sorted({1 << power for power in range(8) if 1 << power <= agents} | {agents, min(agents, cores())})
    actors = [count for count in (1, 2, 4) if count == 1 or lanes % (count * LANES_TOGETHER) == 0]
    found = [Candidate("inline"), *(Candidate("threads", 1, count) for count in counts if count <= max(2, cores()))]
    return found + [Candidate("processes", number, count) for number in actors for count in counts]


def settings_of(plan: Candidate, lanes: int) -> dict[str, Any]:
    """A plan as a user would set it."""
    each = {"workers": plan.workers, "num_actors": plan.num_actors, "num_envs": lanes // plan.num_actors}
    return each | ({"num_workers": plan.num_workers} if plan.num_workers else {})


def compare(agents: int, width: int, world: str, lanes: int, passes: int, repeats: int) -> tuple[float, float]:
    """Print a line, and return the two ratios: of the planned run to the best, and to the sequential run."""
    planned = build(agents, width, world, lanes, LONG)
    plan = planned.plan()
    chosen = Candidate(plan.workers, plan.num_actors, plan.num_workers)
    plans: list[Candidate | None] = [None, *all_plans(agents, lanes)]
    plans += [chosen] if chosen not in plans else []
    epochs = lanes * passes
    envs = {
        each: build(agents, width, world, lanes, epochs, **({} if each is None else settings_of(each, lanes)))
        for each in plans
    }
    speeds: dict[Candidate | None, list[float]] = {each: [] for each in plans}
    for _ in range(repeats):
        for each, env in envs.items():
            speeds[each].append(speed(env, each is not None))
    fastest = {each: max(values) for each, values in speeds.items()}
    best = max(fastest, key=lambda each: fastest[each])
    ratios = fastest[chosen] / fastest[best], fastest[chosen] / fastest[None]
    predicted = (plan.sequential_s or 1.0) / (plan.predicted_s or 1.0)
    name = f"{agents} agents, {width} wide, {world} world"
    print(
        f"{name:34} planned {told(chosen):26} {fastest[chosen]:8,.0f} agent-steps/s, {ratios[0]:.2f} of the best"
        f" ({told(best)}), {ratios[1]:.2f} times sequential; predicted {predicted:.2f}",
        flush=True,
    )
    for each in sorted(fastest, key=lambda each: -fastest[each]):
        print(f"    {told(each):30} {fastest[each]:8,.0f}")
    return ratios


def told(plan: Candidate | None) -> str:
    """A plan in a few words."""
    if plan is None:
        return "sequential"
    if plan.workers == "inline":
        return "inline"
    return f"{plan.num_workers} {plan.workers}" + (f", {plan.num_actors} actors" if plan.num_actors > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 2, 5, 16])
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 250])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{cores()} cores, {arguments.lanes} lanes, pipelined, {arguments.lanes * arguments.passes} epochs a run")
    build(1, 16, "cheap", 1, 3, workers="processes").run_experiment_mp(animate=False, logging=False)  # the fork server
    found = [
        compare(agents, width, world, arguments.lanes, arguments.passes, arguments.repeats)
        for agents in arguments.agents
        for width in arguments.widths
        for world in arguments.worlds
    ]
    for name, bar, lowest in (("best", BEST, min(each[0] for each in found)),
                              ("sequential", SEQUENTIAL, min(each[1] for each in found))):  # fmt: skip
        print(f"bar {bar:g} of {name}: {'reached' if lowest >= bar else 'MISSED'}, lowest {lowest:.2f}")


if __name__ == "__main__":
    main()
