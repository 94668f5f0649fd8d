"""The run folder of a rollout."""

import json

import numpy as np
from PIL import Image

from abreast.rollouts import RolloutConfig
from abreast.rollouts.drivers.play import Played
from abreast.rollouts.drivers.trajectories import Trajectories
from abreast.rollouts.episodes.summary import Tally


def test_an_episode_is_kept_as_soon_as_it_is_over_whatever_its_info_holds(tmp_path):
    info = {
        "array": np.arange(2),
        "number": np.float32(0.5),
        "nan": float("nan"),
        "pair": (1, None),
        3: {4},
        "o": object,
    }
    picture = Image.fromarray(np.full((2, 2, 3), 7, np.uint8))
    history = [{"state": "<images>", "images": [picture], "info": info}, {"state": "√\ud800"}]
    cache = {"env_id": 0, "group_id": 0, "tag": "Mine", "penalty": -0.1, "history": history}
    with Trajectories(tmp_path, RolloutConfig(), "how it came to be") as kept:
        kept.add(Played(7, 3, 11, True, None, 2, Tally(reward=1.5), cache))
        line = json.loads((tmp_path / "trajectories.jsonl").read_text())
    assert line.pop("history") == [
        {
            "state": "<images>",
            "images": ["images/episode_000007_00.png"],
            "info": {"array": [0, 1], "number": 0.5, "nan": None, "pair": [1, None], "3": [4], "o": "<class 'object'>"},
        },
        {"state": "√\ud800"},
    ]
    assert line == {
        "env_id": 7, "group_id": 3, "tag": "Mine", "seed": 11, "penalty": -0.1, "reward": 1.5, "success": False,
        "terminated": True, "truncated": True,
    }  # fmt: skip
    with Image.open(tmp_path / "images/episode_000007_00.png") as kept_picture:
        assert np.array_equal(np.asarray(kept_picture), np.asarray(picture))
    assert history[0]["images"] == [picture]  # whoever plays on still has it
    assert (tmp_path / "config.yaml").read_text().startswith("# how it came to be\nseed:\n")
    assert "finished after 1 episodes" in (tmp_path / "log.txt").read_text()
