"""Details by hand: each test here fails for one particular slip that an earlier suite did not notice."""

import numpy as np
import pytest
import torch

import abreast
from abreast import ActionSpec, Gridworld, MovingAgent, OneHotObservationSpec
from abreast.errors import ConfigError, ModelFileError, ReplayError, WorldError
from abreast.models import ALGORITHMS, DQN, BaseModel, algorithm, name_of
from abreast.models.dqn.loss import value_loss
from abreast.models.iqn.loss import quantile_huber_loss
from abreast.models.layers import NoisyLinear
from abreast.models.ppo.config import PPOConfig
from abreast.models.ppo.loss import Rows, clipped_loss
from abreast.replay import Batch, Buffer
from abreast.worlds import EmptyEntity, Entity, RGBObservationSpec
from fakes import TinyObservation, live, make_model, small_game


def test_a_ring_gone_round_many_times_draws_only_whole_stacks():
    buffer = Buffer(10, (1,), n_frames=3, n_step=2, seed=0)
    for number in range(57):
        buffer.add(np.array([number]), 0, float(number), False)
    assert (
        len(buffer) == 10 and buffer.sampling_window(buffer.written)[1].sum() == 8
    )  # kills window-first, window-first+1, len-unbounded
    for stack in buffer.sample(200).states[..., 0].astype(int):
        assert (np.diff(stack) == 1).all()


def test_trajectory_boundary_clear_and_empty_copy():
    buffer = Buffer(8, (1,), n_frames=2, n_step=3, gamma=0.5, extras={"x": np.float32})
    for _number in range(20):
        buffer.add(np.zeros(1), 0, 0.0, False, x=0.0)
    with pytest.raises(ReplayError):
        buffer.trajectory(0, 11)
    twin = buffer.empty_copy(30)
    assert (twin.n_frames, twin.n_step, twin.gamma, twin.lanes, twin.capacity) == (2, 3, 0.5, 1, 30)
    buffer.clear()
    buffer.add(np.ones(1), 0, 0.0, False, x=0.0)
    assert buffer.trajectory(0, 0).states[0, 0, 0] == 0 and buffer.ring.fields["age"][0, 0] == 0


def test_value_weights_leave_out_rows_without_an_outcome():
    model = make_model("dqn", (1,), n_frames=1)
    batch = Batch(
        np.zeros((4, 1, 1), np.uint8),
        np.zeros(4, np.int64),
        np.zeros(4, np.float32),
        np.zeros((4, 1, 1), np.uint8),
        np.ones(4, np.float32),
        np.array([True, False, True, False]),
    )
    assert model.tensors_of(batch).weights.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert value_loss(torch.tensor([1.0, 1e6]), torch.zeros(2), torch.tensor([1.0, 0.0])).item() == 0.5


def test_value_models_pass_their_n_step_and_report_a_mean():
    model = make_model("dqn", n_step=4)
    assert model.memory.n_step == 4
    live(model)
    losses = iter([1.0, 2.0, 6.0])
    model.config = model.config.model_copy(update={"gradient_steps": 3})
    model.loss = lambda batch: model.online_block.values.sum() * 0 + next(losses)
    assert model.train_step()["loss"] == 3.0


def drawn(model, updates):
    """Rows of each batch of so many updates."""
    sizes, sample = [], model.memory.sample
    model.memory.sample = lambda rows: sizes.append(rows) or sample(rows)
    for _ in range(updates):
        model.train_step()
    del model.memory.sample
    return sizes


def test_an_adaptive_batch_follows_the_rows_that_wait_within_its_bounds():
    model = make_model("dqn", adaptive_batch=[16, 40], gradient_steps=2, buffer_capacity=256)
    live(model, turns=15)
    assert not model.can_learn and drawn(model, 1) == []
    live(model, turns=45)
    assert drawn(model, 3) == [32, 32, 16, 16, 16, 16]  # 60 rows for 2 steps: 30, and none are left
    live(model, turns=130)
    assert drawn(model, 3) == [40, 40, 32, 32, 16, 16]  # 80 of 130 rows; 25 for each step; none
    live(model, turns=60)
    live(model, turns=1000)
    assert model.rows_learned_from.tolist() == [190]
    assert drawn(model, 4) == [40] * 6 + [16] * 2  # the replay holds 256 of 1,060, and 240 are drawn
    assert model.rows_learned_from.tolist() == [1250]


def test_an_adaptive_batch_goes_on_from_a_saved_model(tmp_path):
    models = [make_model("dqn", adaptive_batch=[8, 40], gradient_steps=1) for _ in range(2)]
    for model in models:
        live(model, turns=50)
    drawn(models[0], 1)
    models[0].save(tmp_path / "model")
    models[1].load(tmp_path / "model")
    assert drawn(models[1], 2) == drawn(models[0], 2) == [16, 8]


