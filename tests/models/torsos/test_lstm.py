"""The torso with a memory: what it computes, what is stored with a row, and that it remembers."""

import numpy as np
import pytest
import torch

from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.models.torsos.lstm import LSTM
from fakes import TinyObservation, live, make_model
from recall_game import rewards_at_the_end


def test_it_computes_what_an_lstm_does():
    torso, theirs = LSTM(3, 4, 0, 1, None), torch.nn.LSTM(3, 4, batch_first=True)
    torso.initialise(torch.Generator().manual_seed(0))
    order = torch.cat([torch.arange(8), torch.arange(12, 16), torch.arange(8, 12)])  # theirs: in, forget, cell, out
    with torch.no_grad():
        for ours, name in ((torso.gates, "ih"), (torso.gates_again, "hh")):
            getattr(theirs, f"weight_{name}_l0").copy_(ours.weight[order])
            getattr(theirs, f"bias_{name}_l0").copy_(ours.bias[order])
        frames, told, cells = torch.rand(5, 6, 3), torch.rand(5, 4), torch.rand(5, 4)
        rows = torch.cat([frames.flatten(1), told, cells, torch.full((5, 1), 6.0)], dim=1)
        features, memory = torso.unroll(rows)
        expected, (last_told, last_cells) = theirs(frames, (told[None], cells[None]))
    torch.testing.assert_close(features, expected[:, -1])
    torch.testing.assert_close(memory, torch.cat([last_told[0], last_cells[0]], dim=1))


def test_frames_before_the_start_of_an_episode_do_not_count():
    torso = LSTM(2, 3, 0, 1, None)
    torso.initialise(torch.Generator().manual_seed(0))
    frames, memory = torch.rand(1, 4), torch.rand(1, 6)
    short = torso(torch.cat([frames, memory, torch.full((1, 1), 2.0)], dim=1))
    long = torso(torch.cat([torch.zeros(1, 6), frames, memory, torch.full((1, 1), 2.0)], dim=1))
    torch.testing.assert_close(short, long)


def evaluated_while_playing(model, dones, lanes=(0, 1)):
    """What choosing went by, row by row: lane after lane."""
    evaluate, found = model.evaluate_with_memory, []
    model.evaluate_with_memory = lambda rows: found.append(evaluate(rows)) or found[-1]
    rng = np.random.default_rng(0)
    model.start_epoch_action(epoch=0)
    for done in dones:
        seen = list(rng.integers(0, 2, (len(lanes), *model.observation.input_size)).astype(np.uint8))
        actions = model.take_actions(seen, list(lanes))
        model.remember_all(seen, actions, [0.5] * len(lanes), [done] * len(lanes), list(lanes))
    model.end_epoch_action(epoch=0)
    return torch.stack([values for values, _ in found], dim=1)


@pytest.mark.parametrize("name", ["dqn", "ppo"])
@pytest.mark.parametrize(("shape", "scale"), [((4,), 1.0), ((6, 6, 3), 1 / 255)], ids=["vector", "picture"])
def test_learning_begins_with_the_memory_that_choosing_had(name, shape, scale):
    """With the same weights, the window of a row gives what the whole episode gave when its action was chosen."""
    kind = algorithm(name)
    config = kind.Config.parse({"algorithm": name, "network": "lstm", "hidden_size": 8, "n_frames": 3, "epsilon": 0.5})
    model = kind(PlainObservation(shape, np.uint8, scale), 3, config, np.random.SeedSequence(1), lanes=2)
    chosen_LNA = evaluated_while_playing(model, [False] * 7 + [True] + [False] * 4)
    for lane in range(2):
        rows = model.memory.trajectory(lane, 0)
        assert rows.extras["frames"].tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 1, 2, 3, 3]
        assert not rows.extras["memory"][[0, 1, 2, 8, 9, 10]].any() and rows.extras["memory"][[3, 7, 11]].all()
        inputs = model.as_input(rows.states, rows.extras)
        with torch.no_grad():
            learned_NA = model.online(inputs) if name == "dqn" else model.online.log_chances(inputs)
        torch.testing.assert_close(learned_NA, chosen_LNA[lane], rtol=1e-4, atol=1e-5)
    assert (chosen_LNA[0, 0] != chosen_LNA[0, 8]).any()


