"""Debug mode: everything in this thread, and every check on. The results are those of the same run without it.

    a pass was played      rows that batches are drawn from: written whole, observations and rewards finite, actions legal
    an update was done     gradients and weights: finite
    a round was trained    losses: finite; attributes: changed by the side that owns them alone (models/own.py)

The first fault ends the run, in a sentence that says where it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import torch
from torch import nn

from abreast.errors import ModelError, ReplayError
from abreast.models import BaseModel
from abreast.processes.backend import NOWHERE

SAID = (
    "debug is on: everything runs in one thread, slower and with the same results; rows, observations, rewards, losses,"
    " gradients, weights and the ownership of attributes are checked."
)


class Checks:
    """Checks the models of a run. As a context: whoever changes what is not theirs is found out."""

    def __init__(self, models: Sequence[BaseModel]) -> None:
        self._models, self.epoch = models, 0
        """`epoch`: the one that is played or learned from."""

    def __enter__(self) -> "Checks":
        for model in self._models:
            model.own_attributes.guard()
        return self

    def __exit__(self, *error: object) -> None:
        for model in self._models:
            model.own_attributes.release()

    def check_rows(self, epoch: int) -> None:
        """Refuse rows that are not whole, or hold what no agent can see, do or get; this epoch is the current one now."""
        self.epoch = epoch
        for agent, model in enumerate(self._models):
            if (fault := model.memory.find_fault(model.n_actions)) is not None:
                raise ReplayError(f"debug: agent {agent}, epoch {self.epoch}, {fault}.")

    def of_round(self, group: Sequence[int]) -> Callable[[int], None]:
        """To be called before the first and after each update of these agents, which are trained together, or of one."""
        before, done = {agent: self._models[agent].updates for agent in group}, Counter[int]()

        def check(who: int) -> None:
            for agent in group if who == NOWHERE else [who]:
                self._check_weights(agent, before[agent] + done[who])
            done[who] += 1

        return check

    def _check_weights(self, agent: int, update: int) -> None:
        for name, module in vars(self._models[agent]).items():
            for part, weight in module.named_parameters() if isinstance(module, nn.Module) else ():
                for what, values in (("gradient", weight.grad), ("weight", weight.data)):
                    if values is not None and not bool(torch.isfinite(values).all()):
                        raise ModelError(f"{self._where(agent, update)}: the {what} of {name}.{part} is not finite.")

    def check_losses(self, figures: Mapping[int, Mapping[str, float]]) -> None:
        """Refuse losses that are no numbers, of what agents have reported of their round."""
        for agent, each in figures.items():
            if not isfinite(each.get("loss", 0.0)):
                raise ModelError(f"{self._where(agent, self._models[agent].updates)}: its loss is {each['loss']}.")

    def _where(self, agent: int, update: int) -> str:
        return f"debug: agent {agent}, epoch {self.epoch}, update {update}"
