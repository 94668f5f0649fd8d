"""What would 1,000 nodes be worth? A plan by simulation, with costs measured in the same run; and Ray against processes.

    python benchmarks/cluster.py [--repeats 3] [--lanes 8] [--cores 16] [--gbit 10]
    python benchmarks/cluster.py --measure [--repeats 3] [--lanes 8] [--passes 6] [--seconds 0.3]

Measured on this machine: calls of an actor of Ray's, copies in both directions, the update, the pass and the states of the
reference configuration, a turn of the manager. Given: cores of a node, and its network. (On one machine Ray sends nothing
over a network: copies are what they cost the driver.) The model of a pass, in which the driver does one thing at a time:
    actor      agents x lanes x an epoch of one agent, in the driver's process
    driver     a call for each worker; rows out; what was learned in
    network    the same bytes through the driver's network card, in both directions at once; a message
    learners   those of a core one after the other, `lanes` updates each; cores and nodes at the same time
    lockstep = actor + driver + network + learners        pipelined = max(actor + driver, network, learners)
Rollouts: `turns` are those of one worker, one after the other; `driver` is an order for each worker of a batch, or for each
turn of a single episode, and bookkeeping and bytes of each turn. Batches take the sum of the parts, with as many workers as
are best; single episodes, which do not wait for each other, the largest part, with all workers.
The limit is the largest part; speed-ups are against one core that does everything itself. More nodes gain nothing where
the limit is not `learners` or `turns`. What to change then is in `CHANGES`; the last table says what each gains. (For
rollouts: a manager for each group of nodes, since episodes are independent, and several turns to an order.)
"""

import argparse
import json
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from abreast.bench.busy import rounds_for
from abreast.bench.machine import machine_facts, told
from abreast.bench.reference import AGENTS, TURNS, build, speed
from abreast.bench.report import figure, table
from abreast.bench.rollouts import TURNS as EPISODE
from abreast.bench.rollouts import Endless, settings
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, rate_of, seconds_of
from abreast.cluster.config import ClusterConfig
from abreast.cluster.connection import connect
from abreast.display import QUIET, set_volume
from abreast.rollouts import EnvStateManager
from abreast.settings import merge

MANY_AGENTS, MANY_NODES, CALLS, SIZES = (10, 100, 1_000), (1, 10, 100, 1_000), 200, (100_000, 1_000_000, 10_000_000)
EPISODES, TURN_S, TURN_BYTES = (1_000, 10_000, 100_000), (1e-3, 1e-2, 1.0), 2_000
"""Of rollouts; the bytes of a turn (assumed) are a state, an answer and what belongs to them, half of them each way."""
BOTH, ENVS, WORKERS, MICROSECONDS, LOCAL = ("processes", "ray"), 16, 2, (10_000, 1_000, 100), {"address": "local"}
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "8 actors on nodes share the lanes; each is sent all weights": {"actors": 8},
    "weights in half precision, or differences of that size": {"share": 0.5},
    "passes of 8 times the lanes: experience is older": {"longer": 8},
    "32 sub-drivers pass on orders and copies, each for its nodes": {"drivers": 32},
    "64 actors, which get weights from learners, not by the driver": {"actors": 64, "is_direct": True},
    "all of these": {"actors": 64, "share": 0.5, "longer": 8, "drivers": 32, "is_direct": True},
}
Parts = dict[str, float]


Costs = namedtuple("Costs", "message call out_byte in_byte play update rows learned turn")
"""Seconds and bytes: a call and its answer; one of many calls under way; an epoch and an update of one agent; what an agent
remembers of an epoch; what a learner publishes; bookkeeping of a turn."""


class Far:
    def take(self, data: Any) -> None: ...

    def give(self, size: int) -> Any:
        return np.zeros(size, dtype=np.uint8)


