"""Where the time went: shares by process, who waits for whom, and each rule of advice by itself."""

import json

import pytest

from abreast.errors import RunFolderError
from abreast.report.shares import advice, read_timeline, who_waits


def process(name, seconds=10.0, **shares):
    """What a timeline says of a process; shares by name of the span, `wait_for_x` stands for "wait for x"."""
    totals = {}
    for key, share in shares.items():
        span = key.replace("_", " ")
        is_wait = span.startswith(("wait", "restart"))
        totals[span] = {"count": 1, "seconds": share * seconds, "own_seconds": share * seconds, "is_wait": is_wait}
        totals[span]["is_async"] = span == "model"
    return {"name": name, "pid": 1, "tid": 1, "started": 0.0, "ended": seconds, "totals": totals, "dropped": 0}


def written(folder, *processes, cores=8):
    told = {
        "seconds": 10.0,
        "cores": cores,
        "processes": [{**each, "pid": pid} for pid, each in enumerate(processes, 1)],
    }
    path = folder / "timeline.json"
    path.write_text(json.dumps({"traceEvents": [], "displayTimeUnit": "ms", "abreast": told}))
    return read_timeline(folder)


def learner(number, **shares):
    return process(f"learner {number} of agent {number}", **shares)


def worker(number, **shares):
    return process(f"rollout worker {number}", **shares)


