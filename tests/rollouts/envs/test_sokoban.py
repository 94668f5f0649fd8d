"""Sokoban, rule by rule."""

import pickle
import random
import warnings
from itertools import count

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.grids import show
from abreast.rollouts.envs.sokoban import KIND, SokobanConfig, SokobanEnv, board, plan, rooms
from abreast.rollouts.envs.sokoban.board import plain, read_room
from abreast.rollouts.envs.sokoban.config import SYMBOLS
from abreast.rollouts.envs.sokoban.grid import cells_of, reachable, set_of
from abreast.rollouts.envs.sokoban.picture import TILES
from abreast.rollouts.registry import KINDS

UP, DOWN, LEFT, RIGHT = 1, 2, 3, 4
FORMATS = ["grid", "coord", "grid_coord"]
JUNK = [0, 5, -1, 10**400, 1.0, True, None, "Up", "1", "x" * 1_000_000, b"1", [1], {}, np.array([1, 2]), float("nan")]


def place(*rows, **config):
    """An environment in mid-episode, in the room that these rows show."""
    env = SokobanEnv(config)
    env.put(room_in("\n".join(rows)))
    return env


def room_in(text, **config):
    return read_room(SokobanConfig.parse(config), text)


def rows_of(text):
    return text.split("\n")


def play(env, seed, turns=40):
    """One episode of moves in a fixed order, with some junk in it: everything that came back."""
    seen = [env.reset(seed=seed)]
    for turn in range(turns):
        seen.append(env.step((turn * turn + turn // 3 + seed) % 5))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def solve(env, text, actions_left=1000):
    return board.solve(env.config, [{"state": text, "actions_left": actions_left}])


def follow(env, names):
    numbers = {name: number for number, name in env.config.action_lookup.items()}
    return [env.step(numbers[name]) for name in names]


# Moves


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (UP, ["#####", "#_P_#", "#___#", "#O_X#", "#####"]),
        (DOWN, ["#####", "#___#", "#___#", "#OPX#", "#####"]),
        (LEFT, ["#####", "#___#", "#P__#", "#O_X#", "#####"]),
        (RIGHT, ["#####", "#___#", "#__P#", "#O_X#", "#####"]),
    ],
)
def test_the_player_walks(action, expected):
    text, reward, terminated, truncated, info = place("#####", "#___#", "#_P_#", "#O_X#", "#####").step(action)
    assert rows_of(text) == expected
    assert (reward, terminated, truncated) == (-0.1, False, False)
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": True, "boxes_on_target": 0}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (UP, ["#######", "#O_X_O#", "#__P__#", "#_X_X_#", "#__X__#", "#O___O#", "#######"]),
        (DOWN, ["#######", "#O___O#", "#__X__#", "#_X_X_#", "#__P__#", "#O_X_O#", "#######"]),
        (LEFT, ["#######", "#O___O#", "#__X__#", "#XP_X_#", "#__X__#", "#O___O#", "#######"]),
        (RIGHT, ["#######", "#O___O#", "#__X__#", "#_X_PX#", "#__X__#", "#O___O#", "#######"]),
    ],
)
def test_walking_into_a_box_pushes_it(action, expected):
    env = place("#######", "#O___O#", "#__X__#", "#_XPX_#", "#__X__#", "#O___O#", "#######")
    text, reward, _, _, info = env.step(action)
    assert rows_of(text) == expected
    assert reward == -0.1 and info["action_is_effective"]


@pytest.mark.parametrize(
    "row",
    ["#P####", "#PX###", "#PXX_#", "#PX√_#", "#P√X_#", "#P√###"],
    ids=[
        "wall",
        "box at a wall",
        "two boxes",
        "box before box on target",
        "box on target before box",
        "target at a wall",
    ],
)
def test_what_does_not_give_way_costs_a_step_and_changes_nothing(row):
    env = place("######", row, "#_X_O#", "######")
    before = env.render()
    text, reward, terminated, truncated, info = env.step(RIGHT)
    assert text == before
    assert (reward, terminated, truncated) == (-0.1, False, False)
    assert info["action_is_valid"] and not info["action_is_effective"]


# Rewards


