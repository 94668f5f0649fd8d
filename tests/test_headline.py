"""The headline: the sum of all rewards, unless agents have sides."""

import pytest

from abreast.headline import as_text, groups_of, results_of, results_of_run

ZERO_SUM = [[1.0, -1.0], [-3.0, 3.0], [0.0, 0.0], [2.0, -2.0]]
SHARED_POT = [[float(number), 9.0 - number] for number in range(8)]


@pytest.mark.parametrize(
    ("rewards", "names", "expected"),
    [
        ([[1.0, 2.0], [3.0, 1.0]], [], ["sum"]),
        ([[1.0, 2.0], [3.0, 1.0]], ["player_0", "player_1"], ["sum"]),
        ([[1.0, 2.0], [3.0, 1.0]], ["ann", "bob"], ["sum"]),
        ([[1.0, 2.0, 0.5]], ["adversary_0", "adversary_1", "agent_0"], ["adversary", "agent_0"]),
        ([[1.0, 1.0], [4.0, 4.0]], ["speaker_0", "listener_0"], ["sum"]),  # a common reward
        (ZERO_SUM, [], ["agent 0", "agent 1"]),
        (ZERO_SUM, ["player_0", "player_1"], ["player_0", "player_1"]),
        (ZERO_SUM[:1], [], ["sum"]),  # one episode may be chance
        (SHARED_POT, [], ["agent 0", "agent 1"]),
        (SHARED_POT[:3], [], ["sum"]),
        ([[2.0, 3.0]] * 9, [], ["sum"]),  # the same episode again and again
        ([[0.0, 0.0]] * 9, [], ["sum"]),
        ([[4.0], [5.0]], [], ["sum"]),
        ([], [], ["sum"]),
    ],
)
def test_the_sum_is_the_headline_unless_agents_have_sides(rewards, names, expected):
    assert list(groups_of(rewards, names)) == expected


def test_a_side_is_told_by_what_its_agents_get_together():
    names = ["red_0", "blue_0", "red_1"]
    results = results_of([[1.0, 5.0, 3.0], [3.0, 5.0, 1.0]], groups_of([[1.0, 5.0, 3.0]], names))
    assert results == {"red": 4.0, "blue_0": 5.0} and as_text(results) == "red 4.0, blue_0 5.0"
    assert as_text({"sum": 4.0}) == "4.0"


def test_the_result_of_a_run_is_that_of_its_last_tenth_by_the_sides_of_the_whole_run():
    epochs = [{"reward_per_agent": [float(number % 7), -float(number % 7)]} for number in range(20)]
    assert results_of_run(epochs) == {"agent 0": 4.5, "agent 1": -4.5}
