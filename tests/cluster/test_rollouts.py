"""Text environments on the nodes of a cluster: equal to the plain loop, whatever dies."""

import json
import random
import threading
from collections import Counter

import pytest

from abreast.cli.app import run
from abreast.rollouts import EnvStateManager
from llm_server import LLMServer, Text
from nodes import Harm, nodes
from promises.cover import IS_FULL
from rollout_helpers import SHIPPED, among_others, calm_caches, go, plain, settings
from varied_env import length, shown

pytestmark = pytest.mark.xdist_group("ray")


def on_nodes(config, **manager):
    more = {"backend": "ray", "cluster": {"address": nodes().address}, "use_multiprocessing": True, "max_workers": 2}
    return {**config, "es_manager": {**config["es_manager"], **more, **manager}}


def some_actions(chance, tag):
    names = list((tag.config.action_lookup or {}).values()) or ["search[red shoes]", "click[buy now]", "1 + 2", "12"]
    return [chance.choice(names) for _ in range(chance.randint(1, 2))]


@pytest.mark.timeout(1800)
def test_all_environments_are_those_of_the_plain_loop_whatever_dies(hosts):
    """An actor of Ray's is killed, a node is lost in the middle of an episode, and a single episode goes on beside."""
    config, chance = settings(list(SHIPPED), size=2, custom=SHIPPED), random.Random(0)
    harm = Harm(hosts, random.Random(1))
    loop = plain(config)
    loop.reset(7)
    with EnvStateManager(on_nodes(config, step_timeout=20)) as manager:
        outputs = manager.reset(seed=7)
        with manager.episode("Sokoban", seed=7) as single:
            turn = 0
            while turn < 12 or (IS_FULL and len(harm.done) < 30):
                inputs = [
                    {"env_id": cache["env_id"], "actions": some_actions(chance, manager.tag_of(cache["env_id"]))}
                    for cache in outputs
                ]
                if turn in (2, 4) or (IS_FULL and turn > 4 and len(manager.worker_pids) == 2 and chance.random() < 0.1):
                    harm.strike()
                if not single.done:
                    single.step(["Up"])
                outputs = manager.step(inputs)
                assert [cache["env_id"] for cache in outputs] == [cache["env_id"] for cache in loop.step(inputs)]
                if not outputs:
                    outputs = manager.reset(seed=turn)
                    loop.reset(turn)
                turn += 1
        for here, there in zip(loop.caches, manager.caches, strict=True):
            shown = [{key: entry[key] for key in entry if key != "images"} for entry in here["history"]]
            assert [
                {key: entry[key] for key in known} for entry, known in zip(there["history"], shown, strict=True)
            ] == shown


@pytest.mark.chaos
def test_a_server_is_asked_once_for_every_turn_of_every_episode_whatever_dies(tmp_path):
    """2,000 episodes, and a node is lost when a third of the turns are taken."""
    asked = Counter()

    def behave(request):
        asked[shown(request.prompt)] += 1
        if sum(asked.values()) == 2_000:
            threading.Thread(target=nodes().lose).start()
        return Text(f"<answer>{('Go', 'Stay')[request.number % 2]}</answer>")

    manager = on_nodes({"es_manager": {}})["es_manager"]
    given = [f"es_manager.{key}={value}" for key, value in manager.items() if key != "cluster"]
    with LLMServer(behave) as server:
        arguments = ["rollout", "varied", "--episodes", "2000", "--policy", "openai", "--base-url", server.url]
        given += [
            f"es_manager.cluster.address={nodes().address}",
            "--in-flight",
            "64",
            "--output",
            str(tmp_path / "run"),
        ]
        assert run([*arguments, *given]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "trajectories.jsonl").read_text().splitlines()]
    assert sorted(line["episode"] for line in lines) == list(range(2_000))
    assert all(line["success"] and len(line["answers"]) == length(line["seed"]) for line in lines)
    assert set(asked.values()) == {1} and len(asked) == sum(len(line["answers"]) for line in lines)
    assert "died: the node or the actor" in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.chaos
@pytest.mark.parametrize("name", ["KillsItself", "HangsInStep"] if IS_FULL else ["KillsItself"])
def test_a_villain_on_a_node_ends_alone(name):
    """Its worker tells which environment it was at, as it would here."""
    with EnvStateManager(on_nodes(among_others(name), step_timeout=3)) as manager:
        manager.reset(seed=0)
        for _ in range(4):
            outputs = manager.step(
                go([cache["env_id"] for cache in manager.caches if not manager.envs[cache["env_id"]].terminated], "a")
            )
        assert [cache["env_id"] for cache in outputs] == [0, 2, 3, 4, 5, 6, 7]
        assert "its worker died: SIGKILL" in manager.envs[1].error if name == "KillsItself" else manager.envs[1].error
        for env_id, calm in enumerate(calm_caches(4)):
            if env_id != 1:
                assert [entry["state"] for entry in manager.envs[env_id].history] == [
                    entry["state"] for entry in calm["history"]
                ]
