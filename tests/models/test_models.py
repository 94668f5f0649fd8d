"""What holds for every model: own random streams, whole files, aligned blocks, epsilon."""

import copy
import struct

import numpy as np
import pytest
import torch

from abreast.errors import ConfigError, ModelFileError
from abreast.models import ALGORITHMS, algorithm
from abreast.models.flat import Adam, FlatParameters
from abreast.models.layers import Linear
from abreast.streams import seeded_globals, shared_streams
from fakes import TinyObservation, live, make_model

LEARNERS = ["dqn", "iqn", "ppo", "sac"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_seed_gives_the_same_actions_and_weights_and_another_does_not(name):
    def outcome(seed):
        model = make_model(name, seed=seed)
        actions = live(model, epochs=3)
        losses = [model.train_step() for _ in range(3)]
        return actions, losses, model.online_block.values.tolist() if name in LEARNERS else None

    assert outcome(1) == outcome(1)
    assert outcome(1)[0] != outcome(2)[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_global_random_state_is_used_or_changed(name):
    def state():
        return torch.get_rng_state().tolist(), str(np.random.get_state())  # noqa: NPY002 (to see it is left alone)

    torch.manual_seed(1)
    before = state()
    model = make_model(name)
    live(model)
    first = model.train_step()
    assert state() == before
    torch.manual_seed(2)
    again = make_model(name)
    live(again)
    assert again.train_step() == first


@pytest.mark.parametrize("name", LEARNERS)
def test_choosing_does_not_depend_on_learning_in_between(name):
    """In a parallel run the two happen in different processes, each with its own stream."""
    quiet, busy = make_model(name), make_model(name)
    live(quiet)
    live(busy)
    weights = busy.online_block.values.detach().clone()
    busy.train_step()
    assert not torch.equal(weights, busy.online_block.values.detach())
    busy.online_block.values.data.copy_(weights)
    assert live(quiet, seed=1) == live(busy, seed=1)


@pytest.mark.parametrize("name", LEARNERS)
def test_learning_changes_the_policy_only_when_an_epoch_starts(name):
    model = make_model(name)
    live(model)
    before = model.policy_block.values.detach().clone()
    model.train_step()
    assert torch.equal(before, model.policy_block.values.detach())
    model.start_epoch_action(epoch=1)
    assert torch.equal(model.online_block.values.detach(), model.policy_block.values.detach())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_saved_model_comes_back_whole_and_learns_on_identically(name, tmp_path):
    model = make_model(name, seed=1)
    live(model, epochs=2)
    model.train_step()
    model.epsilon_decay(0.5)
    model.save(tmp_path / "model.safetensors")
    other = make_model(name, seed=2)
    other.load(tmp_path / "model.safetensors")
    assert (other.epsilon, other.updates) == (model.epsilon, model.updates)
    for mine, theirs in zip(model.blocks().values(), other.blocks().values(), strict=True):
        assert torch.equal(mine, theirs)
    for each in (model, other):  # the same data and the same draws from here on
        each.memory.clear()
        each.memory.rng = np.random.default_rng(3)
        each.learning_generator.manual_seed(5)
        if name == "ppo":
            each.rows_learned_from[:] = 0
        live(each, epochs=2)
    assert model.train_step() == other.train_step()
    assert torch.equal(model.online_block.values, other.online_block.values)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("is_file", [True, False])
def test_loaded_weights_act_at_once_in_the_middle_of_an_epoch(name, is_file, tmp_path):
    def actions(model):
        states = np.random.default_rng(4).integers(0, 2, size=(20, 4)).astype(np.uint8)
        return [np.asarray(model.take_action(state)).tolist() for state in states]

    trained, other, fresh = (make_model(name, seed=seed, epsilon=0.0, learning_rate=0.1) for seed in (1, 2, 2))
    live(trained, epochs=2)
    trained.train_step()
    for model in (trained, other, fresh):
        model.start_epoch_action(epoch=0)
    if is_file:
        trained.save(tmp_path / "model.safetensors")
        other.load(tmp_path / "model.safetensors")
    else:
        other.set_acting_state(trained.acting_state())
        other.set_learning_state(trained.learning_state())
    assert actions(other) == actions(trained) != actions(fresh)


def cut_short(data):
    return data[: len(data) // 2]


def garbage(data):
    return b"garbage"


def huge_header(data):
    return struct.pack("<Q", 1 << 60) + data[8:]


def no_metadata(data):
    return data.replace(b'"abreast"', b'"another"')


@pytest.mark.parametrize("damage", [cut_short, garbage, huge_header, no_metadata])
def test_a_damaged_file_is_named_and_changes_nothing(damage, tmp_path):
    path = tmp_path / "model.safetensors"
    make_model("dqn", seed=1).save(path)
    path.write_bytes(damage(path.read_bytes()))
    model = make_model("dqn", seed=2)
    before = model.online_block.values.detach().clone()
    with pytest.raises(ModelFileError, match=r"model\.safetensors is damaged or not one of abreast's"):
        model.load(path)
    assert torch.equal(before, model.online_block.values.detach())


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"name": "iqn"}, "holds a model of algorithm 'dqn'"),
        ({"name": "dqn", "hidden_size": 8}, "does not fit this model: adam_mean.heads.weight"),
        ({"name": "dqn", "n_actions": 5}, r"sees \(4,\) and has 3 actions, but this one sees \(4,\) and has 5 actions"),
        ({"name": "dqn", "dueling": False}, "does not fit this model"),
    ],
)
def test_a_file_of_another_model_is_refused(other, says, tmp_path):
    make_model("dqn").save(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=says):
        make_model(**other).load(tmp_path / "model.safetensors")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match="there is no model file"):
        make_model("dqn").load(tmp_path / "none.safetensors")


