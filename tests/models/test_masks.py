"""Legal actions: chosen among, remembered, and the only ones that count in targets."""

import numpy as np
import pytest
import torch

from abreast.errors import ModelError, ReplayError
from abreast.models import DQN, BaseModel, algorithm
from abreast.models.observation import PlainObservation
from abreast.models.stacked import StackedChoice
from abreast.replay import Batch
from abreast.training.collect import _Chooser
from abreast.worlds.playable import Decision

ACTIONS, LANES = 5, 3
MASK = np.array([False, True, False, True, False])


def masked(name, kind=None, lanes=LANES, **settings):
    kind = kind or algorithm(name)
    small = {"algorithm": name, "hidden_size": 16, "batch_size": 8, "buffer_capacity": 96, "n_frames": 1, **settings}
    seen = PlainObservation((4,), np.uint8, 1.0, is_masked=True)
    model = kind(seen, ACTIONS, kind.Config.parse(small), np.random.SeedSequence(0), lanes)
    model.start_epoch_action(epoch=0)
    return model


def masks_of(rng, lanes=LANES):
    masks = rng.random((lanes, ACTIONS)) < 0.4
    masks[np.arange(lanes), rng.integers(ACTIONS, size=lanes)] = True
    return masks


@pytest.mark.parametrize("name", ["random", "dqn", "iqn", "ppo"])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_only_legal_actions_are_chosen_and_each_of_them_is_when_choosing_at_random(name, epsilon):
    model, rng, seen = masked(name), np.random.default_rng(1), [set() for _ in range(ACTIONS)]
    model.epsilon = epsilon
    for _ in range(60):
        masks, states = masks_of(rng), rng.integers(0, 2, (LANES, 4)).astype(np.uint8)
        model.note_masks([0, 1, 2], masks)
        assert all(mask[action] for mask, action in zip(masks, model.take_actions(states, [0, 1, 2]), strict=True))
        model.note_masks([0, 1, 2], [MASK] * 3)
        for action in model.take_actions(states, [0, 1, 2]):
            seen[action].add(True)
    if name in ("random", "ppo") or epsilon == 1.0:
        assert [bool(each) for each in seen] == MASK.tolist()


@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
def test_a_stack_chooses_among_legal_actions_as_each_model_would_alone(name):
    rng = np.random.default_rng(2)
    alone, stacked = [masked(name, epsilon=0.5) for _ in range(2)], [masked(name, epsilon=0.5) for _ in range(2)]
    stack = StackedChoice(stacked)
    for _ in range(30):
        masks, states = masks_of(rng), rng.integers(0, 2, (LANES, 4)).astype(np.uint8)
        for model in (*alone, *stacked):
            model.note_masks([0, 1, 2], masks)
        expected = [model.take_actions(states, [0, 1, 2]) for model in alone]
        assert stack.take_actions([states, states], [0, 1, 2]) == expected


def test_the_mask_is_remembered_with_its_row_and_comes_back_with_the_state_after_it():
    model, rng = masked("dqn", n_step=2), np.random.default_rng(3)
    kept = []
    for step in range(20):
        masks, states = masks_of(rng), np.full((LANES, 4), step, np.uint8)
        model.note_masks([0, 1, 2], masks)
        model.remember_all(states, model.take_actions(states, [0, 1, 2]), [1.0] * 3, [step % 7 == 6] * 3, [0, 1, 2])
        kept.append(masks)
    batch = model.memory.sample(64)
    lanes = [[np.array_equal(mask, kept[step][lane]) for lane in range(LANES)]
             for mask, step in zip(batch.extras["mask"], batch.states[:, 0, 0], strict=True)]  # fmt: skip
    assert all(map(any, lanes))
    for mask, step, discount in zip(
        batch.next_extras["mask"], batch.next_states[:, 0, 0], batch.discounts, strict=True
    ):
        assert discount == 0 or any(np.array_equal(mask, kept[step][lane]) for lane in range(LANES))


