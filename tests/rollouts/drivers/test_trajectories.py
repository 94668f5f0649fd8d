"""The run folder of a rollout."""

import json
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
import yaml
from PIL import Image

from abreast import report
from abreast.errors import RunFolderError
from abreast.rollouts import RolloutConfig
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Played, Tokens
from abreast.rollouts.drivers.trajectories import Trajectories, read_run
from abreast.rollouts.episodes.slot import Tally
from abreast.rollouts.registry import find_tag

PLAY = PlayConfig(tag="Bandit", episodes=8, group_size=2)


def keep(folder, **more):
    return Trajectories(folder, RolloutConfig(), PLAY, "how it came to be", "1.2.3", **more)


def played(number, history, **more):
    cache = {"env_id": 0, "group_id": 3, "tag": "Bandit", "penalty": -0.1, "info": {}, "history": history}
    given = {
        "number": number, "group_id": 3, "seed": 11, "tag": find_tag("Bandit", {}), "truncated": True, "error": None,
        "is_unanswered": False, "tally": Tally(reward=1.5, executed=2), "cache": cache,
        "answers": ["<answer>x</answer>"], "tokens": Tokens(4, 2),
    }  # fmt: skip
    return Played(**{**given, **more})


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
    first = {"state": "<images>", "images": [picture], "info": info, "actions": ["x"], "reward": 1.5, "actions_left": 1}
    history = [first, {"state": "√\ud800", "actions_left": 0}]
    with keep(tmp_path) as kept:
        kept.add(played(7, history))
        line = json.loads((tmp_path / "trajectories.jsonl").read_text())
    shown = line.pop("history")
    assert shown[0]["images"] == ["images/episode_000007_00.png"] and shown[1] == {
        "state": "√\ud800",
        "actions_left": 0,
    }
    assert shown[0]["info"] == {
        "array": [0, 1], "number": 0.5, "nan": None, "pair": [1, None], "3": [4], "o": "<class 'object'>"
    }  # fmt: skip
    assert [message["role"] for message in line.pop("messages")] == ["system", "user", "assistant"]
    assert line == {
        "episode": 7, "group_id": 3, "tag": "Bandit", "seed": 11, "penalty": -0.1, "reward": 1.5, "score": 1.4,
        "success": False,
        "terminated": True, "truncated": True, "error": None, "unanswered": False, "num_actions": 2, "num_given": 0,
        "num_invalid": 0, "tokens": {"prompt": 4, "completion": 2}, "answers": ["<answer>x</answer>"],
        "rewards": [pytest.approx(1.4)], "prompts": [2], "info": {},
    }  # fmt: skip
    with Image.open(tmp_path / "images/episode_000007_00.png") as kept_picture:
        assert np.array_equal(np.asarray(kept_picture), np.asarray(picture))
    assert history[0]["images"] == [picture]  # whoever plays on still has it
    assert (tmp_path / "config.yaml").read_text().startswith("# how it came to be\nseed:\n")
    assert "stopped after 1 episodes, of 8\n" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(("error", "by"), [(None, ""), (KeyboardInterrupt, ", by KeyboardInterrupt")])
def test_a_report_says_how_a_rollout_ended_whether_it_was_stopped_or_raised(error, by, tmp_path):
    with suppress(KeyboardInterrupt), keep(tmp_path) as kept:
        kept.add(played(0, []))
        if error is not None:
            raise error
    assert report.read_run(tmp_path)["log"]["ended"] == f"stopped after 1 episodes, of 8{by}"


def test_a_run_can_be_read_and_gone_on_with(tmp_path):
    with keep(tmp_path) as kept:
        assert kept.results.before == 0
        kept.add(played(0, []))
        kept.add(played(1, [], is_unanswered=True, error="no."))
    assert read_run(tmp_path) == (RolloutConfig(), PLAY, "1.2.3")
    with (tmp_path / "trajectories.jsonl").open("a") as file:
        file.write('{"episode": 2, "gro')
    with keep(tmp_path) as kept:
        assert kept.numbers == {0, 1} and kept.results.before == 2 and len(kept.faults) == 1
        kept.add(played(2, []))
    with keep(tmp_path, retry_failed=True) as kept:
        assert kept.numbers == {0, 2} and kept.results.before == 2
    assert "resumed with 2 episodes" in (tmp_path / "log.txt").read_text()


def test_a_folder_that_is_being_written_to_is_refused(tmp_path):
    with (
        keep(tmp_path),
        pytest.raises(RunFolderError, match=r"another run of this process is writing to .*: wait for its end, or stop"),
    ):
        keep(tmp_path)
    with keep(tmp_path):
        pass


def test_a_folder_that_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(
        RunFolderError, match=r"is no run of `abreast rollout` that could be used: it has no config\.yaml"
    ):
        read_run(tmp_path)
    with keep(tmp_path):
        pass
    given = yaml.safe_load((tmp_path / "rollout.yaml").read_text())
    (tmp_path / "rollout.yaml").write_text(yaml.safe_dump({**given, "episodes": "many"}))
    with pytest.raises(RunFolderError, match=r"cannot be used: episodes is 'many'"):
        read_run(tmp_path)


def test_a_large_run_is_gone_on_with_one_line_in_memory_at_a_time(tmp_path):
    with keep(tmp_path) as kept:
        kept.add(played(0, [{"state": "x" * 50_000, "actions_left": 1}]))
    path = tmp_path / "trajectories.jsonl"
    line = path.read_bytes()
    assert line.startswith(b'{"episode": 0')
    more = [line.replace(b'"episode": 0', b'"episode": %d' % number, 1) for number in range(1, 200)]
    path.write_bytes(b"".join([line, *more, b'{"half']))
    tracemalloc.start()
    try:
        with keep(tmp_path) as kept:
            assert kept.results.before == len(kept.numbers) == 200 and len(kept.faults) == 1
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 10_000_000 > 4 * most
