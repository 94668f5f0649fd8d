"""The lines of trajectories.jsonl."""

import copy
import json
import math

import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RunFolderError
from abreast.rollouts import Context, EnvStateManager
from abreast.rollouts.drivers.browse import select_lines, table_of, text_of
from abreast.rollouts.drivers.lines import encode, find_file, line_of, plain, read_lines, repair
from abreast.rollouts.drivers.play import play_episodes
from abreast.rollouts.drivers.policies.base import Answer, Policy, Tokens, Unanswered
from rollout_helpers import settings


class Says(Policy):
    """Notes each prompt, and answers all but one."""

    def __init__(self):
        self.prompts = {}

    async def __call__(self, asked):
        self.prompts.setdefault(asked.number, []).append(asked.messages)
        if (asked.number, asked.turn) == (4, 3):
            raise Unanswered("no.")
        return Answer(f"<think>{asked.turn}</think><answer>Go</answer>", Tokens(7, 2))


def roll(policy=None, tag="varied", **context):
    ended, policy = [], policy or Says()
    with EnvStateManager({**settings([tag], [5], use_multiprocessing=False), "context": context}) as manager:
        play_episodes(manager, policy, ended.append)
    return sorted(ended, key=lambda each: each.number), policy


def lines_of(ended):
    return [line_of(each, lambda image: "image.png") for each in ended]


@pytest.mark.parametrize("context", [{}, {"history_window": 2}, {"system_prompt": ""}])
def test_a_line_holds_every_prompt_as_it_was_and_every_answer(context):
    ended, policy = roll(**context)
    for line in lines_of(ended):
        prompts = [line["messages"][:shown] if isinstance(shown, int) else shown for shown in line["prompts"]]
        answered = len(line["answers"])
        assert prompts == policy.prompts[line["episode"]][:answered]
        said = [message["content"] for message in line["messages"] if message["role"] == "assistant"]
        assert said == line["answers"] == [f"<think>{turn}</think><answer>Go</answer>" for turn in range(answered)]
        assert line["rewards"] == [1.0] * answered
        each = {"turns": [[7, 2]] * answered} if answered else {}
        assert line["tokens"] == {"prompt": 7 * answered, "completion": 2 * answered, **each}
    whole, cut = lines_of(ended)[3], lines_of(ended)[4]
    assert (whole["success"], whole["error"], whole["unanswered"], whole["num_actions"]) == (True, None, False, 4)
    assert (cut["success"], cut["error"], cut["unanswered"], cut["truncated"]) == (False, "no.", True, True)
    assert len(cut["answers"]) == 3 and all(isinstance(shown, int) for shown in cut["prompts"]) != (
        "history_window" in context
    )


def test_actions_are_shown_as_a_model_would_write_them():
    class Acts(Policy):
        async def __call__(self, asked):
            return Answer(["Go", "Stay"])

    line = lines_of(roll(Acts())[0])[4]
    assert line["answers"] == [["Go", "Stay"], ["Go", "Stay"], ["Go", "Stay"]]
    assert line["messages"][-1] == {
        "role": "assistant",
        "content": "<think></think><answer>Go</answer>",
    }  # it was over then


def test_images_are_named_in_the_history_and_in_the_messages():
    ended, _ = roll(tag="VisualSokoban")
    names = iter(f"{number}.png" for number in range(100))
    line = line_of(ended[0], lambda image: next(names))
    shown = [name for entry in line["history"] for name in entry["images"]]
    told = [
        part["image_url"]["url"] for message in line["messages"] for part in message["content"] if "image_url" in part
    ]
    assert shown[: len(told)] == told and len(told) == len(line["answers"]) == len(shown) - 1
    json.dumps(line)


def test_a_line_can_be_turned_into_the_same_messages_again():
    ended, _ = roll()
    for each, line in zip(ended, lines_of(ended), strict=True):
        cache = {"history": line["history"], "penalty": line["penalty"], "info": line["info"]}
        assert Context(each.tag).conversation(cache) == line["messages"]