def batch_after(mask):
    one = np.zeros((1, 1, 4), np.uint8)
    extras = {"mask": np.ones((1, ACTIONS), np.bool_)}
    return Batch(
        one, np.array([1]), np.zeros(1, np.float32), one, np.ones(1, np.float32), np.array([True]), extras,
        {"mask": np.array([mask])},
    )  # fmt: skip


@pytest.mark.parametrize("double", [True, False])
def test_the_target_of_dqn_is_the_value_of_the_best_legal_action(double):
    model = masked("dqn", double=double)
    values = torch.tensor([[50.0, 1.0, 40.0, 4.0, 30.0]])
    model.online = model.target = lambda states: values
    taken = model.loss(batch_after(MASK))["loss"].item()  # the estimate of action 1 is 1, the best legal value 4
    assert taken == pytest.approx(abs(4.0 - 1.0) - 0.5)
    assert model.loss(batch_after(np.ones(ACTIONS, np.bool_)))["loss"].item() == pytest.approx(50.0 - 1.0 - 0.5)


class OwnIQN(algorithm("iqn")):
    def make_network(self):
        network = super().make_network()
        network.trunk.__class__ = type("Own", (type(network.trunk),), {})  # not plain: goes through `forward`
        return network


@pytest.mark.parametrize("kind", [algorithm("iqn"), OwnIQN])
def test_the_target_of_iqn_is_of_the_best_legal_action(kind):
    """Advantages that no state changes: 0 for all actions but 0 (never legal) and 3. Noise is left out."""
    losses = {}
    for mask in (MASK, np.ones(ACTIONS, np.bool_), np.array([False, True, False, False, False])):
        model = masked("iqn", kind)
        with torch.no_grad():
            for network in (model.online, model.target):
                for parameter in network.parameters():
                    parameter.zero_()
                network.dueling.bias.copy_(torch.tensor([0.0, 500.0, 0.0, 0.0, 40.0, 0.0]))
        losses[mask.tobytes()] = model.loss(batch_after(mask))["loss"].item()
    legal, every, other = losses.values()
    assert other == pytest.approx(0.0, abs=1e-3) and legal > 1.0 and every > 5 * legal


def test_ppo_learns_by_the_chances_that_legal_actions_had():
    """Before the first gradient step the chances are those of playing, so every ratio is 1 and the policy loss 0."""
    model, rng = (
        masked("ppo", lanes=1, entropy_weight=0.0, value_weight=1e-9, gradient_steps=1),
        np.random.default_rng(4),
    )
    torch.nn.init.normal_(model.online.policy_head.weight, generator=torch.Generator().manual_seed(0))
    model.start_epoch_action(epoch=0)
    for step in range(8):
        state = rng.integers(0, 2, 4).astype(np.uint8)
        model.note_masks([0], masks_of(rng, 1))
        model.remember(state, model.take_action(state), float(step), step == 7)
    assert model.train_step()["loss"] == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(model.online_block.values).all()


class Deaf(BaseModel):
    def take_action(self, state, lane=0):
        return 0

    def train_step(self):
        return None


class Chosen(DQN):
    def row_extras(self, lane):
        return {}


def test_a_model_that_ignores_the_mask_is_refused_by_name():
    model = masked("dqn", Deaf)
    states = np.zeros((1, 4), np.uint8)
    with pytest.raises(ModelError, match=r"Deaf.take_action of agent 0 returned 0, .* legal now \(legal are \[1, 3\]"):
        _Chooser([model]).choose([Decision(0, [0], states, [MASK])])
    assert _Chooser([model]).choose([Decision(0, [0], states, [~MASK])]) == [[0]]
    with pytest.raises(ReplayError, match=r"extras \[\], expected \['mask'\]"):
        masked("dqn", Chosen).remember(states[0], 0, 0.0, False)


def test_masks_that_no_one_was_told_of_are_refused():
    model = DQN(PlainObservation((4,), np.uint8, 1.0), ACTIONS, DQN.Config(), np.random.SeedSequence(0))
    assert model.legal_actions().all() and "mask" not in model.memory.extras_dtypes
    with pytest.raises(ModelError, match="is_masked"):
        model.note_masks([0], [MASK])
