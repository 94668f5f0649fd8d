"""The subjects: their rows from made-up times, and each measured for real, as small as can be."""

import numpy as np
import pytest

from abreast.bench import action, agents, checkpoint, floors, parts, rollouts, training, update
from abreast.bench import map as map_
from abreast.bench.bare import OF_LEARNERS, BareProcesses
from abreast.bench.busy import stepping
from abreast.bench.planned import LONG, plan_of
from abreast.bench.products import computing, flop, products_of_choice, products_of_update
from abreast.bench.reference import build, learner
from abreast.bench.subjects import SUBJECTS, chosen
from abreast.bench.subjects import measure as measure_subject
from abreast.errors import ConfigError, WorkerError


def by_name(rows):
    return {row.what: row for row in rows}


# ---- which there are


def test_without_a_choice_all_subjects_are_measured_and_with_one_in_their_order():
    assert chosen([]) == list(SUBJECTS)
    assert chosen(["map", "floors", "map"]) == ["floors", "map"]


def test_an_unknown_subject_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"there is no benchmark 'flors': did you mean 'floors'\?"):
        chosen(["map", "flors"])


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_has_two_sizes(name, monkeypatch):
    module = __import__(f"abreast.bench.{name}", fromlist=["measure"])
    monkeypatch.setattr(module, "measure", lambda size: size)
    assert (measure_subject(name, False), measure_subject(name, True)) == (module.SMALL, module.FULL)
    assert module.SMALL != module.FULL


# ---- ratios from made-up times


def test_an_update_is_compared_with_its_products_turn_by_turn():
    seconds = {"products": [0.008, 0.010], **{name: [0.010, 0.013] for name in update.KINDS}}
    found = by_name(update.rows(seconds, "products"))
    assert found["products"].value == pytest.approx(9.0)
    assert found["update"].ratio == pytest.approx(1.275) and found["update"].verdict == "reached"
    assert found["update, bf16"].verdict is None


def test_the_parts_of_a_step_add_up_to_the_whole():
    found = by_name(parts.rows({"whole": [0.4, 0.5], "choosing": [0.1, 0.1], "update": [0.2, 0.3]}))
    assert sum(found[name].ratio for name in ("world", "choosing", "update")) == pytest.approx(1.0)
    assert found["world"].values == pytest.approx([1e5, 1e5])


def test_runs_are_multiples_of_the_sequential_one_and_shares_of_the_limit():
    speeds = {"sequential, 1 lane": [2.0], "sequential, 8 lanes": [2.5], "pipelined": [5.0], "as planned": [2.0]}
    found = by_name(training.rows(speeds, "sequential, 8 lanes", [10.0], [1.8], 5, 8, 2))
    pipelined, planned = found["5 agents, pipelined, 8 lanes"], found["5 agents, as planned, 8 lanes"]
    assert (pipelined.ratio, pipelined.limit, pipelined.share, pipelined.verdict) == (2.0, 4.0, 0.5, "missed")
    assert (planned.ratio, planned.bar, planned.verdict) == (0.8, 0.95, "missed")
    assert found["5 agents, limit of the products, one core times 2"].ratio == 4.0
    at_once = found["5 agents, the same with all cores at once"]
    assert (at_once.value, at_once.ratio) == pytest.approx((9.0, 0.9))


@pytest.mark.parametrize(
    ("name", "agents", "lanes", "cores", "bar"),
    [
        ("pipelined", 5, 8, 2, (0.6, "share")),
        ("pipelined", 5, 8, 4, (None, "ratio")),
        ("as planned", 5, 32, 16, (5.5, "ratio")),
        ("as planned", 16, 32, 16, (9.0, "ratio")),
        ("as planned", 2, 32, 16, (0.95, "ratio")),
        ("as planned", 16, 8, 2, (0.95, "ratio")),
        ("lockstep", 5, 8, 2, (None, "ratio")),
    ],
)
def test_bars_belong_to_a_number_of_cores_and_agents(name, agents, lanes, cores, bar):
    assert training.bar_for(name, agents, lanes, cores) == bar


def test_lanes_are_whole_groups_and_more_of_them_on_more_cores():
    assert [training.lanes_for(count) for count in (1, 2, 7, 8, 16, 64)] == [8, 8, 8, 16, 32, 32]