def test_the_rows_of_several_lanes_wait_together():
    kind = algorithm("dqn")
    config = kind.Config.parse({"adaptive_batch": [8, 24], "gradient_steps": 1, "n_frames": 1, "hidden_size": 4})
    model = kind(TinyObservation(1), 2, config, np.random.SeedSequence(0), lanes=3)
    for lane, rows in enumerate((10, 0, 30)):
        for _ in range(rows):
            model.memory.add(np.zeros(1), 0, 0.0, False, lane)
    assert drawn(model, 1) == [24] and model.rows_learned_from.tolist() == [10, 0, 14]
    assert drawn(model, 2) == [16, 8] and model.rows_learned_from.tolist() == [10, 0, 30]


def test_quantile_loss_by_hand():
    loss = quantile_huber_loss(
        torch.tensor([[0.0, 0.0]]), torch.tensor([[0.25, 0.75]]), torch.tensor([[4.0]]), torch.ones(1), 2.0
    )
    assert loss.item() == pytest.approx((0.25 + 0.75) * (2 * (4 - 1)) / 2)  # sum over K, huber/kappa


@pytest.mark.parametrize("double", [True, False])
def test_double_q_lets_the_online_network_choose(double):
    model = make_model("dqn", (1,), 2, n_frames=1, double=double)
    model.online = lambda s: torch.tensor([[1.0, 0.0]]).requires_grad_().expand(len(s), 2)
    model.target = lambda s: torch.tensor([[10.0, 20.0]]).expand(len(s), 2)
    one = np.zeros((1, 1, 1), np.uint8)
    loss = model.loss(Batch(one, np.array([1]), np.zeros(1, np.float32), one, np.ones(1, np.float32), np.array([True])))
    assert loss["loss"].item() == pytest.approx((10 if double else 20) - 0.5)


def test_dueling():
    model = make_model("dqn", dueling=True)
    model.online(torch.rand(5, model.input_size))
    with torch.no_grad():
        head = model.online.heads(
            torch.relu(model.online.trunk(torch.relu(model.online.state(torch.zeros(1, model.input_size)))))
        )
    assert torch.allclose(model.online(torch.zeros(1, model.input_size)).mean(1), head[:, 0])
    assert make_model("dqn", dueling=False).online.heads.weight.shape[0] == 3 and make_model(
        "dqn", dueling=False
    ).online(torch.zeros(1, 8)).shape == (1, 3)


def test_agents_begin_different():
    env = small_game("model.algorithm=iqn")
    one, two = (agent.model for agent in env.agents)
    assert not torch.equal(one.online_block.values, two.online_block.values)
    assert one.choosing_rng.random() != two.choosing_rng.random()
    assert one.streams.draw([0]) != two.streams.draw([0])


def test_ppo_stores_chance_of_the_action_taken():
    model = make_model("ppo", n_frames=1)
    torch.nn.init.normal_(model.online.policy_head.weight, generator=torch.Generator().manual_seed(0))
    live(model)
    rows = model.memory.trajectory(0, 0)
    with torch.no_grad():
        logs = model.policy.log_chances(model.as_input(rows.states))
    expected = logs.gather(1, torch.from_numpy(rows.actions)[:, None]).squeeze(1).numpy()
    assert np.allclose(rows.extras["log_chance"], expected, atol=1e-6)


def test_ppo_rows_and_passes():
    model = make_model("ppo", batch_size=8, gradient_steps=3, gamma=0.0, gae_lambda=0.0)
    live(model, turns=20)
    rewards = model.memory.trajectory(0, 0).rewards[:-1]
    rows = model.new_rows()
    model.rows_learned_from[:] = 0
    assert len(rows.actions) == 19  # the cut row is left out
    assert abs(rows.advantages.mean()) < 1e-5 and rows.advantages.std() == pytest.approx(1, abs=1e-4)
    assert np.allclose(rows.returns, rewards, atol=1e-5)  # gamma 0: return is the reward
    model.train_step()
    assert model.counters()["gradient_steps"] == 3 * 3
    model.epsilon_decay(0.5)
    assert model.epsilon == 0


def test_clipped_loss_terms_by_hand():
    logs = torch.log(torch.tensor([[0.5, 0.5]]))
    before = logs[:, 0]
    base = {"algorithm": "ppo", "entropy_weight": 0.1, "value_weight": 0.25}
    config = PPOConfig(**base)
    rows = Rows(logs, logs, torch.tensor([0]), before, torch.tensor([2.0]), torch.tensor([0.0]))
    loss = clipped_loss(logs, torch.tensor([3.0]), rows, config, config.clip)
    expected = {
        "loss": -2.0 + 0.25 * 2.5 - 0.1 * np.log(2),
        "entropy": np.log(2),
        "policy_loss": -2.0,
        "value_loss": 2.5,
    }
    found = {name: value.item() for name, value in loss.items()}
    assert found == pytest.approx({**expected, "kl": 0.0, "clip_fraction": 0.0})


def test_how_far_a_policy_has_moved_by_hand():
    logs = torch.log(torch.tensor([[0.6, 0.4], [0.5, 0.5]]))
    before, nothing = torch.log(torch.tensor([0.5, 0.5])), torch.zeros(2)
    rows = Rows(logs, logs, torch.tensor([0, 1]), before, nothing, nothing)
    found = clipped_loss(logs, nothing, rows, PPOConfig(), clip=0.1)
    assert found["clip_fraction"].item() == 0.5  # 1.2 is more than 0.1 from 1
    assert found["kl"].item() == pytest.approx((0.2 - np.log(1.2)) / 2, rel=1e-4)