@pytest.mark.parametrize(
    ("row", "after", "reward", "on_target"),
    [
        ("#PXO_#", "#_P√_#", 0.9, 1),
        ("#P√__#", "#_SX_#", -1.1, 0),
        ("#P√O_#", "#_S√_#", -0.1, 1),
        ("#SX__#", "#OPX_#", -0.1, 0),
        ("#PO__#", "#_S__#", -0.1, 0),
    ],
    ids=["onto a target", "off a target", "from target to target", "player leaves a target", "player enters a target"],
)
def test_rewards_of_single_moves(row, after, reward, on_target):
    env = place("######", row, "#_X_O#", "######")
    text, got, terminated, _, info = env.step(RIGHT)
    assert rows_of(text)[1] == after
    assert got == pytest.approx(reward, abs=1e-12) and not terminated
    assert info["boxes_on_target"] == on_target and not info["success"]


def test_the_last_box_onto_its_target_ends_the_episode():
    env = place("######", "#PXO_#", "#_√__#", "######")
    _, reward, terminated, truncated, info = env.step(RIGHT)
    assert reward == pytest.approx(-0.1 + 1 + 10)
    assert terminated and not truncated
    assert info == {"success": True, "action_is_valid": True, "action_is_effective": True, "boxes_on_target": 2}
    with pytest.raises(RolloutError, match="call reset"):
        env.step(UP)


def test_a_whole_episode_adds_up():
    env = SokobanEnv()
    text, _ = env.reset(seed=3)
    seen = follow(env, solve(env, text))
    gains = np.diff([0] + [info["boxes_on_target"] for *_, info in seen])
    assert [reward for _, reward, *_ in seen] == pytest.approx([*(gains[:-1] - 0.1), 10.9])
    assert [terminated for _, _, terminated, _, _ in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1][0].count("√") == 3 and "X" not in seen[-1][0]


def test_the_step_limit_truncates():
    env = place("#####", "#P_O#", "#_X_#", "#####", max_steps=4)
    assert [env.step(UP)[2:4] for _ in range(4)] == [(False, False)] * 3 + [(False, True)]
    with pytest.raises(RolloutError, match="call reset"):
        env.step(UP)
    env.reset()
    assert env.step(UP)[3] is False


def test_solving_on_the_last_step_is_no_truncation():
    env = place("#####", "#PXO#", "#___#", "#####", max_steps=1)
    assert env.step(RIGHT)[2:4] == (True, False)


def test_step_and_render_need_a_reset():
    for use in (lambda env: env.step(UP), lambda env: env.render()):
        with pytest.raises(RolloutError, match="call reset"):
            use(SokobanEnv())


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:12])
def test_junk_is_no_step_at_all(junk):
    env = SokobanEnv({"max_steps": 1})
    text, _ = env.reset(seed=1)
    expected = {"success": False, "action_is_valid": False, "action_is_effective": False, "boxes_on_target": 0}
    assert env.step(junk) == (text, 0.0, False, False, expected)
    assert env.step(np.int64(UP))[4]["action_is_valid"]


# Rooms


@pytest.mark.parametrize(
    ("config", "seeds"),
    [
        ({"num_boxes": 1}, 25),
        ({"num_boxes": 2}, 25),
        ({}, 25),
        ({"dim_room": (5, 5), "num_boxes": 2}, 15),
        ({"dim_room": (4, 9), "num_boxes": 2}, 10),
        ({"dim_room": (3, 8), "num_boxes": 2}, 10),
        ({"dim_room": (8, 8), "search_depth": 20}, 5),
        ({"dim_room": (10, 10), "num_boxes": 4}, 1),
    ],
    ids=str,
)
def test_every_room_is_sound_and_can_be_solved(config, seeds):
    env = SokobanEnv(config)
    for seed in range(seeds):
        text, info = env.reset(seed=seed)
        assert info == {"success": False, "action_is_valid": True, "action_is_effective": False, "boxes_on_target": 0}
        rows, columns = env.config.dim_room
        grid = rows_of(text)
        assert [len(row) for row in grid] == [columns] * rows
        assert {*grid[0], *grid[-1], *(row[0] for row in grid), *(row[-1] for row in grid)} == {"#"}
        assert text.count("X") == text.count("O") + text.count("S") == env.config.num_boxes
        assert text.count("P") + text.count("S") == 1 and "√" not in text
        room = room_in(text)
        assert reachable(1 << room.player, room.floor, columns) == room.floor
        seen = follow(env, solve(env, text))
        assert seen[-1][2] and seen[-1][4]["success"], f"seed {seed} was not solved"
        assert len(seen) <= env.config.max_steps


