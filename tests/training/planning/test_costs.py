"""What a pass is predicted to take: sums and maxima of what was measured."""

import pytest

from abreast.training.planning.costs import Candidate, Costs, Prediction, Shape
from abreast.training.planning.measuring import GameTimes, Measured, ModelTimes

FREE = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0)
"""Nothing costs anything but what was measured."""
PLAY = 10 * (0.02 + 0.01 + 0.005)
ROUND = 8 * 0.05


def predict(
    schedule="pipelined", cores=64, agents=4, lanes=8, passes=10**9, costs=FREE, frozen=(), quota=None, gain=1.0
):
    models = [ModelTimes(0.05, 0.05, 0.0, gain, (0.0, 1.0))] * agents
    measured = Measured(models, GameTimes(8, 0.02, 0.01, 0.005, 0.0, 10.0), 0.0, cores, quota, 0.1)
    return Prediction(measured, Shape(schedule, 8, 8, passes, frozenset(frozen)).with_lanes(lanes), costs)


def processes(workers, actors=1):
    return Candidate("processes", actors, workers)


def test_without_workers_everything_is_one_after_the_other():
    assert predict().sequential == predict().of_run(Candidate("inline")) == pytest.approx(PLAY + 4 * ROUND)
    assert predict(frozen=[0, 1]).sequential == pytest.approx(PLAY + 2 * ROUND)
    assert predict(quota=0.5).sequential == pytest.approx(2 * (PLAY + 4 * ROUND))


def test_a_copy_that_learns_in_the_same_thread_hands_over_what_it_learned():
    models = [ModelTimes(0.05, 0.05, 0.01), ModelTimes(0.05, 0.05, 0.02), ModelTimes(0.05, 0.05, 0.04)]
    measured = Measured(models, GameTimes(8, 0.02, 0.01, 0.005, 0.0, 10.0), 0.0, 64, None, 0.1)

    def more(schedule):
        shape = Shape(schedule, 8, 8, 10**9, frozen=frozenset({2}), copied=frozenset({1, 2}))
        prediction = Prediction(measured, shape, FREE)
        return prediction.of_pass(Candidate("inline")) - prediction.sequential

    assert more("pipelined") == pytest.approx(0.02)
    assert more("lockstep") == 0.0  # there they take turns, and are one


def test_an_actor_takes_over_whole_models_one_after_the_other():
    measured = Measured(
        [ModelTimes(0.05, 0.05, 0.02)] * 4, GameTimes(8, 0.02, 0.01, 0.005, 0.0, 10.0), 0.0, 64, None, 0.1
    )
    copied, plain = (
        Prediction(measured, Shape("lockstep", 8, 8, 10**9, copied=frozenset(agents)), FREE)
        for agents in (range(4), ())
    )
    assert plain.of_pass(processes(4)) == pytest.approx(PLAY + ROUND + 0.02)
    assert copied.of_pass(processes(4)) == pytest.approx(PLAY + 4 * 0.01 + ROUND + 0.01)


@pytest.mark.parametrize(("workers", "longest"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_a_round_takes_as_long_as_the_worker_with_most_agents(workers, longest):
    assert predict("lockstep").of_pass(processes(workers)) == pytest.approx(PLAY + longest * ROUND)
    assert predict().of_pass(processes(workers)) == pytest.approx(max(PLAY, longest * ROUND))


def test_actors_share_the_lanes():
    assert predict("lockstep").of_pass(processes(4, 2)) == pytest.approx(PLAY / 2 + ROUND)


def test_cores_are_the_limit():
    assert predict(cores=2).of_pass(processes(4)) == pytest.approx((PLAY + 4 * ROUND) / 2)
    assert predict("lockstep", cores=2).of_pass(processes(4)) == pytest.approx(PLAY + 2 * ROUND)
    assert predict(cores=4, quota=2.0).of_pass(processes(4)) == pytest.approx((PLAY + 4 * ROUND) / 2)


def test_threads_that_share_updates_compute_longer_together():
    four = Candidate("processes", 1, 4, 2)
    assert predict(gain=1.6).of_pass(four) == pytest.approx(max(PLAY, ROUND / 1.6))
    assert predict(gain=1.6, cores=2).of_pass(four) == pytest.approx((PLAY + 4 * ROUND * 2 / 1.6) / 2)
    assert predict(gain=1.0, cores=2).of_pass(four) == predict(cores=2).of_pass(processes(4))


def test_threads_wait_for_the_interpreter():
    assert predict().of_pass(Candidate("threads", 1, 4)) == pytest.approx(PLAY + 0.5 * 4 * ROUND)


def test_the_start_and_the_last_round_are_spread_over_the_passes():
    costs = Costs(start_hosted=1.0, start_process=0.5, start_actor=0.25, start_fork_server=2.0, order=0.0, crowding=0.0)
    pass_s, alone = predict().of_pass(processes(4, 2)), PLAY / 2 + ROUND
    start = 1.0 + 5 * 0.5 + 0.25 + 2.0
    assert predict(costs=costs, passes=10).of_run(processes(4, 2)) == pytest.approx(
        pass_s + (start + alone - pass_s) / 10
    )


def test_more_lanes_are_fewer_longer_passes():
    """Here nothing of a choice is saved, so nothing is gained."""
    assert predict(lanes=16, passes=100).sequential == pytest.approx(2 * predict().sequential)
    assert Shape("free", 8, 8, 100).with_lanes(32) == Shape("free", 32, 32, 25)
