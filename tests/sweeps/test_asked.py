"""What a sweep is asked for: words, YAML and the runs that follow; one sentence for what cannot be."""

from pathlib import Path

import pytest

from abreast.errors import AbreastError
from abreast.runs import check_runs
from abreast.sweeps import Asked, expand
from abreast.sweeps.asked import examples, label_of, parse_seeds, split_values, split_words

GAME = "own_game:Garden"


def asked(**values):
    return Asked.read({"games": GAME, **values})


def test_a_comma_within_brackets_braces_or_quotes_is_part_of_a_value():
    assert split_values("key", "dqn,ppo, iqn") == ["dqn", "ppo", "iqn"]
    assert split_values("key", "[64,64],[128]") == [[64, 64], [128]]
    assert split_values("key", "{a: 1, b: 2},null") == [{"a": 1, "b": 2}, None]
    assert split_values("key", "'a,b',c") == ["a,b", "c"]
    assert split_values("key", "1e-4,3,true") == [1e-4, 3, True]
    assert split_values("key", "own.py:Model,dqn") == ["own.py:Model", "dqn"]


def test_words_are_games_or_settings():
    assert split_words(["a", "model.x=1,2", "b.py:C"]) == (["a", "b.py:C"], {"model.x": [1, 2]})
    assert (parse_seeds("3"), parse_seeds("3,5")) == ([0, 1, 2], [3, 5])


def test_runs_are_all_combinations_with_seeds_innermost_and_checkpoints_at_equal_distances():
    settings = {"model.algorithm": ["dqn", "ppo"], "experiment.epochs": 40}
    runs = expand(asked(seeds=2, settings=settings, evaluations=4))
    assert [(run.settings["model.algorithm"], run.seed) for run in runs] == [
        *(("dqn", 0), ("dqn", 1)),
        *(("ppo", 0), ("ppo", 1)),
    ]
    assert [run.name for run in runs][2] == "0002-own-game-garden-ppo-seed-0"
    assert runs[0].beside[0] == "experiment.checkpoint_interval=10"
    own = expand(asked(settings={"experiment.checkpoint_interval": 3}))
    assert not any("interval" in text for text in own[0].beside)


def test_no_checkpoint_is_dropped_where_epochs_are_no_multiple_of_evaluations():
    """11 are kept beside the last."""
    (run,) = expand(asked(settings={"experiment.epochs": 19}, evaluations=10))
    assert run.beside[0] == "experiment.checkpoint_interval=2"


def test_every_value_that_a_search_may_choose_is_checked_before_it_begins():
    settings = {"model.algorithm": ["dqn", "iqm", "iqn"], "model.gamma": {"low": 0.1, "high": 0.2}}
    with pytest.raises(AbreastError, match="iqm"):
        check_runs([run.config(Path()) for run in examples(asked(search="optuna", settings=settings))])


def test_what_was_asked_for_is_read_again_as_it_was():
    first = asked(seeds=2, settings={"model.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}}, search="optuna")
    assert Asked.read(first.as_yaml_values()) == first


BAD = {
    "unknown setting": ({"settings": {"model.learning_rat": [1]}}, "unknown key model.learning_rat"),
    "value": ({"settings": {"experiment.epochs": [4, -1]}}, "experiment.epochs is -1"),
    "no values": ({"settings": {"model.algorithm": []}}, "model.algorithm has no value"),
    "seed as a setting": ({"settings": {"experiment.seed": [1, 2]}}, "a sweep has seeds of its own"),
    "range without a search": ({"settings": {"model.gamma": {"low": 0.1, "high": 0.2}}}, "only a search can take"),
    "range the wrong way": (
        {"search": "optuna", "settings": {"model.gamma": {"low": 0.9, "high": 0.2}}},
        "expected low <= high",
    ),
    "range without a step": (
        {"search": "optuna", "settings": {"model.gamma": {"low": 0.1, "high": 0.2, "step": 0}}},
        "settings.model.gamma: step is 0: expected more than 0",
    ),
    "half a step": (
        {"search": "optuna", "settings": {"model.hidden_size": {"low": 8, "high": 16, "step": 0.5}}},
        "step is 0.5: expected more than 0, and an integer between two integers",
    ),
    "section": (
        {"settings": {"model": {"gamma": [0.1]}}},
        "settings.model is {'gamma': [0.1]}: expected a list of values",
    ),
    "the same value": ({"settings": {"model.gamma": [0.1, 0.2, 0.1]}}, "model.gamma has 0.1 twice"),
    "too many seeds": ({"seeds": 10**12}, "1000000000000 seeds, so more than 100,000 runs"),
    "too many runs": (
        {"settings": {f"world.{key}": [*range(90)] for key in "abcdefgh"}},
        "the sweep has more than 100,000 runs",
    ),
    "wrong for one game": (
        {"games": [GAME, "treasurehunt"], "settings": {"world.bushes": [3]}},
        "treasurehunt: unknown key world.bushes",
    ),
    "the same seed": ({"seeds": [1, 1]}, "seeds has 1 twice"),
    "no seeds": ({"seeds": 0}, "seeds"),
    "search in two games": ({"games": [GAME, "treasurehunt"], "search": "optuna"}, "a search is in one game"),
    "unknown key": ({"sedes": 3}, "did you mean 'seeds'?"),
    "game": ({"games": "treasurehnt"}, "did you mean 'treasurehunt'?"),
}


@pytest.mark.parametrize(("values", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence(values, sentence):
    with pytest.raises(AbreastError) as raised:
        expand(asked(**values))
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "a,,b", "a,", "[1", "2020-01-01"])
def test_values_that_cannot_be_read_are_one_sentence(text):
    with pytest.raises(AbreastError, match=r"model\.x"):
        split_values("model.x", text)


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1,", "1.5", "-1,2"])
def test_seeds_that_cannot_be_are_one_sentence(text):
    with pytest.raises(AbreastError, match="--seeds is"):
        parse_seeds(text)


def test_a_label_names_the_agent_has_at_most_forty_characters_and_is_no_others():
    many = {f"model.setting_{number}": number for number in range(30)}
    given = [
        {"model.per_agent.0.learning_rate": 0.001},
        {"model.per_agent.1.learning_rate": 0.001},
        many,
        {**many, "x": 1},
    ]
    labels = list[str]()
    for settings in given:
        labels.append(label_of("dqn", settings, labels))
    assert labels[:2] == ["dqn agent 0 learning_rate=0.001", "dqn agent 1 learning_rate=0.001"]
    assert labels[2][-4:] == "… #1" and labels[3][-4:] == "… #2" and max(map(len, labels)) == 40
    assert label_of("dqn", {"model.learning_rate": 0.00010001}, ["dqn learning_rate=0.0001"]).endswith("… #1")
