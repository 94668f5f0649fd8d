"""The subjects: their rows from made-up times, and each measured for real, as small as can be."""

import sys
from pathlib import Path

import numpy as np
import pytest

from abreast.bench import floors, rollouts, training
from abreast.bench.bare import OF_LEARNERS, BareProcesses
from abreast.bench.busy import stepping
from abreast.bench.planned import LONG, plan_of
from abreast.bench.reference import build
from abreast.bench.subjects import SUBJECTS, chosen
from abreast.bench.subjects import measure as measure_subject
from abreast.errors import ConfigError, WorkerError


def by_name(rows):
    return {row.what: row for row in rows}


# ---- which there are


def test_without_a_choice_all_subjects_are_measured_and_with_one_in_their_order():
    assert chosen([]) == list(SUBJECTS)
    assert chosen(["training", "floors", "training"]) == ["floors", "training"]


def test_an_unknown_subject_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"there is no benchmark 'flors': did you mean 'floors'\?"):
        chosen(["training", "flors"])


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_has_two_sizes(name, monkeypatch):
    module = __import__(f"abreast.bench.{name}", fromlist=["measure"])
    monkeypatch.setattr(module, "measure", lambda size: size)
    assert (measure_subject(name, False), measure_subject(name, True)) == (module.SMALL, module.FULL)
    assert module.SMALL != module.FULL


# ---- ratios from made-up times


def test_runs_are_multiples_of_the_sequential_one_and_shares_of_what_the_cores_reach():
    speeds = {"sequential": [2.5], "pipelined": [4.0], "as planned (inline)": [2.0]}
    found = by_name(training.rows(speeds, [2.0], 5, 8))
    assert found["5 agents, 8 lanes, sequential"].ratio is None
    pipelined, planned = found["5 agents, 8 lanes, pipelined"], found["5 agents, 8 lanes, as planned (inline)"]
    assert (pipelined.ratio, pipelined.limit, pipelined.share, planned.ratio) == (1.6, 2.0, 0.8, 0.8)


def test_lanes_are_whole_groups_and_more_of_them_on_more_cores():
    assert [training.lanes_for(count) for count in (1, 2, 7, 8, 16, 64)] == [8, 8, 8, 16, 32, 32]


def test_rollouts_are_multiples_of_sequential_with_bare_processes_as_the_limit():
    rates = {"sequential": [10.0], "auto": [19.0], "workers": [18.0], "limit": [20.0]}
    found = by_name(rollouts.rows(rates, 1000, 16, 2))
    auto = found["16 environments of 1000 µs, auto"]
    assert (auto.value, auto.ratio, auto.limit, auto.share) == (304.0, 1.9, 2.0, 0.95)
    assert found["16 environments of 1000 µs, 2 bare processes"].ratio == 2.0


def test_bare_processes_share_all_environments():
    assert [envs for _, envs in rollouts.shares(7, 16, 3)] == [5, 5, 6]


# ---- products


def test_products_are_computed_and_counted():
    assert floors.flop((2, 3, 4)) == 48
    floors.computing([(2, 3, 4), (1, 1, 1)])()


@pytest.mark.chaos
def test_the_parts_of_a_run_are_measured_by_the_script(monkeypatch):
    """benchmarks/parts.py, as small as can be."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import parts

    model = parts.learner(hidden_size=8, buffer_capacity=128)
    assert len(model.memory) == 128 and np.isfinite(model.train_step()["loss"])
    assert (768, 250, 250) in parts.products_of_update(build(1, 1, agents=1).agents[0].model)
    found = by_name(parts.parts(1, epochs=2))
    assert sum(found[name].ratio for name in ("world", "choosing", "update")) == pytest.approx(1.0)
    assert [row.ratio for row in parts.map_(1, turns=2)][::2] == [1.0, 1.0]
    sys.modules.pop("parts")


# ---- plans


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_plan_is_settings_and_a_few_words(workers):
    env = build(2, LONG, agents=2, model={"hidden_size": 8}, parallel={"workers": workers, "num_actors": 1})
    planned = plan_of(env)
    assert planned.parallel["workers"] == workers and planned.parallel["num_envs"] == 2
    assert (
        "inline" in planned.told if workers == "inline" else workers[:6] in planned.told and "1 actor" in planned.told
    )
    build(2, 2, agents=2, parallel=planned.parallel)


# ---- bare processes


@pytest.mark.chaos
def test_a_bare_process_that_cannot_start_is_an_error():
    with pytest.raises(WorkerError, match="TypeError"):
        BareProcesses(stepping, [()], OF_LEARNERS)


def test_bare_processes_compute_once_or_for_a_while():
    with BareProcesses(stepping, rollouts.shares(1, 3, 2), OF_LEARNERS) as processes:
        processes.batch()
        assert processes.rate(0.01) > 0 and processes.rate(0.01, 1) > 0


# ---- for real

TINY = {
    "floors": (floors, floors.Size(1, 0.01, processes=1), 4),
    "training": (training, training.Size((2,), 3, 1, lanes=2, hidden=8, seconds=0.01), 4),
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