def test_the_time_of_a_step_is_compared_between_few_and_many_agents():
    few, many = agents.rows([100e-6], [110e-6], ("few", "many"), "5 agents")
    assert few.value == pytest.approx(100) and few.ratio is None
    assert many.ratio == pytest.approx(1.1) and many.verdict == "missed"


def test_a_checkpoint_is_compared_with_a_plain_write_and_a_minute():
    cost, share = checkpoint.rows("sequential", [(6.0, 0.1), (6.2, 0.3)], 0.05)
    assert cost.what == "sequential, 6.1 MB" and cost.ratio == pytest.approx(4.0)
    assert share.value == pytest.approx(0.2 / 60 * 100)


def test_rollouts_are_multiples_of_sequential_with_bare_processes_as_the_limit():
    rates = {"sequential": [10.0], "auto": [19.0], "workers": [18.0], "limit": [20.0]}
    found = by_name(rollouts.rows(rates, 1000, 16, 2))
    auto = found["16 environments of 1000 µs, auto"]
    assert (auto.value, auto.ratio, auto.limit, auto.share) == (304.0, 1.9, 2.0, 0.95)
    assert found["16 environments of 1000 µs, 2 bare processes"].ratio == 2.0


def test_bare_processes_share_all_environments():
    assert [envs for _, envs in rollouts.shares(7, 16, 3)] == [5, 5, 6]


# ---- products


def test_the_products_are_those_of_the_reference_learner():
    model = build(1, 1, agents=1).agents[0].model
    assert flop([(2, 3, 4)]) == 48
    assert (768, 250, 250) in products_of_update(model)
    assert products_of_choice(model, 8)[1] == (32, 250, 250)
    computing([(2, 3, 4), (1, 1, 1)])()


def test_a_learner_of_the_reference_has_a_full_memory_and_learns():
    model = learner({"hidden_size": 8, "buffer_capacity": 128})
    assert len(model.memory) == 128
    assert np.isfinite(model.train_step()["loss"])


# ---- plans


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_plan_is_settings_and_a_few_words(workers):
    env = build(2, LONG, agents=2, model={"hidden_size": 8}, parallel={"workers": workers, "num_actors": 1})
    planned = plan_of(env)
    assert planned.parallel["workers"] == workers and planned.parallel["num_envs"] == 2
    assert (
        planned.told == "inline" if workers == "inline" else workers[:6] in planned.told and "1 actor" in planned.told
    )
    build(2, 2, agents=2, parallel=planned.parallel)


# ---- bare processes


def test_a_bare_process_that_cannot_start_is_an_error():
    with pytest.raises(WorkerError, match="TypeError"):
        BareProcesses(stepping, [()], OF_LEARNERS)


def test_bare_processes_compute_once_or_for_a_while():
    with BareProcesses(stepping, rollouts.shares(1, 3, 2), OF_LEARNERS) as processes:
        processes.batch()
        assert processes.rate(0.01) > 0 and processes.rate(0.01, 1) > 0


# ---- for real

TINY = {
    "floors": (floors, floors.Size(1, 0.01, processes=1), 6),
    "update": (update, update.Size(1, 1, hidden=8), 4),
    "action": (action, action.Size(1, (1, 2), (0.5,), turns=3, hidden=8), 2),
    "parts": (parts, parts.Size(1, 3, hidden=8), 4),
    "training": (training, training.Size((2,), 3, 1, lanes=2, hidden=8, product_calls=1, seconds=0.01), 7),
    "agents": (agents, agents.Size(1, few=2, many=4, turns=8, lanes=2, passes=3), 2),
    "map": (map_, map_.Size(1, 2, 10, 20), 4),
    "checkpoint": (checkpoint, checkpoint.Size(("sequential",), 2, 1, ("model.hidden_size=8",)), 2),
    "rollouts": (rollouts, rollouts.Size(1, 0.01, (0,), envs=2, workers=1), 4),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_subject_measures_itself(name):
    module, size, count = TINY[name]
    rows = list(module.measure(size))
    assert len(rows) == count and len(by_name(rows)) == count
    for row in rows:
        assert row.value > 0 and row.unit, row
        assert row.ratio is None or row.of, row
