"""Model files: everything is in them, and what is none is refused."""

import json
import os

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch

from abreast.errors import ModelFileError
from abreast.state_file import dumps
from fakes import TinyObservation, live, make_model
from unfit_models import Fit


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_random_streams_and_counters_are_kept(name, tmp_path):
    """Loaded into a fresh model, with the same rows, it chooses and learns on bit for bit."""
    model, other = make_model(name), make_model(name, seed=5)
    live(model, epochs=3)
    model.train_step()
    model.epsilon = 0.25
    model.save(tmp_path / "m.safetensors")
    other.memory.set_state(model.memory.state())
    other.load(tmp_path / "m.safetensors")
    assert live(model, seed=3) == live(other, seed=3)
    assert [model.train_step() for _ in range(2)] == [other.train_step() for _ in range(2)]
    assert (other.epsilon, other.updates) == (model.epsilon, model.updates)


def test_a_file_of_another_format_is_refused(tmp_path):
    model, path = make_model("dqn"), tmp_path / "m.safetensors"
    state = model.file_state()
    path.write_bytes(dumps(state._replace(facts={**state.facts, "format": 1})))
    with pytest.raises(ModelFileError, match="is in format 1, expected 2: load it with the version"):
        model.load(path)


def test_ppo_learns_on_with_other_rows_and_other_lanes_than_the_file_counted(tmp_path):
    model, other = make_model("ppo"), make_model("ppo", seed=5)
    live(model, epochs=3)
    model.train_step()
    model.save(tmp_path / "m.safetensors")
    other.load(tmp_path / "m.safetensors")  # its memory is empty
    live(other)
    assert other.train_step() is not None, "it waits for rows that were counted in another run"
    np.testing.assert_array_equal(other.counters()["rows_learned_from"], other.memory.written)


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about["learning"].update(sampling={"bit_generator": "PCG64"}),
        lambda about: about["learning"].update(sampling=7),
        lambda about: about["acting"].update(choosing={}),
        lambda about: about["acting"].update(epsilon=float("nan")),
        lambda about: about["learning"].update(gradient_steps="many"),
        lambda about: about.pop("acting"),
    ],
)
def test_a_file_with_damaged_facts_changes_nothing(damage, tmp_path):
    model, path = make_model("dqn"), tmp_path / "m.safetensors"
    make_model("dqn", seed=5).save(path)
    with safetensors.safe_open(str(path), framework="numpy") as file:
        about = json.loads(file.metadata()["abreast"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    damage(about)
    path.write_bytes(safetensors.numpy.save(arrays, metadata={"abreast": json.dumps(about)}))
    weights, streams = model.online_block.values.detach().clone(), model.acting_state().facts
    with pytest.raises(ModelFileError, match="damaged or not one of abreast's"):
        model.load(path)
    assert torch.equal(model.online_block.values, weights) and model.acting_state().facts == streams


@pytest.mark.parametrize("harm", ["pipe", "folder"])
def test_what_is_no_file_is_refused_and_not_waited_for(harm, tmp_path):
    os.mkfifo(tmp_path / "m") if harm == "pipe" else (tmp_path / "m").mkdir()
    with pytest.raises(ModelFileError, match="m is damaged or not one of abreast's: it is not a file"):
        make_model("dqn").load(tmp_path / "m")


def test_weights_of_another_type_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    make_model("dqn").save(path)
    with safetensors.safe_open(str(path), framework="numpy") as file:
        about, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    arrays = {name: array.astype(np.int64) if name.startswith("online") else array for name, array in arrays.items()}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=about))
    with pytest.raises(ModelFileError, match="of int64, expected"):
        make_model("dqn").load(path)


def test_a_number_of_torch_stays_a_number(tmp_path):
    """The optimiser of a user's model counts its steps in a tensor without dimensions."""
    seen, config = TinyObservation(4), Fit.Config.parse({"batch_size": 8, "n_frames": 1})
    model, other = (Fit(seen, 3, config, np.random.SeedSequence(seed)) for seed in range(2))
    live(model)
    model.train_step()
    model.save(tmp_path / "m.safetensors")
    other.load(tmp_path / "m.safetensors")
    assert [other.optimiser.state[each]["step"].shape for each in other.network.parameters()] == [(), ()]
