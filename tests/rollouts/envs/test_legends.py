"""What a model is told about states and actions follows the variant that is in use."""

import pytest

from abreast.rollouts import find_kind
from abreast.rollouts.context.context import Context
from abreast.rollouts.envs.sokoban.config import SYMBOLS
from abreast.rollouts.registry import find_tag


def legend(env_type, **config):
    kind = find_kind(env_type)
    return kind.legend(kind.config.parse(config))


@pytest.mark.parametrize("env_type", ["sokoban", "frozen_lake", "bandit", "countdown", "metamathqa", "webshop"])
def test_every_environment_has_one_and_its_instruction_leaves_it_to_that(env_type):
    assert legend(env_type)
    instruction = find_kind(env_type).instruction
    assert not any(word in instruction for word in ("Symbols", "Actions:", "click[", "_ ", "√", "for example"))
    assert "  " not in Context(find_tag(env_type, {})).instruction


def test_sokoban():
    grid, coord = legend("sokoban"), legend("sokoban", observation_format="coord")
    both, picture = legend("sokoban", observation_format="grid_coord"), legend("sokoban", render_mode="rgb_array")
    symbols = [f"{symbol} " for symbol in SYMBOLS if symbol not in "PS"] + ["P you", "S you on a target"]
    assert all(symbol in grid and symbol in both for symbol in symbols)
    assert "(row, column)" in coord and "(row, column)" in both and "(row, column)" not in grid
    for text in (coord, picture):
        assert not any(symbol in text for symbol in "#_√") and "one symbol a cell" not in text
    assert "picture" in picture and "brown crate" in picture and "picture" not in grid
    assert legend("sokoban", render_mode="rgb_array", observation_format="coord") == picture


def test_frozen_lake():
    text, picture = legend("frozen_lake"), legend("frozen_lake", render_mode="rgb_array")
    assert all(
        symbol in text for symbol in ("P you", "_ ice", "O hole", "G goal", "X you in a hole", "√ you on the goal")
    )
    assert "picture" in picture and not any(symbol in picture for symbol in "_√")
    assert "slippery: a move goes where you meant with a chance of 33%" in text and "slippery" in picture
    assert "chance of 80%" in legend("frozen_lake", success_rate=0.8)
    assert "slippery" not in legend("frozen_lake", is_slippery=False)


@pytest.mark.parametrize(
    ("env_type", "names", "told"),
    [
        (
            "sokoban",
            ["hoch", "runter", "links", "rechts"],
            "hoch means up, runter means down, links means left, rechts means",
        ),
        (
            "frozen_lake",
            ["links", "runter", "rechts", "hoch"],
            "links means left, runter means down, rechts means right, hoch",
        ),
    ],
)
def test_changed_names_are_shown_and_explained(env_type, names, told):
    config = {"action_lookup": dict(enumerate(names, 1))}
    assert told in legend(env_type, **config) and "means" not in legend(env_type)
    tag = find_tag(env_type, {})._replace(config=find_kind(env_type).config.parse(config))
    instruction = Context(tag).instruction
    assert f"Actions: {', '.join(sorted(names))}." in instruction and not any(
        name in instruction for name in ("Up", "Left")
    )


def test_webshop():
    texts = {mode: legend("webshop", observation_mode=mode) for mode in ("text", "text_rich", "html", "url")}
    assert all("search[words]" in text and "click[buy now]" in text for text in texts.values())
    assert [mode for mode, text in texts.items() if "[SEP]" in text] == ["text"]
    assert [mode for mode, text in texts.items() if "[button]" in text] == ["text_rich"]
    assert [mode for mode, text in texts.items() if "HTML" in text] == ["html"]
    assert [mode for mode, text in texts.items() if "address" in text] == ["url"]


def test_a_bandit_does_not_tell_which_arm_is_which():
    one = legend("bandit", lo_arm_name="A", hi_arm_name="B")
    assert one == legend("bandit", lo_arm_name="B", hi_arm_name="A")
