"""Lengths of the shortest solutions of Sokoban rooms, rooms as RAGEN makes them, and symbols of one's own."""

import random
from collections import deque

import numpy as np
import pytest

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import find_tag
from abreast.rollouts.config import TagConfig, shipped_tags
from abreast.rollouts.envs.sokoban import SokobanConfig, SokobanEnv, depth_first
from abreast.rollouts.envs.sokoban.board import read_room, solve
from abreast.rollouts.envs.sokoban.config import SYMBOLS
from abreast.rollouts.envs.sokoban.grid import cells_of, offsets
from abreast.rollouts.envs.sokoban.plan import Plan
from abreast.rollouts.envs.sokoban.rooms import Lengths

SHIPPED = [name for name, tag in shipped_tags().items() if tag.env_type == "sokoban"]
RAGEN_ROOMS = {  # 6 by 6, one box, search_depth 300: what its code makes of these seeds
    0: "######\n#____#\n##O_P#\n###X_#\n###__#\n######",
    1: "######\n#O_###\n#_####\n#X_###\n#P_###\n######",
    42: "######\n#PX_O#\n#____#\n######\n######\n######",
    10000: "######\n#O####\n#__###\n#X_###\n#_P_##\n######",
}
SPACED = {number: f" {symbol} " for number, symbol in enumerate(SYMBOLS)}
LETTERS = {0: "W", 1: ".", 2: "G", 3: "C", 4: "B", 5: "A", 6: "@"}


def shortest_by_breadth(room):
    """The moves of a shortest solution, found without any of the solver's ideas."""
    start = room.player, room.boxes
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        (player, boxes), moves = queue.popleft()
        if boxes == room.targets:
            return moves
        for offset in offsets(room.columns):
            there, after = player + offset, boxes
            if not room.floor >> there & 1:
                continue
            if boxes >> there & 1:
                beyond = there + offset
                if not room.floor >> beyond & 1 or boxes >> beyond & 1:
                    continue
                after = boxes ^ (1 << there | 1 << beyond)
            if (there, after) not in seen:
                seen.add((there, after))
                queue.append(((there, after), moves + 1))
    return None


def rooms_of(config, seeds):
    env = SokobanEnv(config)
    return [read_room(env.config, env.reset(seed=seed)[0]) for seed in seeds]


# ---- lengths


@pytest.mark.parametrize(
    "config", [{"num_boxes": 1}, {"num_boxes": 2}, {"num_boxes": 1, "room_search": "moves"}], ids=str
)
def test_the_shortest_solution_is_proven(config):
    for room in rooms_of(config, range(15)):
        length = shortest_by_breadth(room)
        assert Plan(room).shortest() == length
        assert Plan(room).shortest(length) == length and Plan(room).shortest(length - 1) is None


@pytest.mark.parametrize("name", SHIPPED)
def test_rooms_of_shipped_tags_take_more_than_one_move_and_no_more_than_the_budget(name):
    """The short version of benchmarks/sokoban_rooms.py."""
    tag = find_tag(name, {})
    config = tag.config.model_copy(update={"render_mode": "text", "observation_format": "grid"})
    lengths = [Plan(room).shortest(tag.budget) for room in rooms_of(config, range(10_000, 10_040))]
    assert None not in lengths and min(lengths) >= 2 and max(lengths) <= tag.budget
    assert len(set(lengths)) > 5  # they are not all alike


@pytest.mark.parametrize(("least", "most"), [(1, 4), (6, None), (4, 4), (5, 12)])
@pytest.mark.parametrize("search", ["pulls", "moves"])
def test_solutions_lie_between_min_moves_and_max_moves(least, most, search):
    config = {"num_boxes": 1, "min_moves": least, "max_moves": most, "room_search": search}
    lengths = [Plan(room).shortest() for room in rooms_of(config, range(10))]
    assert all(least <= length <= (most or 100) for length in lengths)


