"""Several models that learn in one stacked update: each as it would alone, whatever the others see."""

from itertools import product

import numpy as np
import pytest
import torch

from abreast.errors import ModelError
from abreast.models import DQN, IQN, PPO, ActionBox, algorithm, layers
from abreast.models.draws import STEPS_AT_ONCE, Draw, Draws
from abreast.models.figures import mean_figures
from abreast.models.observation import PlainObservation
from abreast.models.stacked import learning, make_stack, stacks_of
from abreast.models.stacked.learning import FUSED_FROM, has_same_bits
from abreast.models.stacked.rows import DeviceRows
from abreast.models.stacked.values import StackedValues
from abreast.training.learners.base import Trainer, train_round
from devices import DEVICES

SHAPE, LANES = (3, 5), 2


def make(name, number, device="cpu", kind=None, is_masked=False, **settings):
    small = {
        "hidden_size": 16,
        "batch_size": 16,
        "buffer_capacity": 120,
        "n_frames": 2,
        "gradient_steps": 2,
        **settings,
    }
    name, _, continuous = name.partition(", ")
    kind = kind or algorithm(name)
    actions = ActionBox((-1.0,) * 4, (1.0,) * 4) if continuous or "discrete" not in kind.ACTIONS else 4
    if name != "ppo":
        small = {"n_step": 3, **small}
    seen = PlainObservation(SHAPE, np.dtype("u1"), 0.5, is_masked)
    config = kind.Config.parse({"algorithm": name, **small})
    return kind(seen, actions, config, np.random.SeedSequence(number), LANES, device)


def live(model, seed, turns=24, ends=True):
    """Lives through episodes of different lengths, which end or are cut; with masks, if the model wants some."""
    rng, lanes = np.random.default_rng(seed), list(range(LANES))
    model.start_epoch_action(epoch=0)
    for _ in range(turns):
        seen = list(rng.integers(0, 3, (LANES, *SHAPE)).astype(np.uint8))
        if "mask" in model.lane_extras:
            masks = rng.random((LANES, 4)) < 0.5
            masks[:, 0] = True
            model.note_masks(lanes, masks)
        actions = model.take_actions(seen, lanes)
        dones = (rng.random(LANES) < 0.15 * ends).tolist()
        model.remember_all(seen, actions, rng.normal(size=LANES).tolist(), dones, lanes)
        if ends and rng.random() < 0.1:
            model.end_episode(1)
            lanes = [0] if rng.random() < 0.5 else [0, 1]  # lanes need not be of one length
            seen = seen[: len(lanes)]
            model.remember_all(seen, model.take_actions(seen, lanes), [1.0] * len(lanes), [False] * len(lanes), lanes)
            lanes = [0, 1]
    model.end_epoch_action(epoch=0)
    return model


def made(name, count=4, device="cpu", ends=True, **settings):
    return [live(make(name, number, device, **settings), 10 + number, ends=ends) for number in range(count)]


def learned(model):
    state = model.learning_state()
    return {name: array.copy() for name, array in state.arrays.items()}, state.facts


def losses_alone(models, updates=3):
    done = [[each for each in (model.train_step() for _ in range(updates)) if each is not None] for model in models]
    return [mean_figures(each) for each in done]


def no_beat():
    pass


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dqn", {}),
        ("dqn", {"double": False, "dueling": False}),
        ("iqn", {}),
        ("ppo", {}),
        ("sac", {}),
        ("ppo, continuous", {}),
    ],
)
def test_each_learns_as_it_would_alone(name, settings, device):
    together, alone = (
        made(name, device=device, ends="ppo" not in name, **settings),
        made(name, device=device, ends="ppo" not in name, **settings),
    )
    losses = make_stack(together).train(3, no_beat)
    torch.testing.assert_close(losses, losses_alone(alone), rtol=1e-4, atol=1e-5)
    for one, other in zip(together, alone, strict=True):
        (arrays, facts), (expected, expected_facts) = learned(one), learned(other)
        assert facts == expected_facts  # streams of sampling, updates, gradient steps
        assert (arrays.pop("generator") == expected.pop("generator")).all()
        for block, array in arrays.items():
            np.testing.assert_allclose(array, expected[block], rtol=1e-3, atol=2e-5, err_msg=block)


