"""Is the plan of a run as good as the best that can be set? All plans measured, for several games on this machine.

    python benchmarks/planner.py [--agents 1 2 5 16] [--widths 64 250] [--worlds cheap 1ms] [--lanes 8] [--repeats 3]

Each line: what a long run decides for, and how fast runs with that plan are, relative to the best of all plans and to the
sequential run (`abreast bench training` compares these two alone), measured in turns, without their start and their end.
The bars: at least 0.95 of the best, and never less than the sequential run.
"""

import argparse
import time
from typing import Any

from abreast.bench import reference
from abreast.bench.planned import LONG, plan_of
from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores

BEST, SEQUENTIAL = 0.95, 1.0
WORLDS = {"cheap": 0.0, "1ms": 1e-3}


class SlowWorld(TreasurehuntWorld):
    """A turn of it takes so many seconds of CPU more, as if something was simulated."""

    seconds = WORLDS["1ms"]

    def transition(self) -> None:
        super().transition()
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass


def build(agents: int, width: int, world: str, lanes: int, epochs: int, **parallel: Any) -> TreasurehuntEnv:
    """The reference environment, of that size."""
    kind = SlowWorld if world == "1ms" else TreasurehuntWorld
    model = {"hidden_size": width, "epsilon": 0.1}
    return reference.build(lanes, epochs, agents, model=model, parallel=parallel, world=kind)


def all_plans(agents: int, lanes: int) -> list[dict[str, Any]]:
    """Those that are tried, as a user would set them."""
    counts = sorted(
        {1 << power for power in range(8) if 1 << power <= agents}
        | {agents, min(agents, cores()), min(agents, cores() + 1)}
    )
    actors = [count for count in (1, 2, 4) if count == 1 or lanes % (count * LANES_TOGETHER) == 0]
    inline = {"workers": "inline", "num_actors": 1, "num_envs": lanes}
    return [inline] + [
        {"workers": "processes", "num_actors": number, "num_envs": lanes, "num_workers": count}
        for number in actors
        for count in counts
    ]


def compare(agents: int, width: int, world: str, lanes: int, passes: int, repeats: int) -> tuple[float, float]:
    """Print a line, and return the two ratios: of the planned run to the best, and to the sequential run."""
    chosen = plan_of(build(agents, width, world, lanes, LONG)).parallel
    plans = all_plans(agents, lanes)
    plans += [chosen] if chosen not in plans else []
    envs = {"sequential": build(agents, width, world, lanes, lanes * passes)}
    envs |= {name_of(each): build(agents, width, world, lanes, lanes * passes, **each) for each in plans}
    speeds: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(repeats):
        for name, env in envs.items():
            speeds[name].append(reference.speed(env, name != "sequential"))
    fastest = {name: max(values) for name, values in speeds.items()}
    best, planned = max(fastest, key=lambda name: fastest[name]), name_of(chosen)
    ratios = fastest[planned] / fastest[best], fastest[planned] / fastest["sequential"]
    print(
        f"{f'{agents} agents, {width} wide, {world} world':34} planned {planned:26} {fastest[planned]:8,.0f} agent-steps/s,"
        f" {ratios[0]:.2f} of the best ({best}), {ratios[1]:.2f} times sequential",
        flush=True,
    )
    for name in sorted(fastest, key=lambda name: -fastest[name]):
        print(f"    {name:30} {fastest[name]:8,.0f}")
    return ratios


def name_of(plan: dict[str, Any]) -> str:
    """A plan in a few words."""
    if plan["workers"] == "inline":
        return "inline"
    return f"{plan['num_workers']} {plan['workers']}, {plan['num_actors']} actors"


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