def test_min_solution_steps_is_another_name_of_both():
    config = SokobanConfig.parse({"num_boxes": 1, "min_solution_steps": [2, 10]})
    assert config.lengths == Lengths(2, 10, None, is_strict=True)
    assert SokobanConfig.parse({"min_solution_steps": None}).lengths == SokobanConfig().lengths
    with pytest.raises(ConfigError, match="min_solution_steps is 3: expected"):
        SokobanConfig.parse({"min_solution_steps": 3})


def test_limits_that_no_room_meets_are_one_clear_error():
    with pytest.raises(
        RolloutError, match=r"1 boxes and a solution of 900 to 1000 moves .* widen min_moves and max_moves"
    ):
        SokobanEnv({"num_boxes": 1, "min_moves": 900, "max_moves": 1000, "max_reset_tries": 5}).reset(seed=0)
    with pytest.raises(ConfigError, match="max_moves is 2 with min_moves 1 and 3 boxes"):
        SokobanConfig.parse({"max_moves": 2})
    with pytest.raises(ConfigError, match="max_moves is 4 with min_moves 5"):
        SokobanConfig.parse({"num_boxes": 1, "min_moves": 5, "max_moves": 4})


def test_rooms_without_limits_are_made_to_fit_the_budget_of_their_tag():
    """The settings of RAGEN's LargerSokoban: two thirds of the rooms would take more moves than there are."""
    settings = {"dim_x": 8, "dim_y": 8, "num_boxes": 2, "search_depth": 10}
    tag = find_tag("Mine", {"Mine": TagConfig(env_type="sokoban", max_actions_per_traj=10, env_config=settings)})
    assert tag.config.solvable_within == 10
    fitting = [Plan(room).shortest(10) is not None for room in rooms_of(tag.config, range(20))]
    without = [Plan(room).shortest(10) is not None for room in rooms_of(settings, range(20))]
    assert sum(fitting) >= 19 > 12 > sum(without)


def test_a_budget_that_no_room_fits_is_no_error():
    env = SokobanEnv({"num_boxes": 3, "solvable_within": 1})
    first = env.reset(seed=0)
    assert first[0].count("X") == 3 and env.reset(seed=0) == first


def test_limits_given_make_rooms_independent_of_the_budget():
    config = {"num_boxes": 1, "min_moves": 2}
    assert rooms_of({**config, "solvable_within": 3}, range(10)) == rooms_of(config, range(10))


# ---- as RAGEN makes them


@pytest.mark.parametrize("seed", RAGEN_ROOMS)
def test_a_seed_gives_the_room_it_gives_in_ragen(seed):
    tag = find_tag("SimpleSokoban", {}, preset="ragen")
    assert tag.config.room_search == "moves" and tag.config.solvable_within is None
    assert SokobanEnv(tag.config).reset(seed=seed)[0] == RAGEN_ROOMS[seed]


def test_one_room_in_ten_takes_one_move_under_the_preset():
    lengths = [
        Plan(room).shortest() for room in rooms_of(find_tag("SimpleSokoban", {}, preset="ragen").config, range(200))
    ]
    assert 0.04 < lengths.count(1) / 200 < 0.16


@pytest.mark.parametrize(
    "config", [{"num_boxes": 3, "search_depth": 40}, {"dim_room": (8, 8), "num_boxes": 2, "search_depth": 10}], ids=str
)
def test_rooms_by_moves_can_be_solved_and_have_no_box_on_a_target(config):
    for room in rooms_of({**config, "room_search": "moves"}, range(12)):
        assert (
            room.boxes & room.targets == 0 and room.boxes.bit_count() == room.targets.bit_count() == config["num_boxes"]
        )
        assert room.floor & room.boxes == room.boxes and not room.boxes >> room.player & 1
        assert len(list(cells_of(room.floor))) > config["num_boxes"] + 1
        assert Plan(room).shortest(200) is not None


def test_rooms_by_moves_leave_the_global_random_state_alone():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    rooms_of({"num_boxes": 1, "room_search": "moves"}, range(3))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_resets_without_a_seed_go_on_in_the_stream():
    env, twin = (SokobanEnv({"num_boxes": 1, "room_search": "moves"}) for _ in range(2))
    assert [env.reset(seed=4)[0], env.reset()[0]] == [twin.reset(seed=4)[0], twin.reset()[0]]
    assert env.reset()[0] != env.reset()[0]