def test_numbers_drawn_for_several_steps_are_those_that_each_would_draw_alone(monkeypatch):
    """As on a GPU: also if models are in the middle of different blocks, and for one that was restored there."""
    monkeypatch.setitem(STEPS_AT_ONCE, "cpu", 3)
    together, alone = made("iqn", gradient_steps=1), made("iqn", gradient_steps=1)
    for ahead in (together[1], alone[1]):
        ahead.train_step()
    stack = make_stack(together)
    for updates in (2, 5):
        losses, expected = stack.train(updates, no_beat), losses_alone(alone, updates)
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    there, restored = alone[2], made("iqn", gradient_steps=1)[2]
    restored.set_learning_state(there.learning_state())
    assert there.steps_drawn % 3 == 1 and losses_alone([restored]) == losses_alone([there])


@pytest.mark.parametrize("steps", [1, 3])
def test_no_number_is_drawn_twice(monkeypatch, steps):
    monkeypatch.setitem(STEPS_AT_ONCE, "cpu", steps)
    draws = Draws({"one": Draw((5,), True), "other": Draw((2, 3), False)}, 2, "cpu")
    models = [make("iqn", number) for number in range(2)]
    drawn = [number for _ in range(7) for number in draws.take(models)["one"].flatten().tolist()]
    assert len(set(drawn)) == len(drawn) == 70 and [model.steps_drawn for model in models] == [7, 7]
    model = live(models[0], 1)
    batch = model.memory.sample(16)
    assert model.loss(batch)["loss"].item() != model.loss(batch)["loss"].item()  # a user's train_step may ask twice


@pytest.mark.parametrize(
    ("name", "ends", "masked"),
    [
        *product(["dqn"], [True], [False, True]),
        *product(["ppo"], [False, True], [False, True]),
        ("sac", True, False),
        ("ppo, continuous", False, False),
    ],
)
@pytest.mark.parametrize("hidden", [16, 112])
def test_on_a_cpu_it_has_the_same_bits(name, ends, masked, hidden):
    given = {"ends": ends, "is_masked": masked, "hidden_size": hidden}
    together, alone = made(name, **given), made(name, **given)
    assert stacks_of(dict(enumerate(together))) == [[0, 1, 2, 3]]
    losses = make_stack(together).train(3, no_beat)
    assert (losses is None) == (name == "ppo" and ends)  # with different numbers of rows, each learns by itself
    assert (losses or losses_alone(together)) == losses_alone(alone)
    pairs = [(learned(one), learned(other)) for one, other in zip(together, alone, strict=True)]
    for (arrays, facts), (expected, expected_facts) in pairs:
        assert facts == expected_facts
        assert {block: array.tobytes() for block, array in arrays.items()} == {
            block: array.tobytes() for block, array in expected.items()
        }


class RoundsSlopesOtherwise(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values.clone()

    @staticmethod
    def backward(context, slopes):
        return torch.nextafter(slopes, slopes + 1)


@pytest.mark.parametrize("rounded", [lambda values: torch.nextafter(values, values + 1), RoundsSlopesOtherwise.apply])
def test_shapes_that_would_be_rounded_otherwise_are_not_stacked_on_a_cpu(rounded, monkeypatch):
    """As by a library that rounds a stacked product, or its gradient, in another way than single ones."""
    values, policies = made("dqn", ends=False), made("ppo", ends=False)
    assert has_same_bits(values, 16) and stacks_of(dict(enumerate(values))) == [[0, 1, 2, 3]]
    product = layers.affine

    def otherwise(inputs, weight, bias):
        outputs = product(inputs, weight, bias)
        return rounded(outputs) if weight.dim() == 3 else outputs

    monkeypatch.setattr(layers, "affine", otherwise)
    monkeypatch.setattr(learning, "_SAME_BITS", {})
    assert not has_same_bits(values, 16) and stacks_of(dict(enumerate(values))) == []
    assert make_stack(policies).train(1, no_beat) is None  # it asks again, for the rows that there are


class ScaledSAC(algorithm("sac")):
    """A user-defined loss whose rounding depends on where in a vector of the processor a number lies."""

    def loss_of(self, online, target, batch, drawn):
        metrics = super().loss_of(online, target, batch, drawn)
        return {**metrics, "loss": metrics["loss"] + torch.nn.functional.softplus(batch.rewards).mean(dim=-1) * 0.01}


@pytest.mark.parametrize("kind", [None, ScaledSAC])
@pytest.mark.parametrize("batch", [5, 8, 16, 48])
def test_sac_is_stacked_only_where_its_rounding_is_that_of_one_agent(batch, kind):
    """Batches of 32 and 64 hid it: softplus computes the last numbers of a row in another way than those before."""
    given = {"batch_size": batch, "kind": kind}
    together, alone = made("sac", **given), made("sac", **given)
    results = train_round(dict(enumerate(together)), 3, 0)
    expected = [train_round({number: model}, 3, 0)[number] for number, model in enumerate(alone)]
    assert list(results.values()) == expected
    for one, other in zip(together, alone, strict=True):
        assert bits([one]) == bits([other])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo", "sac"])
def test_what_one_agent_learns_depends_on_no_other(name, device):
    """To the bit, although all are in the same products."""

    def first(seed):
        models = [live(make(name, number, device), 10 + number * seed, ends=False) for number in range(3)]
        make_stack(models).train(2, no_beat)
        return [{block: array.tobytes() for block, array in learned(model)[0].items()} for model in models]

    one, other = first(seed=1), first(seed=2)
    assert one[0] == other[0] and one[1] != other[1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "masked"), [("dqn", False), ("dqn", True), ("sac", False)])
