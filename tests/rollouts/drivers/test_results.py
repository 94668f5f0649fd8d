"""The figures of a rollout."""

from abreast.rollouts.drivers.policies.base import Tokens
from abreast.rollouts.drivers.results import Result, figures
from abreast.rollouts.episodes.summary import Tally


def result(group, success, penalty=0.0, error=None):
    tally = Tally(reward=float(success), success=success, given=1, executed=1, seconds=[0.001])
    return Result(group, tally, error, Tokens(), penalty)


def test_pass_at_k_counts_complete_groups_only():
    stopped = [result(0, True), result(0, False), result(1, False), result(1, False), result(2, True)]
    assert figures(stopped, 2, 1.0)["pass@2"] == "50.0%"
    assert "pass@2" not in figures(stopped[-1:], 2, 1.0)  # no group is complete
    assert figures(stopped[1:], 2, 1.0, before=stopped[:1])["pass@2"] == "50.0%"  # begun before, completed now


def test_the_score_is_the_reward_with_penalties():
    told = figures([result(0, True, -0.25), result(1, False, -0.5)], 1, 1.0)
    assert (told["reward"], told["score"]) == ("0.500", "0.125")


def test_figures_of_a_resumed_run_are_of_all_episodes_or_labelled():
    told = figures([result(0, True)], 1, 7.0, before=[result(1, False)])
    assert told["episodes"] == "2" and told["success"] == "50.0%" and told["turns per second (this session)"] == "7"
    assert not any("latency" in name for name in figures([], 1, 0.0, before=[result(1, False)]))


def test_episodes_that_could_not_go_on_are_counted_apart():
    told = figures([result(0, True), result(0, False, error="it broke")], 2, 1.0)
    assert (told["episodes"], told["could not go on"], told["success"]) == ("2", "1", "100.0%")
    assert "pass@2" not in told and "could not go on" not in figures([result(0, True)], 1, 1.0)