def test_the_carved_floor_hangs_together_and_leaves_the_border():
    inside = set_of(row * 9 + column for row in range(1, 6) for column in range(1, 8))
    sizes = []
    for seed in range(100):
        floor = rooms.carve(np.random.default_rng(seed), 7, 9)
        assert floor & ~inside == 0
        assert reachable(floor & -floor, floor, 9) == floor
        sizes.append(floor.bit_count())
    assert 15 < np.mean(sizes) < 30


def test_the_start_is_the_arrangement_with_the_highest_score():
    # A corridor: the box can only go right, and the player has to keep a cell beyond it.
    room = room_in("########\n#XP____#\n########")
    best = next(rooms.BackwardSearch(room.floor, [9], 8).best_first(room.player, 300), None)
    assert (best.boxes, best.player, best.swaps, best.displacement, best.score) == ((13,), 14, 1, 4, 4)
    assert next(rooms.BackwardSearch(room.floor, [9], 8).best_first(room.player, 2), None).boxes == (11,)


def test_swaps_and_displacement_are_those_of_the_pulls():
    # Two boxes at the ends of a corridor, the player between them: pulled toward each other, and nothing else.
    room = room_in("#########\n#XP____X#\n#########")
    best = next(rooms.BackwardSearch(room.floor, [10, 16], 9).best_first(room.player, 300), None)
    assert best.displacement == sum(abs(box - target) for box, target in zip(best.boxes, (10, 16), strict=True))
    assert best.score == best.swaps * best.displacement == 16  # two cells each, in turns
    one_pull = list(rooms.BackwardSearch(room.floor, [10, 16], 9).best_first(room.player, 1))
    assert not one_pull  # one of them is still at home


def test_a_search_that_finds_nothing_ends_soon(monkeypatch):
    monkeypatch.setattr(rooms, "EFFORT", 2_000)
    with pytest.raises(RolloutError, match=r"no room of 4 by 4 with 1 boxes .* in 1\d\d attempts: take fewer"):
        rooms.make_room(4, 4, 1, 300, seed=0)


# The same everywhere


def test_the_same_seed_gives_the_same_episode():
    env = SokobanEnv()
    first = play(env, 7)
    env.reset()
    assert play(env, 7) == first == play(SokobanEnv(), 7)
    assert play(env, 8)[0] != first[0]


def test_resets_without_a_seed_go_on_from_the_last_one():
    texts = []
    for _ in range(2):
        env = SokobanEnv()
        texts.append([env.reset(seed=5)[0], env.reset()[0], env.reset()[0]])
    assert texts[0] == texts[1] and len(set(texts[0])) == 3


def test_the_global_random_state_is_left_alone():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002
    env = SokobanEnv({"render_mode": "rgb_array"})
    play(env, 3)
    env.render()
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == before  # noqa: NPY002


@pytest.mark.parametrize("observation_format", FORMATS)
def test_a_pickled_environment_goes_on_where_it_was(observation_format):
    env = SokobanEnv({"observation_format": observation_format, "max_steps": 60})
    env.reset(seed=2)
    for turn in range(7):
        env.step(turn % 4 + 1)
    copy = pickle.loads(pickle.dumps(env))
    for turn in range(20):
        assert env.step((turn * 3) % 5) == copy.step((turn * 3) % 5)
    assert env.reset() == copy.reset()


# What is seen


def test_the_three_formats_show_the_same_room():
    room = "#####\n#SX_#\n##_√#\n#___#\n#####"
    shown = room_in(room)
    grid, coord, both = (
        show(SokobanConfig(dim_room=(5, 5), num_boxes=2, observation_format=name), plain(shown)) for name in FORMATS
    )
    lists = [
        "Cells are (row, column), counted from (0, 0) at the top left.",
        "Player: (1, 1)",
        "Boxes: (1, 2), (2, 3)",
        "Targets: (1, 1), (2, 3)",
    ]
    floor = "Floor: (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)"
    assert grid == room
    assert coord.split("\n") == [*lists, floor, "All other cells are wall."]
    assert both.split("\n") == [*room.split("\n"), *lists]
    assert shown.boxes_on_target == 1


def test_all_formats_read_back_as_the_same_room():
    for seed in range(5):
        texts = [SokobanEnv({"observation_format": name, "dim_room": (6, 8)}).reset(seed=seed)[0] for name in FORMATS]
        assert {plain(room_in(text, dim_room=(6, 8))) for text in texts} == {texts[0]}


