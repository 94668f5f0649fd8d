"""Training on a cluster of two nodes: whatever dies there, the result is that of one thread. (Other subjects: promises/.)"""

import json
import math
import random

import pytest

from abreast.cluster import backend
from abreast.cluster.backend import RayChild
from abreast.cluster.connection import Link
from abreast.cluster.host import Echo
from abreast.errors import ConfigError, WorkerError, WorkerInputError
from abreast.processes.process import ProcessChild
from abreast.training import plan as plan_module
from abreast.training.plan import Split, Timing, choose, seconds_of_pass
from fakes import outcome, small_game
from nodes import Harm, nodes, on_nodes
from promises.cover import IS_FULL
from trace_events import checked

pytestmark = pytest.mark.xdist_group("ray")
SMALL = ("model.algorithm=dqn", "experiment.epochs=24", "experiment.checkpoint_interval=4", "model.epsilon=0.3")
SMALL += ("multiprocessing.num_workers=1", "multiprocessing.num_envs=4", "multiprocessing.num_actors=2")
TWO_LEARNERS = "multiprocessing.num_workers=2"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"] if IS_FULL else ["pipelined"])
def test_a_lost_node_and_a_killed_actor_change_nothing(schedule, hosts, caplog):
    settings = (*SMALL, f"multiprocessing.schedule={schedule}", "multiprocessing.max_restarts=1000")
    at = (5, 11)
    if IS_FULL:
        settings, at = (*settings, TWO_LEARNERS, "experiment.epochs=500"), range(10, 490, 16)
    calm_env = small_game(*settings, "multiprocessing.workers=inline")
    calm = outcome(calm_env, calm_env.run_experiment_mp)
    env, harm = small_game(*settings, *on_nodes()), Harm(hosts, random.Random(1), at)
    assert outcome(env, lambda **usual: env.run_experiment_mp(**{**usual, "logger": harm})) == calm
    assert len(harm.done) == len(at) and "actor of Ray's that it lived in is gone" in caplog.text


@pytest.mark.chaos
def test_a_worker_without_room_on_nodes_goes_on_here(hosts, caplog, monkeypatch):
    """Another program is given the room as soon as the worker's actor is killed: it waited for it."""
    import ray

    settings = (*SMALL, "multiprocessing.num_actors=1")
    calm_env = small_game(*settings, "multiprocessing.workers=inline")
    calm = outcome(calm_env, calm_env.run_experiment_mp)
    cluster = f"{{address: '{nodes().address}', workers_here: 0, learner_cpus: 4, start_timeout: 60}}"
    env, others = small_game(*settings, "multiprocessing.workers=ray", f"multiprocessing.cluster={cluster}"), []

    class TakesItsRoom(Harm):
        def strike(self):
            others.append(ray.remote(num_cpus=4)(Echo).remote())
            monkeypatch.setattr(backend, "RayChild", lambda *given: RayChild(*given[:-1], timeout_s=1.0))
            self.actor()

    harm = TakesItsRoom(hosts, random.Random(1), at=(5,))
    assert outcome(env, lambda **usual: env.run_experiment_mp(**{**usual, "logger": harm})) == calm
    ray.kill(*others)
    assert "no node had room for it within" in caplog.text
    assert [type(child) for child in hosts.values()] == [ProcessChild]