def test_create_world_resets_done_total_and_live_defaults():
    class Tick(Entity):
        has_transitions = True
        ticks = 0

        def transition(self, world):
            world.total_reward += 1

    world = Gridworld(2, 2, 1, Tick())
    world.transition()
    assert world.total_reward == 4
    world.is_done = True
    world.create_world()
    assert not world.is_done and world.total_reward == 0


def test_outside_and_rgb_size():
    seen = OneHotObservationSpec(["EmptyEntity", "Sea", "Wall"], vision_radius=1, outside="Sea").observe(
        Gridworld(1, 1, 1, EmptyEntity()), (0, 0, 0)
    )
    assert seen[0, 0].tolist() == [0, 1, 0]
    with pytest.raises(WorldError):
        RGBObservationSpec(env_dims=(9, 9)).observe(Gridworld(3, 4, 1, EmptyEntity()), (0, 0, 0))


def test_epsilon_below_floor_stays():
    model = make_model("dqn", epsilon=0.0, epsilon_min=0.1)
    model.epsilon_decay(0.5)
    assert model.epsilon == 0.0


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    make_model("dqn").save(path)
    path.write_bytes(path.read_bytes().replace(b'\\"format\\":2', b'\\"format\\":9'))
    with pytest.raises(ModelFileError, match="format 9"):
        make_model("dqn").load(path)


def test_face_falls_back_to_class_sprite():
    class A(MovingAgent):
        sprite = "x.png"

    agent = A(None, ActionSpec(["up"]), None)
    agent.face("up")
    assert agent.sprite == "x.png"


def test_simultaneous_frames_pushed_once_and_from_the_remembered_state():
    env = small_game("experiment.turn_order=simultaneous", "model.algorithm=dqn")
    povs = []
    for a in env.agents:
        p = a.pov
        a.pov = lambda w, p=p: povs.append(1) or p(w)
    env.agents[0].model.start_epoch_action(epoch=0)
    env.agents[1].model.start_epoch_action(epoch=0)
    env.take_turn()
    assert len(povs) == 2


def test_old_frames_are_not_scaled_again():
    class Pixels(TinyObservation):
        scale = 1 / 255

    kind = algorithm("dqn")
    model = kind(Pixels(1), 2, kind.Config(n_frames=3), np.random.SeedSequence(0))
    for _ in range(3):
        rows = model.frame_stack.push([np.array([255], dtype=np.uint8)], [0])
    assert rows.tolist() == [[1.0, 1.0, 1.0]]


def test_noise_begins_small_but_not_at_nothing():
    layer = NoisyLinear(4, 3)
    layer.initialise(torch.Generator())
    assert (layer.weight_noise == 0.017).all() and (layer.bias_noise == 0.017).all()


def test_ppo_begins_undecided():
    model = make_model("ppo")
    with torch.no_grad():
        assert (model.online.log_chances(torch.rand(20, model.input_size)) + np.log(3)).abs().max() < 0.05


def test_each_algorithms_settings_know_their_algorithm():
    for name, kind in ALGORITHMS.items():
        if name != "random":
            assert kind.Config().algorithm == name


class Own(DQN):
    pass


def test_an_algorithm_is_found_by_the_name_of_its_class():
    for kind in (*ALGORITHMS.values(), Own):
        assert algorithm(name_of(kind)) is kind and algorithm(kind) is kind
    assert name_of(Own) == f"{__name__}:Own" and name_of(DQN) == "dqn"


def test_a_model_in_a_file_is_found_by_the_name_of_the_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_models.py").write_text("from abreast import DQN\n\nclass Mine(DQN):\n    pass\n")
    assert issubclass(algorithm(f"{tmp_path}/my_models.py:Mine"), DQN)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("dqm", "model.algorithm is 'dqm': did you mean 'dqn'?"),
        (7, "model.algorithm is 7: known are: dqn, iqn, ppo, random, sac."),
        (int, "model.algorithm is <class 'int'>: expected a class derived from abreast.BaseModel."),
        ("math:pi", "model.algorithm is 'math:pi', which is 3.14"),
        ("no_such_module:Mine", "there is no module 'no_such_module'"),
    ],
)
def test_what_is_no_algorithm_is_refused(given, said):
    with pytest.raises(ConfigError) as error:
        algorithm(given)
    assert said in str(error.value)


def test_the_models_are_public():
    for kind in (*ALGORITHMS.values(), BaseModel):
        assert getattr(abreast, kind.__name__) is kind and kind.__name__ in abreast.__all__


def test_settings_that_are_equal_have_the_same_hash():
    one, two = (DQN.Config(gamma=0.5, per_agent=agents) for agents in ({}, {0: {"gamma": 0.1}}))
    assert one != two and hash(one) == hash(two) and len({one, DQN.Config(gamma=0.5)}) == 1