def test_batches_on_a_device_are_those_of_the_replays(device, name, masked):
    models = [make(name, number, device, is_masked=masked) for number in range(3)]
    rows = DeviceRows([model.memory for model in models], device)
    for turns in (8, 30, 25, 70, 3):  # the ring, of 60 rows, goes round
        for number, model in enumerate(models):
            live(model, number + turns, turns)
        picks, expected = [], []
        for model, written in zip(models, rows.renew(), strict=True):
            before = model.memory.rng.bit_generator.state
            picks.append(model.memory.draw(200, written))
            model.memory.rng.bit_generator.state = before
            expected.append(model.memory.sample(200))
        found = rows.look_up(torch.from_numpy(np.stack(picks)).to(device).view(3, 2, 100).transpose(0, 1))
        found = type(found)(*(None if each is None else each.transpose(0, 1).cpu() for each in found))
        states = rows.states_at(found.places.to(device)).cpu().numpy()  # (3, 2, 2, 100, numbers)
        for number, batch in enumerate(expected):
            wanted = np.stack([batch.states, batch.next_states]).reshape(2, 2, 100, -1).swapaxes(0, 1)
            assert states.dtype == wanted.dtype and (states[number] == wanted).all(), turns
            for name in ("actions", "rewards", "discounts"):
                column = getattr(found, name)[number].flatten(0, 1).numpy()
                assert (column == getattr(batch, name)).all() and column.dtype == getattr(batch, name).dtype, name
            assert ((found.weights[number].flatten() > 0).numpy() == batch.valid).all()
            torch.testing.assert_close(found.weights[number].sum(dim=1), torch.ones(2))
            assert (found.legal_next is None) == (not masked)
            if masked:
                assert (found.legal_next[number].flatten(0, 1).numpy() == batch.next_extras["mask"]).all()


def test_a_window_hides_what_was_written_since_and_what_came_late_is_taken_along():
    memory = make("dqn", 0).memory
    states = np.arange(15, dtype=np.uint8).reshape(SHAPE)
    for lane in range(LANES):
        for number in range(12):
            memory.add(states + number, number % 4, float(number), False, lane)
    rows = DeviceRows([memory], "cpu")
    with memory.window([10, 11]):
        assert rows.renew()[0].tolist() == [10, 11]
    assert rows.renew()[0].tolist() == [12, 12]
    memory.amend(0, 5.0)
    memory.end_episode(0)
    assert rows.renew()[0].tolist() == [12, 12]
    found = rows._fields["rewards"][0, :, :12].numpy()
    assert found[0, 11] == 16.0 and found[1, 11] == 11.0 and rows._fields["last"][0, 0, 11]


@pytest.mark.parametrize("copies_rows", [False, True])
def test_those_who_have_nothing_to_learn_from_wait_for_nobody(copies_rows):
    together, alone = made("dqn"), made("dqn")
    for models in (together, alone):
        models[1].memory.clear()
    assert StackedValues(together, copies_rows=copies_rows).train(2, no_beat) is None
    done = Trainer(dict(enumerate(together)), 0).train((0, 1, 2, 3), 2)
    losses_alone(alone, 2)
    assert [done[agent].updates for agent in range(4)] == [model.updates for model in together] == [2, 0, 2, 2]
    for one, other in zip(together, alone, strict=True):
        assert {name: array.tobytes() for name, array in learned(one)[0].items()} == {
            name: array.tobytes() for name, array in learned(other)[0].items()
        }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["dqn", "ppo"])