def test_a_room_that_is_too_small_for_boxes_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(depth_first, "MOST_SEEDS", 20)
    with pytest.raises(RolloutError, match=r"no room of 3 by 6 with 1 boxes .* search_depth 1 was found"):
        SokobanEnv({"dim_room": (3, 6), "num_boxes": 1, "search_depth": 1, "room_search": "moves"}).reset(seed=0)


# ---- symbols


@pytest.mark.parametrize("lookup", [SPACED, LETTERS, dict(enumerate("√SPX#O_"))], ids=["spaced", "letters", "swapped"])
@pytest.mark.parametrize("observation_format", ["grid", "grid_coord"])
def test_own_symbols_are_shown_read_and_solved(lookup, observation_format):
    usual = SokobanEnv({"num_boxes": 1, "observation_format": observation_format})
    env = SokobanEnv({"num_boxes": 1, "observation_format": observation_format, "grid_lookup": lookup})
    text, _ = env.reset(seed=3)
    plain, _ = usual.reset(seed=3)
    shown = {symbol: lookup[number] for number, symbol in enumerate(SYMBOLS)}
    for row, its in zip(plain.split("\n")[:6], text.split("\n")[:6], strict=True):
        assert its == "".join(shown[symbol] for symbol in row)
    assert text.split("\n")[6:] == plain.split("\n")[6:]
    assert read_room(env.config, text) == read_room(usual.config, plain)
    assert env.observation_space.contains(text)
    numbers = {name: number for number, name in env.config.action_lookup.items()}
    for name in solve(env.config, [{"state": text, "actions_left": 100}]):
        *_, info = env.step(numbers[name])
    assert info["success"]


def test_own_symbols_do_not_change_the_picture():
    pictures = [SokobanEnv({"render_mode": "rgb_array", "grid_lookup": lookup}) for lookup in (None, SPACED)]
    for env in pictures:
        env.reset(seed=1)
    assert (pictures[0].render() == pictures[1].render()).all()


def test_the_meanings_of_symbols_are_there_for_a_legend():
    assert SokobanConfig().meanings["√"] == "box on a target"
    assert SokobanConfig.parse({"grid_lookup": LETTERS}).meanings["@"] == "you on a target"
    vocab = {symbol: f"a {symbol}" for symbol in LETTERS.values()}
    assert SokobanConfig.parse({"grid_lookup": LETTERS, "grid_vocab": vocab}).meanings == vocab


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"grid_lookup": {0: "#"}}, r"expected a symbol for each of the numbers \[0, 1, 2, 3, 4, 5, 6\]"),
        ({"grid_lookup": {**LETTERS, 6: "W"}}, "symbols that differ"),
        ({"grid_lookup": {**LETTERS, 6: "me"}}, "the same length"),
        ({"grid_lookup": {**LETTERS, 6: "\n"}}, "without line breaks"),
        ({"grid_lookup": dict.fromkeys(range(7), "")}, "symbols that differ"),
        ({"grid_lookup": {"0": "#"}}, "grid_lookup has a key '0'"),
        ({"grid_vocab": {"W": "wall"}}, "grid_vocab is .* but the symbols of grid_lookup are '#'"),
    ],
    ids=str,
)
def test_symbols_that_could_not_be_read_back_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        SokobanConfig.parse(config)


# ---- rewards


def test_the_only_reward_may_be_that_of_success():
    env = SokobanEnv({"num_boxes": 1, "ignore_gym_reward": True, "success_reward": 3.5})
    text, _ = env.reset(seed=8)
    numbers = {name: number for number, name in env.config.action_lookup.items()}
    rewards = [env.step(numbers[name])[1] for name in solve(env.config, [{"state": text, "actions_left": 100}])]
    assert rewards == [*[0.0] * (len(rewards) - 1), 3.5]
