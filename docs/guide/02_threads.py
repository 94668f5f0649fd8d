"""Chapter 2: why threads do not help here, and when they do.

python docs/guide/02_threads.py
"""

import os
import threading
import time

from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, RestartPolicy, Team
from abreast.processes.threads import ThreadBackend

BEACHES, TURNS = 5, 120


class Beach:
    """The work of a child: a beach of its own with five agents who walk at random. An order says how long to play."""

    def __init__(self, context, seed):
        self.context = context
        experiment = {"max_turns": TURNS, "num_agents": 5, "seed": seed}
        self.env = TreasurehuntEnv.make({"experiment": experiment, "model": {"algorithm": "random"}})

    def obey(self, key, turns):
        self.env.reset()
        for _ in range(turns):
            self.env.take_turn()
            self.context.beat()  # a sign of life
        self.context.answer(key, self.env.world.total_reward)

    def idle(self):
        return None  # nothing to do until the next order

    def close(self):
        pass


class Meeting:
    """The work of a child that waits: for a page, a server, or, here, until all five are waiting at the same time."""

    def __init__(self, context, everybody):
        self.context, self.everybody = context, everybody

    def obey(self, key, order):
        self.everybody.wait(timeout=60)
        self.context.answer(key, "met")

    idle, close = Beach.idle, Beach.close


def play(backend):
    """Play on five beaches, each in a child of its own; returns the rewards, and how many cores this process has used."""

    def spec(number):
        return ChildSpec(f"beach {number}", Beach, (number,))

    return ordered(Team(backend, spec, BEACHES, RestartPolicy(limit=0, silence_s=60)), TURNS)


def ordered(team, order):
    """Give every worker the same order, and wait for all answers."""
    team.start()
    wall, cpu, answers = time.perf_counter(), time.process_time(), {}
    for worker in range(BEACHES):
        team.submit(worker, "order", order)
    while len(answers) < BEACHES:
        team.wait(1.0)
        answers |= {event.worker: event.value for event in team.events() if isinstance(event, Answered)}
    used = (time.process_time() - cpu) / (time.perf_counter() - wall)
    team.stop()
    return [answers[worker] for worker in range(BEACHES)], used


def main():
    # The pitfall: five threads play on five beaches. The interpreter runs one of them at a time.
    rewards, used = play(ThreadBackend())
    print(f"five threads that compute use {used:.2f} of {os.cpu_count()} cores")
    assert used < 1.5, "threads that compute in Python have used more than one core"

    # Threads that wait do so together: this barrier opens only if all five are inside at once.
    everybody = threading.Barrier(BEACHES)

    def spec(number):
        return ChildSpec(f"meeting {number}", Meeting, (everybody,))

    met, _ = ordered(Team(ThreadBackend(), spec, BEACHES, RestartPolicy(limit=0, silence_s=60)), "wait")
    print("five threads that wait:", met)
    assert met == ["met"] * BEACHES

    # Mended: the same children as processes. Each has an interpreter of its own; what they play is the same.
    elsewhere, used = play(ProcessBackend("fork"))
    print(f"five processes: the rewards are the same, {elsewhere == rewards}; this process used {used:.2f} cores")
    assert elsewhere == rewards


if __name__ == "__main__":
    main()