@pytest.mark.parametrize("fused_from", [0, FUSED_FROM], ids=["many parameters", "few parameters"])
def test_agents_may_differ_in_what_concerns_only_them_also_later(name, device, fused_from, monkeypatch):
    monkeypatch.setattr("abreast.models.stacked.learning.FUSED_FROM", fused_from)

    def agents():
        each = (
            make(name, number, device, learning_rate=0.001 * (1 + number), epsilon=0.1 * number) for number in range(3)
        )
        return [live(model, 1, ends=False) for model in each]

    together, alone = agents(), agents()
    assert stacks_of(dict(enumerate(together))) == [[0, 1, 2]]
    stack = make_stack(together)
    for rates in ((0.001, 0.002, 0.003), (0.05, 0.002, 0.001)):
        for models in (together, alone):
            for model, rate in zip(models, rates, strict=True):
                model.optimiser.learning_rate = rate
                live(model, 2, ends=False)
        tolerances = {"rtol": 0.0, "atol": 0.0} if device == "cpu" else {"rtol": 1e-3, "atol": 2e-5}
        torch.testing.assert_close(stack.train(2, no_beat), losses_alone(alone, 2), **tolerances)
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one.online_block.values, other.online_block.values, **tolerances)


# ---- users' classes


class Bare(DQN):
    """As DQN."""


class BarePPO(PPO):
    """As PPO."""


class OwnLossOf(DQN):
    """Its values are pulled towards 0, and it says how large they are."""

    def loss_of(self, online, target, batch, drawn):
        figures = super().loss_of(online, target, batch, drawn)
        pull = (online(batch.states).square().mean(dim=-1) * batch.weights).sum(dim=-1)
        return {**figures, "loss": figures["loss"] + 0.1 * pull, "pull": pull}


class OnlyALoss(DQN):
    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] * 2


class OwnLossOfPPO(PPO):
    def loss_of(self, online, rows):
        figures = super().loss_of(online, rows)
        return {**figures, "loss": figures["loss"] - figures["entropy"]}


def bits(models):
    return [{name: array.tobytes() for name, array in learned(model)[0].items()} for model in models]


def lived(kind, count=4, **settings):
    name = "ppo" if issubclass(kind, PPO) else "dqn"
    return [live(make(name, number, kind=kind, **settings), 10 + number, ends=False) for number in range(count)]


@pytest.mark.parametrize("kind", [Bare, BarePPO, OwnLossOf, OnlyALoss, OwnLossOfPPO])
def test_a_users_class_that_changes_no_more_than_the_loss_is_stacked_with_the_same_bits(kind):
    together, alone = lived(kind), lived(kind)
    assert stacks_of(dict(enumerate(together))) == [[0, 1, 2, 3]]
    figures = make_stack(together).train(3, no_beat)
    assert figures == losses_alone(alone) and bits(together) == bits(alone)
    assert ("pull" in figures[0]) == (kind is OwnLossOf)


@pytest.mark.parametrize(("kind", "ours"), [(Bare, DQN), (BarePPO, PPO)])
def test_a_class_that_changes_nothing_learns_as_ours(kind, ours):
    mine, theirs = lived(kind), lived(ours)
    assert make_stack(mine).train(3, no_beat) == make_stack(theirs).train(3, no_beat)
    assert bits(mine) == bits(theirs)


class MixesAgents(DQN):
    """Right for one agent; of several, the deviation would be that of all."""

    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] / (1.0 + batch.rewards.std())


class SumsUp(DQN):
    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"].sum()


class FigureOfAll(DQN):
    def loss_of(self, online, target, batch, drawn):
        return {**super().loss_of(online, target, batch, drawn), "reward": batch.rewards.mean()}


class KnowsOneAgent(DQN):
    def loss_of(self, online, target, batch, drawn):
        rows, _ = batch.states.shape
        return super().loss_of(online, target, batch, drawn)["loss"] * rows


class Draws01(DQN):
    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] * torch.rand(())


class MixesAgentsPPO(PPO):
    def loss_of(self, online, rows):
        return super().loss_of(online, rows)["loss"] / (1.0 + rows.returns.abs().max())


class LosesNaN(DQN):
    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] * float("nan")


def test_a_loss_that_is_no_number_is_not_taken_for_one_that_mixes_agents():
    figures = make_stack(lived(LosesNaN)).train(1, no_beat)
    assert all(np.isnan(each["loss"]) for each in figures)  # which the run then warns of