@pytest.mark.parametrize("text", ["", "<images>", "##\n#P#", "#PP#", "Player: (1, 1)"])
def test_a_text_without_a_room_is_refused(text):
    with pytest.raises(RolloutError, match="shows no room in text"):
        room_in(text)


@pytest.mark.parametrize("observation_format", FORMATS)
@pytest.mark.parametrize("side", [5, 12])
def test_the_longest_text_lies_in_the_space(observation_format, side):
    inside = ["P" + "_" * (side - 3), "O" + "X" + "_" * (side - 4)] + ["_" * (side - 2)] * (side - 4)
    rows = ["#" * side, *(f"#{row}#" for row in inside), "#" * side]
    env = place(*rows, dim_room=(side, side), observation_format=observation_format, num_boxes=1)
    assert env.render() in env.observation_space
    assert env.reset(seed=1)[0] in env.observation_space


@pytest.mark.parametrize("render_mode", ["text", "rgb_array"])
@pytest.mark.parametrize("observation_format", FORMATS)
def test_gymnasium_finds_no_fault(render_mode, observation_format):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not having a spec.*")
        config = {
            "render_mode": render_mode,
            "observation_format": observation_format,
            "dim_room": (7, 11),
            "num_boxes": 1,
        }
        check_env(SokobanEnv(config), skip_render_check=False)


def test_render_returns_the_text_or_a_picture():
    env = SokobanEnv({"dim_room": (6, 8), "observation_format": "coord"})
    text, _ = env.reset(seed=1)
    assert env.render() == text
    env = SokobanEnv({"dim_room": (6, 8), "render_mode": "rgb_array"})
    text, _ = env.reset(seed=1)
    picture = env.render()
    assert picture.shape == (6 * 24, 8 * 24, 3) and picture.dtype == np.uint8
    for row, line in enumerate(rows_of(text)):
        for column, symbol in enumerate(line):
            tile = picture[row * 24 : (row + 1) * 24, column * 24 : (column + 1) * 24]
            assert (tile == TILES[symbol]).all()


def test_no_two_tiles_look_alike():
    tiles = [TILES[symbol].astype(int) for symbol in SYMBOLS]
    for i, one in enumerate(tiles):
        for other in tiles[:i]:
            assert (np.abs(one - other).sum(axis=2) > 60).mean() > 0.2


# The solver


@pytest.mark.parametrize("observation_format", FORMATS)
def test_the_solver_plays_from_any_text(observation_format):
    env = SokobanEnv({"observation_format": observation_format, "action_lookup": {1: "N", 2: "S", 3: "W", 4: "E"}})
    for seed in range(15):
        text, _ = env.reset(seed=seed)
        names = solve(env, text)
        assert set(names) <= {"N", "S", "W", "E"}
        assert follow(env, names)[-1][4]["success"]


def test_the_way_is_the_shortest():
    env = place("#######", "#P____#", "#_###_#", "#__X_O#", "#######")
    assert solve(env, env.render()) == ["Down", "Down", "Right", "Right", "Right"]
    env = place("#######", "#O_XP_#", "#_###_#", "#_____#", "#######")
    assert solve(env, env.render()) == ["Left", "Left"]


def fewest_moves(text):
    """How many moves solve a room, by trying all of them; slow, and nothing in common with the solver."""
    layer, seen = [text], {text}
    for moves in count(1):
        found = []
        for before in layer:
            for direction in range(4):
                room = room_in(before).after(direction)
                if room.boxes == room.targets:
                    return moves
                if plain(room) not in seen:
                    seen.add(plain(room))
                    found.append(plain(room))
        layer = found
    raise AssertionError("unreachable")


def test_no_way_is_shorter():
    env = SokobanEnv({"num_boxes": 2})
    texts = [env.reset(seed=seed)[0] for seed in range(2)]
    assert [len(solve(env, text)) for text in texts] == [fewest_moves(text) for text in texts]


def test_boxes_in_corners_and_along_walls_without_targets_are_lost():
    room = room_in("#######\n#_____#\n#__P__#\n#___XO#\n#_____#\n#######")
    needed = plan.Plan(room).pushes_needed
    lost = set(cells_of(room.floor)) - needed.keys()
    assert lost == {7 + column for column in range(1, 6)} | {28 + column for column in range(1, 6)} | {15, 22}
    assert (needed[3 * 7 + 5], needed[3 * 7 + 4], needed[2 * 7 + 2]) == (0, 1, 4)