def measured_costs(repeats: int, lanes: int) -> Costs:
    ray = connect(ClusterConfig(**LOCAL)).ray
    far = ray.remote(num_cpus=0)(Far).remote()
    calls: dict[str, Callable[[], object]] = {"a call and its answer": lambda: ray.get(far.take.remote(None))}
    calls[f"{CALLS} calls"] = lambda: ray.get([far.take.remote(None) for _ in range(CALLS)])
    for size in SIZES:
        data = np.zeros(size, dtype=np.uint8)
        calls[f"{size:,} bytes out"] = partial(lambda each: ray.get(far.take.remote(each)), data)
        calls[f"{size:,} bytes in"] = partial(lambda each: ray.get(far.give.remote(each)).copy(), size)
    variants = {name: partial(seconds_of, call, 5) for name, call in calls.items()}
    in_turns(variants, 1)  # the actor starts
    seconds = {name: median(values) for name, values in in_turns(variants, repeats).items()}
    show("Ray on this machine", "what,ms", [[name, each * 1e3] for name, each in seconds.items()])
    message, largest = seconds["a call and its answer"], SIZES[-1]
    copies = ((seconds[f"{largest:,} bytes {way}"] - message) / largest for way in ("out", "in"))
    timings = []
    for _ in range(repeats):
        with TemporaryDirectory() as folder:  # what a run measures of itself
            env = build(lanes, 6 * lanes)
            env.run_experiment_mp(animate=False, output_dir=folder)
            timings.append(json.loads((Path(folder) / "plan.json").read_text())["timing"])
    play = median(each["pass_s"] for each in timings) / (AGENTS * lanes)
    update = median(sum(each["round_s"]) for each in timings) / (AGENTS * lanes)
    model: Any = env.agents[0].model
    row = sum(field.nbytes for field in model.memory.ring.fields.values()) / model.memory.ring.rows / lanes
    learned = sum(array.nbytes for array in model.learning_state().arrays.values())
    with EnvStateManager(merge(settings(0, 256, 1), {"es_manager": {"use_multiprocessing": False}})) as manager:
        turn = median(seconds_of(Endless(manager, 256).batch, 20) for _ in range(repeats)) / 256
    return Costs(message, seconds[f"{CALLS} calls"] / CALLS, *copies, play, update, row * TURNS, learned, turn)


def training(
    costs: Costs, agents: int, nodes: int, given: argparse.Namespace,
    actors: int = 1, share: float = 1.0, longer: int = 1, drivers: int = 1, is_direct: bool = False,
) -> tuple[Parts, float]:  # fmt: skip
    """The parts of a pass and its round, and what they take when they overlap; `share`: of the bytes of what was learned."""
    lanes, learned = given.lanes * longer, agents * costs.learned * share
    out = agents * lanes * costs.rows + (actors - 1) * learned
    copies = 0.0 if is_direct else out * costs.out_byte + learned * costs.in_byte
    calls = (min(agents, nodes * given.cores) + actors - 1) * costs.call
    card = learned if is_direct else max(out, learned) / drivers  # an actor's; the driver's
    parts = {
        "actor": agents * lanes * costs.play / actors,
        "driver": (calls + copies) / drivers + (drivers - 1) * costs.call,
        "network": costs.message * (1 + (drivers > 1)) + card * 8e-9 / given.gbit,
        "learners": ceil(ceil(agents / nodes) / given.cores) * lanes * costs.update,
    }
    return parts, max(parts["actor"] + parts["driver"], parts["network"], parts["learners"])


def rollouts(costs: Costs, episodes: int, turn_s: float, workers: int, gbit: float, is_batch: bool) -> Parts:
    """The parts of one turn of each episode."""
    orders, copies = workers if is_batch else episodes, TURN_BYTES / 2 * (costs.out_byte + costs.in_byte)
    return {
        "turns": ceil(episodes / workers) * turn_s,
        "driver": orders * costs.call + episodes * (costs.turn + copies),
        "network": costs.message + episodes * TURN_BYTES / 2 * 8e-9 / gbit,
    }


def limited(parts: Parts) -> list[object]:
    return [max(parts, key=parts.__getitem__), *parts.values()]


def show(title: str, headings: str, rows: Sequence[Sequence[object]]) -> None:
    made = Table(box=None, title=title, title_justify="left")
    for heading in headings.split(","):
        made.add_column(heading, justify="right")
    for row in rows:
        made.add_row(*(figure(each) if isinstance(each, float) else str(each) for each in row))
    Console(width=150).print(made, "")


