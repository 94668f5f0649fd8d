"""Learning figures: what an update reports, by name."""

import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from abreast.errors import ModelError
from abreast.models import DQN
from abreast.models.figures import mean_figures, mean_of_steps, numbers_of
from abreast.training.learners.base import Trainer
from fakes import TinyObservation, live, make_model
from unfit_models import LosesGradients, LosesNothing, LosesRows

VALUES = {"loss", "mean_value", "gradient_norm"}
POLICY = {"loss", "policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm"}


@pytest.mark.parametrize(
    ("name", "expected"), [("dqn", VALUES), ("iqn", VALUES), ("ppo", POLICY)], ids=["dqn", "iqn", "ppo"]
)
def test_each_algorithm_reports_what_its_users_look_for(name, expected):
    model = make_model(name)
    live(model, epochs=3)
    figures = model.train_step()
    assert figures.keys() == expected and next(iter(figures)) == "loss"
    assert all(type(value) is float and np.isfinite(value) for value in figures.values())
    assert figures["gradient_norm"] > 0


def test_the_mean_value_is_that_of_the_actions_taken_and_the_norm_that_before_it_is_limited():
    model = make_model("dqn", gradient_steps=1, gradient_norm=0.01)
    live(model, epochs=3)
    before = model.memory.rng.bit_generator.state
    batch = model.memory.sample(8)
    with torch.no_grad():
        values = model.online(model.as_input(batch.states)).gather(1, torch.from_numpy(batch.actions)[:, None])[:, 0]
    model.memory.rng.bit_generator.state = before
    figures = model.train_step()
    assert figures["mean_value"] == pytest.approx(values[torch.from_numpy(batch.valid)].mean().item(), rel=1e-5)
    left = torch.linalg.vector_norm(model.online_block.gradients).item()
    assert left == pytest.approx(0.01, rel=1e-3) and figures["gradient_norm"] > 0.02


def test_a_policy_that_has_not_moved_has_no_divergence():
    model = make_model("ppo", gradient_steps=1, batch_size=64)
    live(model, epochs=2)
    figures = model.train_step()  # one minibatch, of all rows
    assert figures["kl"] == pytest.approx(0.0, abs=1e-6) and figures["clip_fraction"] == 0.0
    assert figures["entropy"] == pytest.approx(np.log(3), rel=1e-3)


def test_a_figure_is_the_mean_of_the_updates_that_have_it():
    assert mean_figures([{"a": 1.0}, {"a": 2.0, "b": 5.0}, {}]) == {"a": 1.5, "b": 5.0}
    steps = [{"a": torch.tensor(1.0), "b": 4.0}, {"a": torch.tensor([2]), "b": np.float32(5.0)}]
    assert mean_of_steps(steps, DQN, "cpu") == {"a": 1.5, "b": 4.5}


def test_any_single_number_is_a_figure_and_a_number_alone_is_a_loss():
    told = {"a": 1, "b": True, "c": Fraction(1, 4), "d": np.float32(0.5), "e": torch.tensor([[2.0]]), "f": None}
    assert numbers_of(told, DQN) == {"a": 1.0, "b": 1.0, "c": 0.25, "d": 0.5, "e": 2.0}
    assert numbers_of(torch.tensor(3.0, requires_grad=True), DQN) == {"loss": 3.0} and numbers_of({}, DQN) == {}
    assert np.isnan(numbers_of(float("nan"), DQN)["loss"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("high", "'high'"),
        ([1.0, 2.0], r"\[1.0, 2.0\]"),
        (np.full(3, np.nan), r"array\(\[nan, nan, nan\]\)"),
        (torch.zeros(2), "tensor"),
        (1j, "1j"),
        ({"a": 1.0}, "{'a': 1.0}"),
    ],
)
def test_what_is_no_number_is_refused_by_name(value, shown):
    with pytest.raises(ModelError, match=f"the figure 'entropy' of DQN is {shown}.*: expected a name with a number"):
        numbers_of({"loss": 0.5, "entropy": value}, DQN)
    with pytest.raises(ModelError, match="the figure 3 of DQN"):
        numbers_of({3: 0.5}, DQN)


class WithoutALoss(DQN):
    def loss_of(self, *arguments):
        return {"error": super().loss_of(*arguments)["loss"]}


LOSSES = [
    (
        WithoutALoss,
        "WithoutALoss.loss_of returned figures without a loss (error): return a loss, or a mapping with 'loss'.",
    ),
    (LosesNothing, "LosesNothing.loss_of returned None: return a loss, or a mapping with 'loss'."),
    (
        LosesRows,
        "LosesRows.loss_of returned a loss of shape (8,), expected one number: reduce it over the batch, as by",
    ),
    (LosesGradients, "which has no gradient: compute it from the network, in torch, without item()"),
]
"""Losses that cannot be descended, and what is said."""


class SeveralValues(DQN):
    def loss_of(self, online, target, batch, drawn):
        return {**super().loss_of(online, target, batch, drawn), "rewards": batch.rewards}


class OwnDescent(DQN):
    """Written when `descend` returned nothing."""

    def descend(self, loss):
        super().descend(loss)


def of_kind(kind):
    model = kind(TinyObservation(4), 3, make_model("dqn").config, np.random.SeedSequence(0))
    live(model, epochs=3)
    return model


@pytest.mark.parametrize(("kind", "says"), LOSSES)
def test_a_loss_that_cannot_be_descended_is_refused_by_name(kind, says):
    with pytest.raises(ModelError, match=re.escape(says)):
        of_kind(kind).train_step()


def test_a_batch_with_several_values_is_refused_by_name():
    with pytest.raises(ModelError, match="the figure 'rewards' of SeveralValues is tensor"):
        of_kind(SeveralValues).train_step()
    assert of_kind(OwnDescent).train_step().keys() == {"loss", "mean_value"}


class Reports(DQN):
    """What its `train_step` reports is set by the test."""

    told = ()

    def train_step(self):
        self.updates += 1
        return self.told[(self.updates - 1) % len(self.told)]


@pytest.mark.parametrize(
    ("told", "figures"),
    [
        ((0.5, 1.5), {"loss": 1.0}),
        (({"loss": 0.5}, {"loss": 1.5, "mine": 3}), {"loss": 1.0, "mine": 3.0}),
        (({"mine": 2},), {"mine": 2.0}),
        (({},), {}),
        ((None,), {}),
    ],
)
def test_a_round_has_the_mean_of_what_its_updates_report(told, figures, monkeypatch):
    monkeypatch.setattr(Reports, "told", told)
    result = Trainer({0: of_kind(Reports)}, 0).train((0,), 2)[0]
    assert (result.figures, result.updates) == (figures, 2)