# ---- reading


def repaired(path):
    """The episodes that stay in a file, and what was wrong with others."""
    kept = []
    return kept, repair(path, lambda line: not kept.append(line))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trajectories.jsonl"
    path.write_bytes(b"".join(encode(line) for line in lines_of(roll()[0])))
    return path


def test_half_a_line_at_the_end_is_repaired(file):
    whole = file.read_bytes()
    for cut in (1, 2, 30, len(whole.splitlines()[-1])):
        file.write_bytes(whole[:-cut])
        kept, faults = repaired(file)
        complete = cut == 1  # only the line feed is missing
        assert [line["episode"] for line in kept] == list(range(5 if complete else 4))
        assert len(faults) == (0 if complete or whole[:-cut].endswith(b"\n") else 1)
        assert file.read_bytes() == b"".join(whole.splitlines(keepends=True)[: 5 if complete else 4])
        assert not any("it is cut off" not in fault for fault in faults)


def test_repair_leaves_a_whole_file_alone_and_makes_none_that_is_missing(file):
    before = file.stat().st_mtime_ns, file.stat().st_ino
    assert len(repaired(file)[0]) == 5
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
    file.unlink()
    assert repaired(file) == ([], []) and not file.exists()


def test_episodes_without_an_answer_can_be_left_out(file):
    assert repair(file, lambda line: not line["unanswered"]) == []
    assert [line["episode"] for line in read_lines(file)[0]] == [0, 1, 2, 3]


def test_lines_that_are_no_episode_are_named_and_the_others_read(file):
    lines = file.read_bytes().splitlines(keepends=True)
    bad = [b"{\n", b"[1]\n", b"3\n", b"{}\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"episode": "one"}\n', lines[1]]
    file.write_bytes(b"".join([*lines[:2], b"\n", *bad, *lines[2:]]))
    found, faults = read_lines(file)
    assert [line["episode"] for line in found] == [0, 1, 2, 3, 4]
    reasons = ["not valid JSON", "it is [1]", "it is 3", "it has no episode", "not valid JSON", "not valid JSON",
               "its episode is 'one'", "holds episode 1 once more"]  # fmt: skip
    for number, (fault, reason) in enumerate(zip(faults, reasons, strict=True), 4):
        assert fault.startswith(f"line {number} of ") and reason in fault, fault


def test_a_folder_without_trajectories(tmp_path, file):
    assert find_file(tmp_path) == find_file(file) == file
    with pytest.raises(RunFolderError, match=r"no run of `abreast rollout`: there is no .*trajectories\.jsonl"):
        find_file(tmp_path.parent)


def test_values_that_json_cannot_hold():
    itself, deep = {"a": 1}, []
    itself["b"] = [itself, 10**5000, {3}, math.inf]
    for _ in range(2000):
        deep = [deep]
    shown = json.loads(json.dumps(plain({"itself": itself, "deep": deep})))
    assert shown["itself"]["b"][0] == "..." and shown["itself"]["b"][1].startswith("0x")
    assert shown["itself"]["b"][2:] == [[3], None]


def _places(value, place=()):
    if place:
        yield place
    for key in value if isinstance(value, dict) else range(len(value[:2])) if isinstance(value, list) else ():
        yield from _places(value[key], (*place, key))


def test_a_line_of_another_shape_is_refused_or_can_be_shown_listed_and_searched(tmp_path):
    line = json.loads(encode(lines_of(roll()[0])[3]))
    path, refused = tmp_path / "trajectories.jsonl", 0
    for place in _places(line):
        for value in (None, 3, "\ud800", [None], {"a": 1}, True):
            damaged = copy.deepcopy(line)
            inner = damaged
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            path.write_text(json.dumps(damaged))
            found, faults = read_lines(path)
            refused += len(faults)
            for each in found:
                text_of(each)
                table_of([each], 80)
                assert not select_lines([each], {}, contains="not there")
    assert refused > 100
