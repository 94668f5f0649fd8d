"""Chapter 9: threads that fight for cores, and how a run is planned.

python docs/guide/09_cores.py
"""

import os
import time

import torch

from abreast.processes.backend import ChildSpec
from abreast.processes.cores import allowed_cores, cores
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, RestartPolicy, Team
from abreast.training.plan import Split, Timing, choose, seconds_of_pass

LEARNERS, PRODUCTS = 5, 8


class Learner:
    """The work of a child: matrix products as in an update of a network 250 wide, with so many threads."""

    def __init__(self, context, threads):
        self.context = context
        torch.set_num_threads(threads)

    def obey(self, key, order):
        rows, weights = torch.ones(768, 250), torch.ones(250, 250)
        started = time.perf_counter()
        for _ in range(PRODUCTS):
            rows @ weights
        self.context.answer(key, (torch.get_num_threads(), time.perf_counter() - started))

    def idle(self):
        return None

    def close(self):
        pass


def train_all(threads):
    """Five learners at once; returns how many threads they compute with in all, and the seconds of the slowest."""
    policy = RestartPolicy(limit=0, silence_s=60)
    team = Team(ProcessBackend("fork"), lambda _: ChildSpec("learner", Learner, (threads,)), LEARNERS, policy)
    team.start()
    for learner in range(LEARNERS):
        team.submit(learner, "train", None)
    answers = []
    while len(answers) < LEARNERS:
        team.wait(1.0)
        answers += [event.value for event in team.events() if isinstance(event, Answered)]
    team.stop()
    return sum(count for count, _ in answers), max(seconds for _, seconds in answers)


def on_one_core(ask):
    """What a function says in a process that may use one core, as in a container or a job of a cluster."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        return ask()
    finally:
        os.sched_setaffinity(0, allowed)


def plan(name, pass_s, round_s, cores):
    """The plan for five agents: `pass_s` seconds to play a pass, `round_s` to train each agent."""
    timing = Timing(pass_s, pass_s, (round_s,) * 5, (0.0005,) * 5, cores, passes_left=1000)
    split = choose(timing, [Split(workers) for workers in range(1, 6)])
    gain = timing.inline_s / seconds_of_pass(timing, split)
    print(f"{name}, {cores} cores: {split.workers} learner processes, {gain:.1f} times as fast as inline")
    return split.workers


def main():
    # The pitfall: every process opens a thread for each core, which is what torch does unless it is told otherwise.
    machine = os.cpu_count()
    threads, seconds = train_all(threads=machine)
    print(
        f"a thread for each core: {threads} threads want {machine} cores, the slowest learner took {seconds * 1e3:.0f} ms"
    )
    assert threads == LEARNERS * machine > machine

    # The second pitfall: the number of cores of the machine is not the number of cores that are ours.
    counted, ours = on_one_core(os.cpu_count), on_one_core(cores)
    print(f"held to one core: os.cpu_count() says {counted}, cores() says {ours}")
    assert ours == 1 and counted == machine and allowed_cores() >= 1

    # Mended: one thread each, and not more processes than pay.
    threads, seconds = train_all(threads=1)
    print(f"one thread each: {threads} threads, the slowest learner took {seconds * 1e3:.0f} ms")
    assert threads == LEARNERS

    assert plan("a tiny network", pass_s=0.050, round_s=0.0002, cores=2) == 0
    few = plan("the reference network", pass_s=0.100, round_s=0.060, cores=2)
    many = plan("the reference network", pass_s=0.100, round_s=0.060, cores=16)
    assert 1 <= few < many <= LEARNERS


if __name__ == "__main__":
    main()