@pytest.mark.parametrize("kind", [MixesAgents, SumsUp, FigureOfAll, KnowsOneAgent, Draws01, MixesAgentsPPO])
def test_a_loss_that_is_right_for_one_agent_only_is_refused_with_the_line_to_add(kind):
    models = lived(kind)
    before = bits(models)
    with pytest.raises(
        ModelError, match=rf"{kind.__name__}.loss_of computes otherwise .* write STACK = None in the class"
    ):
        make_stack(models).train(2, no_beat)
    assert [each["online"] for each in bits(models)] == [each["online"] for each in before]
    alone = lived(type("Alone", (kind,), {"STACK": None}))
    assert stacks_of(dict(enumerate(alone))) == [] and alone[0].why_not_stacked() == "Alone has no stacked update"
    assert all(np.isfinite(each.figures["loss"]) for each in train_round(dict(enumerate(alone)), 2, 0).values())


def test_figures_without_a_loss_are_refused_in_a_stack_too():
    class WithoutALoss(DQN):
        def loss_of(self, *arguments):
            return {"error": super().loss_of(*arguments)["loss"]}

    class LosesRows(DQN):
        def loss_of(self, online, target, batch, drawn):
            return (online(batch.states).mean(dim=-1) - batch.rewards) ** 2

    for kind, says in (
        (WithoutALoss, "returned figures without a loss"),
        (LosesRows, r"returned a loss of shape \(16,\)"),
    ):
        with pytest.raises(ModelError, match=f"{kind.__name__}.loss_of {says}"):
            make_stack(lived(kind)).train(1, no_beat)


def test_a_loss_whose_shape_changes_later_is_refused_in_a_stack_too():
    class Grows(DQN):
        calls = 0

        def loss_of(self, online, target, batch, drawn):
            Grows.calls += 1
            loss_B = (online(batch.states).mean(dim=-1) - batch.rewards) ** 2
            return loss_B.mean(dim=-1) if Grows.calls <= 10 else loss_B

    with pytest.raises(
        ModelError, match=r"Grows.loss_of returned a loss of shape \(4, 16\), expected one number a model"
    ):
        make_stack(lived(Grows)).train(20, no_beat)


class OwnLoss(DQN):
    def loss(self, batch):
        return super().loss(batch)["loss"] * 2


class OwnNetwork(DQN):
    def make_network(self):
        return super().make_network()


class OwnAttribute(DQN):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.temperature = float(learning.generate_state(1)[0] % 7)

    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] * self.temperature


class OwnMomentum(DQN):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.optimiser = type("Momentum", (type(self.optimiser),), {})(self.online_block, 0.1)


def test_who_learns_alone_and_why():
    others = {
        1: (make("dqn", 1, kind=OwnLoss), "OwnLoss.loss is your own"),
        3: (make("dqn", 3, adaptive_batch=[16, 32]), "its batches have a size of their own (adaptive_batch)"),
        4: (make("dqn", 4, network="lstm"), "its network is lstm"),
        10: (make("dqn", 10, kind=OwnNetwork), "OwnNetwork.make_network is your own"),
        11: (make("dqn", 11, kind=OwnAttribute), "it has attributes of its own: temperature"),
        12: (make("dqn", 12, kind=OwnMomentum), "its optimiser is a Momentum"),
    }
    replaced = make("dqn", 5)
    replaced.train_step = lambda: None
    others[5] = replaced, "it has attributes of its own: train_step"
    models = {0: make("dqn", 0), 2: make("dqn", 2), 6: make("dqn", 6, gamma=0.5), 7: make("iqn", 7), 8: make("iqn", 8)}
    models |= {agent: model for agent, (model, _) in others.items()}
    models[9] = make("dqn", 9)
    assert stacks_of(dict(sorted(models.items()))) == [[0, 2, 9]]
    assert stacks_of({0: models[0], 2: models[2]}) == []  # two gain nothing on a CPU
    for model, reason in others.values():
        assert model.why_not_stacked() == reason
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert stacks_of(models) == []  # one product on two threads is rounded otherwise than two products
    finally:
        torch.set_num_threads(before)


def test_attributes_of_each_agent_are_used_for_that_agent():
    models = lived(OwnAttribute, count=3)
    assert stacks_of(dict(enumerate(models))) == [] and len({model.temperature for model in models}) > 1


class HalfIQN(IQN):
    def loss_of(self, online, target, batch, drawn):
        return super().loss_of(online, target, batch, drawn)["loss"] * 0.5


def test_iqn_uses_a_loss_of_the_users_though_its_own_is_computed_by_hand():
    own, ours = (live(make("iqn", 1, kind=kind), 1) for kind in (HalfIQN, IQN))
    batch = ours.memory.sample(16)
    assert own.loss(batch).item() == pytest.approx(ours.loss(batch)["loss"].item() / 2, rel=1e-4)
    assert own.train_step()["loss"] > 0
