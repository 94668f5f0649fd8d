import base64
import json
import zlib

import pytest

from abreast.errors import RunFolderError
from abreast.report import data, read_run
from report.folders import write_rollout, write_timeline, write_training


def figures(run):
    return {(figure["group"], figure["name"]): figure for figure in run["figures"]}


def test_every_figure_of_the_metrics_is_there_by_agent(tmp_path):
    write_training(tmp_path / "run", epochs=3, names=["ann", "bob"])
    run = read_run(tmp_path / "run")
    assert (run["kind"], run["name"], run["epochs"], run["agents"]) == ("training", "run", 3, ["ann", "bob"])
    counted = {"steps": [50, 100, 150], "agent_steps": [100, 200, 300]}
    assert run["x"] == {"epoch": [0, 1, 2], **counted, "elapsed_s": [2.0, 4.0, 6.0]}
    found = figures(run)
    assert found["run", "reward"]["all"] == [10, 12, 14]
    assert found["run", "reward"]["agents"] == {0: [0, 1, 2], 1: [10, 11, 12]}
    assert found["run", "loss"]["agents"][1] == [None, 1.0, 0.5]
    assert found["metrics", "gems"]["all"] == [0, 1, 2] and found["time", "lag"]["agents"][0] == [1, 1, 1]
    others = {("learning", "entropy"), ("run", "epsilon"), ("run", "updates"), ("time", "restarts")}
    assert found.keys() == {("run", "reward"), ("run", "loss"), ("metrics", "gems"), ("time", "lag"), *others}
    json.dumps(run, allow_nan=False)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('{"epoch": 3, "reward": 1', "line 4 of metrics.jsonl is cut off, and left out."),
        ("[1]\n", "line 4 of metrics.jsonl is damaged, and left out."),
        ("[" * 100_000 + "\n", "line 4 of metrics.jsonl is damaged, and left out."),
        ("\xff\n", "line 4 of metrics.jsonl is damaged, and left out."),
    ],
)
def test_a_line_that_is_cut_or_damaged_is_named_and_left_out(tmp_path, more, fault):
    write_training(tmp_path, epochs=3, more=more)
    run = read_run(tmp_path)
    assert run["epochs"] == 3 and run["unreadable"] == [fault]


def test_values_that_are_no_numbers_are_gaps(tmp_path):
    write_training(
        tmp_path, epochs=1, more='{"epoch": 1, "reward": 1e999, "epsilon": "x", "loss": NaN, "new": 5, "time": 3}\n'
    )
    run = read_run(tmp_path)
    found = figures(run)
    assert found["run", "reward"]["all"] == [10, None] and found["run", "new"]["all"] == [None, 5]
    assert run["x"]["elapsed_s"] == [2.0, 2.0]  # an axis never falls
    json.dumps(run, allow_nan=False)


@pytest.mark.parametrize(("limit", "most"), [("MOST_POINTS", 4), ("MOST_VALUES", 60)])
def test_a_long_run_and_one_of_many_agents_have_means_of_several_epochs(limit, most, tmp_path, monkeypatch):
    monkeypatch.setattr(data, limit, most)
    write_training(tmp_path, epochs=9)
    run = read_run(tmp_path)
    assert (run["epochs"], run["epochs_per_point"], run["x"]["epoch"]) == (9, 3, [1.0, 4.0, 7.0])
    assert figures(run)["run", "reward"]["agents"][0] == [1.0, 4.0, 7.0]
    assert figures(run)["run", "loss"]["all"][0] == 0.75  # of 1 and 1/2: the first epoch has none


def test_a_run_without_epochs_is_a_run(tmp_path):
    (tmp_path / "config.yaml").write_text("game: tag")
    run = read_run(tmp_path)
    assert (run["epochs"], run["agents"], run["figures"], run["unreadable"]) == (0, [], [], [])
    assert run["settings"] == {"game": "tag"} and run["log"]["ended"] is None


def test_the_log_says_what_went_wrong_and_how_it_ended(tmp_path):
    write_training(tmp_path)
    log = read_run(tmp_path)["log"]
    ((time, level, text),) = log["problems"]
    assert (time, level) == ("2026-01-02 03:04:06", "WARNING") and text.endswith("\nTraceback: its stack")
    assert log["ended"] == "finished after 30 epochs" and len(log["tail"]) == 4
    with (tmp_path / "log.txt").open("a") as file:
        file.write("2026-01-02 04:00:00,000 [main] INFO goes on with 30 epochs recorded\n")
    assert read_run(tmp_path)["log"]["ended"] is None