def simulate(given: argparse.Namespace) -> None:
    costs = measured_costs(given.repeats, given.lanes)
    show("measured: seconds and bytes", ",".join(Costs._fields), [[f"{each:.3g}" for each in costs]])
    epoch_s, rows, named = costs.play + costs.update, [], "limit,actor s,driver s,network s,learners s"
    for agents, nodes in product(MANY_AGENTS, MANY_NODES):
        parts, least = training(costs, agents, nodes, given)
        gain = agents * given.lanes * epoch_s / least
        rows.append([agents, nodes, sum(parts.values()), least, gain, *limited(parts)])
    show("training: a pass", f"agents,nodes,lockstep s,pipelined s,speed-up,{named}", rows)
    rows = []
    for episodes, turn_s, nodes in product(EPISODES, TURN_S, MANY_NODES):
        most = min(nodes * given.cores, episodes)
        counts = {most} | {1 << power for power in range(most.bit_length())}
        every = {count: rollouts(costs, episodes, turn_s, count, given.gbit, is_batch=True) for count in counts}
        best = min(every, key=lambda count: sum(every[count].values()))
        single = episodes / max(rollouts(costs, episodes, turn_s, most, given.gbit, is_batch=False).values())
        batch, case = episodes / sum(every[best].values()), [episodes, f"{turn_s * 1e3:g} ms", nodes, best]
        rows.append([*case, single, batch, batch * (turn_s + costs.turn), *limited(every[best])])
    heads = "episodes,a turn,nodes,workers,single turns/s,turns/s in batches,speed-up,limit,turns s,driver s,network s"
    show("rollouts: turns of single episodes, and batches with so many workers", heads, rows)
    rows, agents, nodes = [], MANY_AGENTS[-1], MANY_NODES[-1]
    for name, change in CHANGES.items():
        parts, least = training(costs, agents, nodes, given, **change)
        epochs = agents * given.lanes * change.get("longer", 1) / least
        rows.append([name, epochs * TURNS, epochs * epoch_s, *limited(parts)])
    show(f"{agents:,} agents, {nodes:,} nodes, pipelined", f"what to change,agent-steps/s,speed-up,{named}", rows)


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """Ray on this machine against processes."""
    found, epochs = dict[str, dict[str, list[float]]](), given.passes * given.lanes
    for schedule in ("lockstep", "pipelined"):
        both = {"schedule": schedule, "num_workers": WORKERS, "num_actors": 1, "cluster": {**LOCAL, "workers_here": 0}}
        envs = {name: build(given.lanes, epochs, parallel={**both, "workers": name}) for name in BOTH}
        runs = {name: partial(speed, env, True) for name, env in envs.items()}
        found[f"{schedule}, agent-steps/s"] = in_turns(runs, given.repeats)
    for microseconds in MICROSECONDS:
        config, variants = settings(rounds_for(microseconds), ENVS, WORKERS), {}
        with ExitStack() as stack:
            for name, use in (*((name, True) for name in BOTH), ("ray, as placed", "auto")):
                backend = {"backend": name.partition(",")[0], "cluster": LOCAL}
                own = {"es_manager": {"use_multiprocessing": use, **backend}}
                batch = Endless(stack.enter_context(EnvStateManager(merge(config, own))), ENVS).batch
                for _ in range(2 * EPISODE + 1 if use == "auto" else 1):  # it has decided; workers have started
                    batch()
                variants[name] = partial(rate_of, batch, given.seconds)
            found[f"{ENVS} environments of {microseconds:,} µs, batches/s"] = in_turns(variants, given.repeats)
    for what, values in found.items():
        name, unit = what.rsplit(", ", 1)
        yield Row(f"{name}, processes", unit, values["processes"])
        for each in [each for each in values if each != "processes"]:
            yield Row(f"{name}, {each}", unit, values[each], quotients(values[each], values["processes"]), "processes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="Ray against processes, on this machine.")
    for name, kind, usual in (("repeats", int, 3), ("lanes", int, 8), ("passes", int, 6), ("seconds", float, 0.3),
                              ("cores", int, 16), ("gbit", float, 10.0)):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=usual)
    given = parser.parse_args()
    set_volume(QUIET)
    print(told(machine_facts()))
    if given.measure:
        Console(width=140).print(table("Ray on this machine, against processes", list(measure(given))))
    else:
        simulate(given)


if __name__ == "__main__":
    main()