def test_the_value_of_ppo_has_a_memory_of_its_own():
    model = make_model("ppo", network="lstm", n_frames=2, hidden_size=8)
    live(model, turns=6)
    rows = model.memory.trajectory(0, 0)
    frames, none = model.as_input(rows.states, rows.extras)[:, 4:8], torch.zeros(1, 32)
    with torch.no_grad():
        for row in range(2, 6):  # the window begins with frame `row` - 1
            seen = torch.cat([frames[: row - 1].reshape(1, -1), none, torch.full((1, 1), row - 1.0)], dim=1)
            torsos = (model.online.policy_torso, model.online.value_torso)
            both = torch.cat([torso.unroll(seen)[1] for torso in torsos], dim=1)
            torch.testing.assert_close(torch.from_numpy(rows.extras["memory"][row]), both[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_a_lane_remembers_its_own_episode_alone(name):
    def chosen(lanes):
        kind = algorithm(name)
        config = kind.Config.parse(
            {"algorithm": name, "network": "lstm", "hidden_size": 8, "n_frames": 2, "epsilon": 0.0}
        )
        model = kind(TinyObservation(4), 3, config, np.random.SeedSequence(1), lanes=3)
        rng, found = np.random.default_rng(0), []
        model.start_epoch_action(epoch=0)
        for turn in range(12):
            seen = rng.integers(0, 2, (3, 4)).astype(np.uint8)
            there = [lane for lane in lanes if lane != 1 or turn < 5]  # lane 1 ends before the others
            with torch.inference_mode():
                model.take_actions([seen[lane] for lane in there], there)
            found.append(model.lane_memory._now_LS[2].copy())
            for lane in there:
                model.remember(seen[lane], 0, 0.0, turn == 4 and lane == 1, lane)
        return np.array(found)

    np.testing.assert_allclose(chosen([0, 1, 2]), chosen([2]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_random_choices_see_the_frame_too_and_all_weights_learn(name, tmp_path):
    model, other = (make_model(name, network="lstm", seed=seed, epsilon=1.0, n_frames=4) for seed in (1, 2))
    live(model, epochs=2)
    assert model.memory.trajectory(0, 10).extras["memory"][:10].all()
    before = [parameter.detach().clone() for parameter in model.online.parameters()]
    model.train_step()
    now = list(model.online.parameters())
    assert all(not torch.equal(was, parameter) for was, parameter in zip(before, now, strict=True))
    model.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    assert torch.equal(model.online_block.values, other.online_block.values)


def test_it_begins_by_keeping_what_it_remembers():
    torso = LSTM(3, 5, 0, 1, None)
    torso.initialise(torch.Generator().manual_seed(0))
    assert torso.gates.bias[5:10].min() > 0.4 and torso.gates.bias[:5].max() < 0.6


def test_it_remembers_what_an_mlp_cannot():
    dqn = {"algorithm": "dqn", "epochs": 200, "delay": 2, "learning_rate": 0.005, "hidden_size": 16}
    assert rewards_at_the_end(network="lstm", n_frames=3, **dqn) > 0.8
    assert abs(rewards_at_the_end(network="mlp", n_frames=1, **dqn)) < 0.4


def test_the_memory_reaches_further_back_than_the_frames_it_learns_from():
    ppo = {"algorithm": "ppo", "epochs": 300, "delay": 2, "learning_rate": 0.02, "gae_lambda": 0.95, "hidden_size": 16}
    assert rewards_at_the_end(network="lstm", n_frames=2, **ppo) > 0.8
    assert abs(rewards_at_the_end(network="mlp", n_frames=2, **ppo)) < 0.4