@pytest.mark.chaos
def test_a_run_goes_on_from_nodes_here_and_back(tmp_path):
    """Stopped twice: on nodes, then here, then on nodes again; one learner of them is here, in shared memory."""
    calm_env = small_game(*SMALL)
    calm = outcome(calm_env, calm_env.run_experiment_mp)

    def go_on(until, *more, **options):
        env = small_game(*SMALL, *more)

        class Stops:
            def record_epoch(self, epoch, *_, **__):
                if epoch == until:
                    raise KeyboardInterrupt

        return env, lambda **usual: env.run_experiment_mp(**{**usual, "logging": True, "logger": Stops(), **options})

    for until, *more in ((7, *on_nodes()), (15,)):
        _, run = go_on(until, *more, **{"output_dir" if until == 7 else "resume": tmp_path / "run"})
        with pytest.raises(KeyboardInterrupt):
            run(animate=False)
    env, run = go_on(None, *on_nodes(here=1), TWO_LEARNERS, resume=tmp_path / "run")
    assert outcome(env, run) == calm
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert (plan["workers"], plan["num_workers"], plan["num_remote"]) == ("ray", 2, 1)
    found = checked(tmp_path / "run" / "timeline.json")
    for process in found["abreast"]["processes"]:
        assert process["totals"]["train" if process["name"].startswith("learner") else "play"]["count"] >= 2
        assert 0 <= process["started"] < process["ended"] < found["abreast"]["seconds"] + 0.1


def test_what_is_left_to_the_run_is_timed_and_said(tmp_path, monkeypatch):
    """A game that is not worth it, whatever this machine is doing: the run says so and stays."""
    tried = []
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: tried.extend(splits) or Split(0))
    left = [each for each in SMALL if "num_" not in each]
    env = small_game(*left, *on_nodes()[:1], f"multiprocessing.cluster.address={nodes().address}")
    env.run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["workers"] == "inline" and plan["num_remote"] == 0
    assert 0 < plan["timing"]["link"][1] < 1e-6 and "a message to a node and back" in plan["reasons"][1]
    assert Split(2, 1, 1) in tried and Split(2) in tried, "one learner here and one on the other node is a way, too"


AT_WORK = Timing(0.1, 0.1, (1.0,) * 8, (0.001,) * 8, cores=2, passes_left=1000, copied_bytes=(5_000_000,) * 8)
SPLITS = [Split(0), Split(1), Split(2), *(Split(1 + remote, 1, remote) for remote in range(1, 8))]


@pytest.mark.parametrize(
    ("link", "remote"),
    [
        (Link(0.002, 1e-9), 7),
        (Link(0.002, 1e-6), 0),  # 5 s a copy
        (Link(30.0, 1e-9), 0),
        (Link(math.inf, math.inf), 0),  # no answer
    ],
)
def test_nodes_are_used_where_they_pay(link, remote):
    timing = AT_WORK.__class__(**{**vars(AT_WORK), "link": link})
    chosen = choose(timing, SPLITS)
    assert chosen.remote == remote
    assert seconds_of_pass(timing, chosen) == min(seconds_of_pass(timing, split) for split in SPLITS)


# ---- bad input


def refused(*settings):
    with pytest.raises((ConfigError, WorkerError)) as error:
        env = small_game(*SMALL, *settings)
        env.run_experiment_mp(animate=False, logging=False)
    assert "\n" not in str(error.value).strip()
    return str(error.value)


def test_resources_that_no_node_has():
    told = refused(*on_nodes(), "multiprocessing.cluster.learner_gpus=1")
    assert "a worker is to have 1 CPUs and 1 GPUs, but no node of the cluster has more than 4 CPUs and 0 GPUs" in told


def test_resources_that_are_in_use():
    told = refused(*on_nodes(), "multiprocessing.cluster.learner_cpus=4", "multiprocessing.cluster.start_timeout=1")
    assert "no node had room for it within 1 s (cluster.start_timeout)" in told


def test_a_node_without_the_users_module(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("from own_networks import TwoLayers\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = (*on_nodes(), "model.network=only_here:TwoLayers", "multiprocessing.num_actors=1")
    env = small_game(*SMALL, *settings)  # the module is known here
    (tmp_path / "only_here.py").unlink()
    with pytest.raises(WorkerInputError, match=r"no module 'only_here'.*has to be installed on every node\.$"):
        env.run_experiment_mp(animate=False, logging=False)


def test_learners_that_do_not_wait_need_shared_memory():
    assert "set schedule to pipelined or lockstep" in refused(
        "multiprocessing.workers=ray", "multiprocessing.schedule=free"
    )