def test_the_timeline_has_lanes_spans_and_calls_that_overlap(tmp_path):
    write_training(tmp_path)
    write_timeline(tmp_path)
    told = read_run(tmp_path)["timeline"]
    (lane,) = told["lanes"]
    assert told["seconds"] == 10.0 and told["kinds"] == [
        ("play", False),
        ("see", False),
        ("wait", True),
        ("model", True),
    ]
    assert lane["spans"] == [[0, 0, 3000000], [1, 100000, 500000], [2, 3000000, 2000000], [0, 5000000, 3000000]]
    assert lane["calls"] == [[3, 0, 2000000], [3, 1000000, 3000000]] and lane["dropped"] == 5


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"traceEvents": 5}', '{"traceEvents": [{"ph": "X"}]}', '{"abreast": []}']
)
def test_a_timeline_that_cannot_be_read_is_named(tmp_path, text):
    write_training(tmp_path)
    (tmp_path / "timeline.json").write_text(text)
    run = read_run(tmp_path)
    assert run["timeline"] is None and run["epochs"] == 30
    assert [fault for fault in run["unreadable"] if fault.startswith("timeline.json")]


def test_films_are_the_best_the_last_and_the_newest(tmp_path):
    write_training(tmp_path)
    (tmp_path / "replays").mkdir()
    for name in ("epoch_000050.gif", "epoch_000100.gif", "best.gif", "best.mp4", "last.gif", "only.mp4", "notes.txt"):
        (tmp_path / "replays" / name).write_bytes(b"film")
    (tmp_path / "replays" / "films.json").write_text('{"best.gif": {"epoch": 7, "reward": 12.5}, "last.gif": 3}')
    films = read_run(tmp_path)["films"]
    names = [film["name"] for film in films]
    assert names == ["best.gif", "last.gif", "only.mp4", "epoch_000100.gif", "epoch_000050.gif"]
    assert films[0]["reward"] == 12.5 and films[3]["epoch"] == 100


def test_settings_that_cannot_be_read_are_named(tmp_path):
    write_training(tmp_path)
    (tmp_path / "config.yaml").write_text("a: [1")
    run = read_run(tmp_path)
    assert run["settings"] == {} and run["unreadable"][0].startswith("config.yaml cannot be read: ")
    (tmp_path / "config.yaml").write_text("a: &a [*a]")
    assert read_run(tmp_path)["unreadable"] == [
        "config.yaml cannot be read: ValueError, an alias stands for what it is in."
    ]


def test_episodes_are_a_table_and_packed_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PER_PACK", 2)
    write_rollout(tmp_path, 5, silent="Lake", failed=[3])
    with (tmp_path / "trajectories.jsonl").open("a") as file:
        file.write(
            (tmp_path / "trajectories.jsonl").read_text().splitlines()[0] + '\n{"episode": 9}\n{"episode": 10, "ta'
        )
    run = read_run(tmp_path)
    assert run["kind"] == "rollout" and run["episodes"] == 5 and run["settings"] == {"policy": "openai"}
    assert run["table"]["episode"] == [0, 1, 2, 3, 4] and run["table"]["tag"][:2] == ["Sokoban", "Lake"]
    assert run["table"]["success"] == [True, None, False, False, False] and run["table"]["prompt"] == [40] * 5
    packs = [json.loads(zlib.decompress(base64.b64decode(pack))) for pack in run["packs"]]
    assert [[line["episode"] for line in pack] for pack in packs] == [[0, 1], [2, 3], [4]]
    assert run["unreadable"] == [
        "line 7 of trajectories.jsonl is no episode, and left out.",
        "line 8 of trajectories.jsonl is cut off, and left out.",
    ]


def test_turns_are_packed_as_far_as_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PER_PACK", 2)
    monkeypatch.setattr(data, "MOST_PACKED", 1)
    write_rollout(tmp_path, 5)
    run = read_run(tmp_path)
    assert run["episodes"] == 5 and len(run["packs"]) == 1


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.touch(), lambda path: None])
def test_a_folder_that_is_no_run_is_refused(tmp_path, make):
    make(tmp_path / "run")
    with pytest.raises(RunFolderError, match="run is no run folder: "):
        read_run(tmp_path / "run")


def test_curves_of_peace_and_equality_are_left_out_where_they_say_nothing(tmp_path):
    def names(*metrics, shift=0.0):
        write_training(tmp_path, epochs=len(metrics), shift=shift)
        lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        changed = [{**line, "metrics": each} for line, each in zip(lines, metrics, strict=True)]
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
        return [figure["name"] for figure in read_run(tmp_path)["figures"] if figure["group"] == "metrics"]

    assert names({"peace": 2.0, "equality": 0.5}, {"peace": 2.0, "equality": 0.25}) == ["equality"]
    assert names({"peace": 2.0, "equality": 0.5}, {"peace": 1.5, "equality": 0.25}, shift=-20.0) == ["peace"]