def test_the_way_is_cut_to_the_actions_left():
    env = SokobanEnv()
    text, _ = env.reset(seed=3)
    whole = solve(env, text)
    assert solve(env, text, actions_left=2) == whole[:2] and len(whole) > 2
    assert solve(env, text, actions_left=0) == []


@pytest.mark.parametrize(
    "rows",
    [
        ["######", "#X__O#", "#_P__#", "######"],
        ["#####", "#_X_#", "#PXO#", "#XO_#", "#####"],
        ["######", "##PX##", "#XO_O#", "######"],
    ],
    ids=["box in a corner", "crowded", "only a push"],
)
def test_a_lost_room_still_gets_a_legal_move(rows):
    env = place(*rows)
    names = solve(env, env.render())
    assert names and all(info["action_is_valid"] for *_, info in follow(env, names))


def test_a_search_at_its_limit_still_moves(monkeypatch):
    monkeypatch.setattr(plan, "SEARCHES", ((1, 1), (5, 3)))
    env = SokobanEnv({"dim_room": (10, 10), "num_boxes": 4})
    for seed in range(1):
        text, _ = env.reset(seed=seed)
        seen = follow(env, solve(env, text))
        assert seen and all(info["action_is_effective"] for *_, info in seen)


# Settings


def test_dim_x_and_dim_y_override_dim_room():
    assert SokobanConfig.parse({"dim_x": 7, "dim_y": 9}).shape == (7, 9)
    assert SokobanConfig.parse({"dim_room": [8, 8], "dim_y": 9}).shape == (8, 9)
    assert SokobanConfig.parse({"dim_x": 8}).shape == (8, 6)
    assert SokobanConfig.parse({"dim_room": [5, 7]}).shape == (5, 7)
    assert len(rows_of(SokobanEnv({"dim_x": 5, "dim_y": 9}).reset(seed=0)[0])) == 5


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_boxes": 5}, "num_boxes is 5, but a room of 6 by 6 has space for 4"),
        ({"dim_room": (4, 4), "num_boxes": 1}, "num_boxes is 1, but a room of 4 by 4 has space for 0"),
        ({"dim_room": (3, 30), "num_boxes": 3}, "has space for 2"),
        ({"num_boxes": 0}, "num_boxes is 0"),
        ({"num_boxes": 2.0}, "num_boxes is 2.0"),
        ({"dim_room": (2, 6)}, "dim_room.0 is 2"),
        ({"dim_room": (6, 31)}, "dim_room.1 is 31"),
        ({"dim_room": (6,)}, "dim_room"),
        ({"dim_room": "6x6"}, "dim_room is '6x6'"),
        ({"dim_x": "6"}, "dim_x is '6'"),
        ({"dim_room": 6, "dim_x": 6}, "dim_room is 6"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
        ({"observation_format": "list"}, "observation_format is 'list'"),
        ({"action_lookup": None}, "action_lookup is None"),
        ({"action_lookup": {1: "Up"}}, "expected four names, for 1 (up), 2 (down), 3 (left), 4 (right)"),
        ({"action_lookup": {1: "Up", 2: "up", 3: "Left", 4: "Right"}}, "differ in more than upper and lower case"),
        ({"boxes": 3}, "unknown key boxes"),
    ],
    ids=str,
)
def test_bad_settings_are_one_clear_error(config, message):
    with pytest.raises(ConfigError) as caught:
        SokobanEnv(config)
    assert message in str(caught.value)


@pytest.mark.parametrize("size", [(3, 5), (3, 8), (4, 5), (4, 8), (5, 5), (6, 6), (5, 9), (7, 7)])
def test_the_most_boxes_that_are_allowed_are_found_a_room(size):
    most = rooms.most_boxes(*size)
    for depth in (most, 300):
        env = SokobanEnv({"dim_room": size, "num_boxes": most, "search_depth": depth})
        assert env.reset(seed=0)[0].count("X") == most
        with pytest.raises(ConfigError, match="take fewer boxes"):
            SokobanEnv({"dim_room": size, "num_boxes": most + 1})


def test_it_is_found_by_its_name():
    kind = KINDS.find("sokoban")
    assert kind is KIND
    assert kind.env(kind.config.parse({})).config.action_lookup == {1: "Up", 2: "Down", 3: "Left", 4: "Right"}
    assert all(symbol in kind.legend(kind.config.parse({})) for symbol in SYMBOLS)
