"""Workers that no node has room for, and those that a node is not fit for; without a cluster."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from abreast.cli import app
from abreast.cluster.backend import RayBackend
from abreast.errors import ConfigError, WorkerInputError
from abreast.processes.backend import ChildSpec
from abreast.processes.team import Answered, Died, RestartPolicy, Team
from abreast.processes.threads import ThreadBackend
from processes.teams import collect, spec


class Full:
    """A connection to a cluster whose nodes never have room."""

    def check_room(self, cpus, gpus):
        """They would, if they were not in use."""

    def actor(self, kind, **options):
        start = SimpleNamespace(remote=lambda *_: SimpleNamespace(future=Future))
        return lambda: SimpleNamespace(start=start)


def test_the_next_of_a_worker_that_no_node_had_room_for_is_near():
    team = Team(RayBackend(Full(), 1, 0, timeout_s=0.1, near=ThreadBackend()), spec, 0, RestartPolicy(3, 30.0))
    try:
        team.add(0)
        team.submit(0, "first", ("echo", 1))
        (died,) = collect(team)
        assert isinstance(died, Died) and died.keys == ("first",) and "no node had room for it" in died.cause
        team.submit(0, "second", ("echo", 2))
        (answered,) = collect(team)
        assert isinstance(answered, Answered) and answered.key == "second"
    finally:
        team.kill()


def test_what_a_worker_refuses_at_its_start_is_one_sentence_and_exit_code_2(monkeypatch, capsys):
    def refuse(context):
        raise ConfigError("there is no module 'hunt'.")

    team = Team(ThreadBackend(), lambda number: ChildSpec("worker 0", refuse), 1, RestartPolicy(3, 30.0))
    with pytest.raises(WorkerInputError) as error:
        team.start()

    def command(*_, **__):
        raise error.value

    monkeypatch.setattr(app, "app", command)
    assert app.run([]) == 2
    assert capsys.readouterr().err == "abreast: worker 0 could not start: there is no module 'hunt'.\n"
