"""The figures of a rollout."""

from abreast.rollouts.drivers.display import RolloutDisplay
from abreast.rollouts.drivers.results import Results
from abreast.rollouts.episodes.slot import Tally


def result(group, success, penalty=0.0, error=None, tag="Bandit", given=1, invalid=0):
    counts = {"num_given": given, "num_actions": 1, "num_invalid": invalid, "tokens": {"prompt": 0, "completion": 0}}
    about = {"group_id": group, "tag": tag, "error": error, "history": []}
    return {**about, **counts, "reward": float(success or 0), "success": success, "penalty": penalty}


def results_of(lines, before=()):
    results = Results()
    for line in before:
        results.add(line)
    for line in lines:
        results.add(line, Tally(seconds=[0.001]))
    return results


def figures(lines, group_size, turns_per_s, before=()):
    return results_of(lines, before).rows(group_size, turns_per_s)


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


def test_episodes_that_could_not_go_on_are_no_success_and_are_counted_apart():
    told = figures([result(0, True), result(0, False, error="it broke")], 2, 1.0)
    assert (told["episodes"], told["could not go on"], told["success"]) == ("2", "1", "50.0%")
    assert told["pass@2"] == "100.0%" and "could not go on" not in figures([result(0, True)], 1, 1.0)


def test_a_success_that_no_episode_tells_is_a_dash_and_left_out_of_the_others():
    silent = [result(0, None, tag="Silent"), result(0, False, tag="Silent", error="it broke")]
    told = figures([*silent, result(1, True), result(1, None)], 2, 1.0)
    assert (told["success"], told["success, Silent"], told["success, Bandit"]) == ("50.0%", "–", "50.0%")
    assert told["pass@2"] == "100.0%", "of the group that is known"
    assert figures(silent, 2, 1.0)["success"] == figures(silent, 2, 1.0)["pass@2"] == "–"
    with RolloutDisplay(2, results_of(silent)) as display:
        assert display.figures().below[0].startswith("success –  reward 0.00")
    assert results_of(silent).silent == ["Silent"]


def test_invalid_actions_are_a_share_of_all_actions():
    told = figures([result(0, True, given=1, invalid=1), result(1, True, given=9, invalid=0)], 1, 1.0)
    assert told["invalid actions"] == "10.0%"
    assert figures([result(0, False, error="it broke", given=0)], 1, 1.0)["invalid actions"] == "–"


def test_the_live_display_shows_the_same_means(capsys):
    lines = [result(0, True), result(0, False, -0.5), result(1, False, -0.25, error="it broke")]
    results = results_of(lines)
    with RolloutDisplay(3, results) as display:
        display.ended(3, 3)
    assert "episodes 3/3  success 33%  reward 0.33  score 0.08  1 could not go on" in capsys.readouterr().err
    assert results.rows(1, 1.0)["success"] == "33.3%" and results.rows(1, 1.0)["score"] == "0.083"