RULES = {
    "both wait": (
        [process("actor", play=0.5, wait_for_learners=0.5), learner(0, train=0.5, wait=0.5)],
        "the actor waits 50% for learners, and learners 50% for the actor: let them overlap"
        " (multiprocessing.schedule=pipelined).",
    ),
    "the actor waits": (
        [process("actor", play=0.4, wait_for_learners=0.6), process("learner 0 of agents 0, 1", update=0.9, wait=0.1)],
        "the actor waits 60% for learners: more workers (num_workers, up to one an agent), or fewer or smaller updates.",
    ),
    "the actor waits, and each agent has a worker": (
        [process("actor", play=0.4, wait_for_learners=0.6), learner(0, update=0.9, wait=0.1)],
        "the actor waits 60% for learners: fewer or smaller updates.",
    ),
    "learners wait": (
        [process("actor", play=0.95), learner(0, train=0.6, wait=0.4), learner(1, train=0.6, wait=0.4)],
        "learners wait 40%: more lanes (num_envs), or another actor (num_actors).",
    ),
    "the first actor waits": (
        [process("actor", play=0.6, wait_for_actors=0.4), process("actor 1", play=1.0)],
        "the first actor waits 40% for the others: fewer actors (num_actors), or a core for each.",
    ),
    "one process": (
        [process("actor", play=0.1, see=0.1, choose=0.2, update=0.5, sample=0.1)],
        "one process plays, and trains 60% of its time: a parallel run (--parallel) does both at once, where its"
        " plan says that this pays.",
    ),
    "the model": (
        [process("main process", wait_for_calls=0.8, turn=0.1, model=31.5)],
        "the main process waits 80% for calls of the model: more episodes at a time (--in-flight, --slots), or a faster"
        " model.",
    ),
    "busy workers": (
        [process("main process", wait_for_workers=0.8), worker(0, turn=0.9, wait=0.1)],
        "workers work 90%, and the main process waits 80% for them: more workers (es_manager.max_workers).",
    ),
    "too few cores": (
        [process("actor", play=0.9), learner(0, train=0.95), learner(1, train=0.9, wait=0.1), learner(2, train=0.9)],
        "3.9 processes work at a time and share 2 cores: if they compute all the time, fewer workers would do as much, and"
        " more cores more.",
    ),
    "a short run": (
        [process("actor", play=0.4, wait_for_learners=0.6), learner(0, start=0.5, update=0.4)],
        "workers took 50% of their time to start: a longer run shows where its time goes.",
    ),
    "learners wait for a slow game": (
        [process("actor", see=0.7, act=0.1, choose=0.1), learner(0, train=0.3, wait=0.7)],
        "learners wait 70%, and the actor spends 80% in the game (see and act: its turns and views): another actor"
        " (num_actors), or a faster game; more lanes would not help.",
    ),
    "a slow game, alone": (
        [process("actor", see=0.6, choose=0.1, update=0.2)],
        "one process spends 60% in the game (see and act: its turns and views): a faster game, or actors that play lanes"
        " at the same time (--parallel, num_envs, num_actors).",
    ),
    "a slow game, while learners work": (
        [process("actor", see=0.1, act=0.5, choose=0.2, wait_for_learners=0.2), learner(0, train=0.9, wait=0.1)],
        "the actor spends 60% in the game (see and act: its turns and views): another actor (num_actors), or a faster"
        " game; more lanes would not help.",
    ),
    "choosing": (
        [process("actor", see=0.1, choose=0.5, remember=0.2), learner(0, train=0.9, wait=0.1)],
        "the actor spends 50% in choose: more lanes (num_envs), for all of which it chooses at once, or a smaller network.",
    ),
    "films": (
        [process("actor", play=0.2, see=0.1, update=0.2, film=0.3, record=0.1)],
        "the actor spends 40% on what it keeps (record, film, checkpoint): no films (--no-animate), fewer loggers, or a"
        " longer run.",
    ),
    "nothing to gain": (
        [process("actor", play=0.7, see=0.2, wait_for_learners=0.1), learner(0, train=0.9, wait=0.1)],
        "the actor works 90%, most of it in play (70%), and nobody waits for long: nothing to gain by settings.",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_gives_its_sentence(rule, tmp_path):
    processes, sentence = RULES[rule]
    assert advice(written(tmp_path, *processes, cores=2 if rule == "too few cores" else 8)) == sentence


def test_no_more_workers_than_cores_are_advised(tmp_path):
    processes = [process("actor", play=0.4, wait_for_learners=0.6), process("learner 0 of agents 0, 1", update=1.0)]
    assert (
        advice(written(tmp_path, *processes, cores=1)) == "the actor waits 60% for learners: fewer or smaller updates."
    )


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        ({"cores": 2}, "20 ms a pass, 8 of which are left: workers would gain too little"),
        (None, "20 ms a pass, 8 of which are left: workers would gain too little: because of this"),
    ],
)
def test_a_run_that_its_plan_kept_in_one_process_says_why(timing, says, tmp_path):
    first = "plan: inline, 1 actor (cpu); 20 ms a pass, 8 of which are left: workers would gain too little."
    (tmp_path / "plan.json").write_text(json.dumps({"reasons": [first, "because of this."], "timing": timing}))
    alone, _ = RULES["one process"]
    expected = f"one process plays, and trains 60% of its time: the plan of this run kept it in one ({says})."
    assert advice(written(tmp_path, *alone)) == expected
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"plan.json is cut off, or no plan of a run"):
        read_timeline(tmp_path)


def test_shares_are_of_the_life_of_a_process_and_calls_that_overlap_are_no_part_of_them(tmp_path):
    late = {**learner(0, seconds=4.0, train=0.5, wait=0.25), "started": 2.0, "ended": 6.0}
    run = written(tmp_path, process("actor", play=0.5, model=3.0), late)
    main, (later,) = run.main, run.workers
    assert main.shares == {"play": 0.5, "other": 0.5}
    assert later.shares == {"train": 0.5, "wait": 0.25, "other": 0.25} and later.waiting == 0.25


def test_who_waits_for_whom(tmp_path):
    run = written(
        tmp_path,
        process("actor", wait_for_learners=0.3, wait_for_actors=0.1),
        learner(0, wait=0.2),
        learner(1, wait=0.4),
    )
    assert who_waits(run) == [
        "actor waits 30% for learners", "actor waits 10% for actors", "learners wait 30% for the actor",
    ]  # fmt: skip
