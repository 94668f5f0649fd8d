"""Run folders: metrics, films, checkpoints; going on; the command line."""

import json
import logging

import pytest
from PIL import Image
from typer.testing import CliRunner

import sorrel_standin
from abreast.cli.app import app
from abreast.state_file import loads
from integrations.sorrel.helpers import SorrelExperiment, find, make, outcome, parallel

FORAGE = "sorrel:sorrel_standin:ForageEnv"


def cli(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in found]


def test_a_run_from_the_command_line_has_a_whole_folder_and_can_go_on(tmp_path):
    cli("train", FORAGE, "experiment.epochs=3", "--output", tmp_path / "half")
    cli("train", "--resume", tmp_path / "half", "experiment.epochs=7")
    cli("train", FORAGE, "--output", tmp_path / "whole")  # seven, by its own settings
    half, whole = lines(tmp_path / "half"), lines(tmp_path / "whole")
    assert len(whole) == 8
    assert half == whole
    assert whole[-1]["metrics"].keys() == {"total_reward", "best_turn"}
    with Image.open(tmp_path / "whole" / "replays" / "epoch_000004.gif") as film:
        assert film.size == (120, 120)
    for number in range(2):
        files = [
            tmp_path / name / "checkpoints" / "final" / f"agent_{number}.safetensors" for name in ("half", "whole")
        ]
        first, second = (loads(file.read_bytes()) for file in files)
        assert all(first.arrays[name].tobytes() == second.arrays[name].tobytes() for name in second.arrays)
        assert first.facts == second.facts


def test_the_schedule_is_lockstep_unless_another_is_asked_for():
    game, asked = find(FORAGE.removeprefix("sorrel:")), ["multiprocessing.schedule=pipelined"]
    schedules = [game.configure(None, each).multiprocessing.schedule for each in ((), asked)]
    assert schedules == ["lockstep", "pipelined"]


@pytest.mark.parametrize("kind", ["policy", "table", "tag"])
@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
def test_a_run_that_goes_on_equals_one_that_never_stopped(kind, schedule, tmp_path):
    def run(env, **options):
        return SorrelExperiment(env, parallel(schedule)).run_experiment_mp(animate=False, **options)

    never, first, second = make(kind, epochs=6), make(kind, epochs=2), make(kind, epochs=6)
    run(never, output_dir=tmp_path / "never")
    run(first, output_dir=tmp_path / "run")
    run(second, resume=tmp_path / "run")
    assert lines(tmp_path / "run") == lines(tmp_path / "never")
    assert outcome(second) == outcome(never) != outcome(first)


def test_a_run_with_learners_in_processes_goes_on_alike(tmp_path):
    def run(env, **options):
        settings = parallel("lockstep", "processes", num_workers=1)
        return SorrelExperiment(env, settings).run_experiment_mp(animate=False, **options)

    never, first, second = make(epochs=6), make(epochs=3), make(epochs=6)
    SorrelExperiment(never).run_experiment(animate=False, output_dir=tmp_path / "never")
    run(first, output_dir=tmp_path / "run")
    run(second, resume=tmp_path / "run")
    rewards = [
        [(each["reward_per_agent"], each["loss_per_agent"]) for each in lines(tmp_path / name)]
        for name in ("run", "never")
    ]
    assert rewards[0] == rewards[1]
    assert outcome(second) == outcome(never) != outcome(first)


def test_what_cannot_be_kept_is_said_in_one_line_and_agents_are_kept(tmp_path, caplog):
    env = make("values", sorrel_standin.Unwritable)
    with caplog.at_level(logging.WARNING, "abreast"):
        SorrelExperiment(env).run_experiment(animate=False, output_dir=tmp_path / "run")
    (line,) = [each.message for each in caplog.records if "cannot be resumed" in each.message]
    assert "Unwritable.stream (generator)" in line
    kept = loads((tmp_path / "run" / "checkpoints" / "final" / "agent_0.safetensors").read_bytes())
    assert any((array.shape == (12, 33)) for array in kept.arrays.values())


def test_the_same_command_builds_the_same_environment():
    source = find("sorrel_standin:ForageEnv")
    first, second = (source.build(source.configure()).env for _ in range(2))
    other = source.build(source.configure(None, ["experiment.seed=1"])).env
    assert outcome(first) == outcome(second) != outcome(other)


def test_settings_are_sorrels_unless_only_abreast_has_them():
    source = find("sorrel_standin:ForageEnv")
    config = source.configure(None, ["experiment.max_turns=5", "experiment.seed=2", "world.height=6", "new.key=1"])
    env = source.build(config).env
    assert (config.experiment.epochs, config.experiment.max_turns, config.experiment.seed) == (8, 5, 2)
    assert (env.world.height, env.config.new.key, env.config.experiment.epochs) == (6, 1, 7)
    assert "seed" not in env.config.experiment


@pytest.mark.parametrize(("target", "turns"), [("sorrel_standin:tag", 12), ("sorrel_standin:built", 4)])
def test_functions_that_build_an_environment(target, turns):
    source = find(target)
    experiment = source.build(source.configure(None, [] if target.endswith("tag") else ["experiment.epochs=1"]))
    assert experiment.env.config.experiment.max_turns == turns
