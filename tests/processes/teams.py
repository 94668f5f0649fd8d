"""Teams for tests."""

import time
from pathlib import Path

from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team
from abreast.processes.threads import ThreadBackend
from processes.workers import Obedient, RemoteBackend

BACKENDS = {"process": ProcessBackend, "thread": ThreadBackend, "remote": RemoteBackend}


def spec(number):
    return ChildSpec(f"worker {number}", Obedient, ())


def teams():
    """Makes teams, which are killed at the end; for a fixture."""
    made = []

    def make(backend="process", size=1, spec=spec, limit=3, silence_s=30.0, start=True):
        team = Team(BACKENDS[backend](), spec, size, RestartPolicy(limit, silence_s))
        made.append(team)
        if start:
            team.start()
        return team

    yield make
    for team in made:
        team.kill()


def descriptors():
    """How many file descriptors are open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def collect(team, count=1, within=20.0):
    """The first events, `count` of them."""
    events, end = [], time.monotonic() + within
    while len(events) < count:
        assert time.monotonic() < end, f"only {events}"
        team.wait(end - time.monotonic())
        events += team.events()
    return events