def test_saving_leaves_nothing_beside_the_file(tmp_path):
    make_model("ppo").save(tmp_path / "model.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_tensor_of_a_block_starts_at_a_multiple_of_64_bytes(name):
    model = make_model(name, hidden_size=13)
    for parameter in model.online.parameters():
        assert parameter.data_ptr() % 64 == 0
        assert parameter.grad.data_ptr() % 64 == 0


def test_a_flat_network_computes_and_learns_as_before():
    generator = torch.Generator().manual_seed(0)
    plain = Linear(3, 2)
    plain.initialise(generator)
    flat = Linear(3, 2)
    flat.load_state_dict(plain.state_dict())
    block = FlatParameters(flat, learns=True)
    inputs = torch.rand(5, 3)
    for layer in (plain, flat):
        layer(inputs).square().sum().backward()
    assert torch.equal(plain.weight.grad, flat.weight.grad)
    assert torch.equal(block.views(block.gradients)["weight"], plain.weight.grad)


def test_adam_does_what_adam_does():
    generator = torch.Generator().manual_seed(0)
    layer = Linear(5, 3)
    layer.initialise(generator)
    block = FlatParameters(layer, learns=True)
    mine = Adam(block, learning_rate=0.01)
    theirs = torch.nn.Parameter(block.values.detach().clone())
    reference = torch.optim.Adam([theirs], lr=0.01)
    for _ in range(20):
        block.gradients.normal_(generator=generator)
        theirs.grad = block.gradients.clone()
        mine.step()
        reference.step()
    assert torch.allclose(block.values, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["dqn", "iqn", "sac"])
def test_the_target_follows_slowly_and_is_copied_now_and_then(name):
    model = make_model(name, target_rate=0.5, target_interval=3, gradient_steps=1)
    live(model)
    for step in range(1, 4):
        before = model.target_block.values.detach().clone()
        model.train_step()
        online, target = model.online_block.values.detach(), model.target_block.values.detach()
        assert torch.allclose(target, online if step == 3 else (before + online) / 2, atol=1e-6)


def test_long_gradients_are_shortened():
    model = make_model("dqn", gradient_norm=0.5)
    live(model)
    model.descend((model.online(torch.ones(1, model.input_size)) * 1e4).sum())
    assert torch.linalg.vector_norm(model.online_block.gradients).item() == pytest.approx(0.5, rel=1e-3)


def test_epsilon_falls_to_its_floor_and_no_further():
    model = make_model("dqn", epsilon=0.6, epsilon_min=0.1)
    seen = []
    for _ in range(30):
        model.epsilon_decay(0.2)
        seen.append(model.epsilon)
    assert seen[0] == pytest.approx(0.48) and seen[-1] == 0.1 and seen == sorted(seen, reverse=True)
    assert make_model("dqn", epsilon=0.0, epsilon_min=0.1).epsilon == 0.0


def test_epsilon_is_the_share_of_random_actions():
    model = make_model("dqn", epsilon=0.5, n_frames=1, buffer_capacity=4000)
    model.start_epoch_action(epoch=0)
    state = np.ones(4, dtype=np.uint8)
    actions = [model.take_action(state) for _ in range(3000)]
    greedy = max(set(actions), key=actions.count)
    assert actions.count(greedy) / 3000 == pytest.approx(0.5 + 0.5 / 3, abs=0.05)


def test_frames_are_stacked_oldest_first_and_cleared_between_epochs():
    model = make_model("dqn", (2,), n_frames=3)
    model.start_epoch_action(epoch=0)
    for number in (1, 2):
        model.take_action(np.full(2, number, dtype=np.uint8))
    assert model.frame_stack._window_LTD.tolist() == [[[0, 0], [1, 1], [2, 2]]]
    model.start_epoch_action(epoch=1)
    assert model.frame_stack._window_LTD.max() == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_chosen_from_and_what_is_learned_from_look_the_same(name):
    """The stack an action was chosen from equals the stack the replay puts together for its row."""
    model = make_model(name, (3,), n_frames=3)
    seen = []
    choose = model.choose
    model.choose = lambda frames, lanes: seen.append(frames.clone()) or choose(frames, lanes)
    live(model, epochs=2, turns=6)
    learned = model.as_input(model.memory.trajectory(0, 0).states)
    assert torch.equal(torch.cat(seen), learned)


def test_pixels_are_scaled():
    class Pixels(TinyObservation):
        scale = 1 / 255

    kind = algorithm("dqn")
    model = kind(Pixels(2), 2, kind.Config(algorithm="dqn", n_frames=1), np.random.SeedSequence(0))
    model.start_epoch_action(epoch=0)
    assert model.frame_stack.push([np.array([255, 0], dtype=np.uint8)], [0]).tolist() == [[1.0, 0.0]]
    assert model.as_input(np.array([[[255, 0]]], dtype=np.uint8)).tolist() == [[1.0, 0.0]]


def test_text_observations_are_refused_by_networks():
    class Letters(TinyObservation):
        dtype = np.dtype("U1")

    kind = algorithm("dqn")
    with pytest.raises(ConfigError, match="needs numbers to learn from"):
        kind(Letters(2), 2, kind.Config(algorithm="dqn"), np.random.SeedSequence(0))


def test_noise_differs_between_epochs_and_agents_but_not_within_an_epoch():
    model, other = make_model("iqn", seed=1), make_model("iqn", seed=2)
    for each in (model, other):
        each.start_epoch_action(epoch=0)
    frames = torch.rand(1, model.input_size)
    first, second = model.evaluate(frames), model.evaluate(frames)
    model.start_epoch_action(epoch=1)
    assert torch.equal(first, second)
    assert not torch.equal(first, model.evaluate(frames))


def test_an_episode_that_ends_for_one_agent_alone_begins_a_new_stack():
    model = make_model("dqn", (1,), n_frames=3)
    model.start_epoch_action(epoch=0)
    seen = []
    for number, done in enumerate([False, True, False]):
        state = np.array([number + 1], dtype=np.uint8)
        model.take_action(state)
        seen.append(model.frame_stack._window_LTD.copy().reshape(-1).tolist())
        model.remember(state, 0, 0.0, done)
    assert seen == [[0, 0, 1], [0, 1, 2], [0, 0, 3]]
    assert model.memory.trajectory(0, 0).states.reshape(3, 3).tolist() == seen


def test_a_file_without_counters_changes_nothing(tmp_path):
    path = tmp_path / "model.safetensors"
    make_model("dqn", seed=1).save(path)
    path.write_bytes(path.read_bytes().replace(b'\\"updates\\"', b'\\"updated\\"'))
    model = make_model("dqn", seed=2)
    before = model.online_block.values.detach().clone()
    with pytest.raises(ModelFileError, match="damaged"):
        model.load(path)
    assert torch.equal(before, model.online_block.values.detach())


def test_a_users_network_begins_as_torch_made_it_and_a_trial_of_it_changes_nothing():
    model = make_model("unfit_models:HasAPlainNetwork")
    with seeded_globals(np.random.SeedSequence(0)):
        expected = model.make_network().state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.online.state_dict().items())
    before, streams = copy.deepcopy(model.policy.state_dict()), shared_streams()
    model.check_whole()
    assert all(torch.equal(value, before[name]) for name, value in model.policy.state_dict().items())
    assert shared_streams() == streams and model.policy.training
