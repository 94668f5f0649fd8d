"""Weights & Biases. Without an account on this machine, or with WANDB_MODE=offline, it writes to the run folder
(`wandb sync` sends that later); it never asks for one."""

import os
from pathlib import Path
from typing import Any

import wandb

from abreast.integrations.loggers.scalars import scalars, settings_of


class WandbLogger:
    """One run there for each time that a run of ours begins or goes on; they are a group."""

    def __init__(self, run: Path) -> None:
        name = run.resolve().name
        mode: Any = os.environ.get("WANDB_MODE")
        if mode is None and not wandb.login(prompt=False, verify=False):
            mode = "offline"
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "abreast"),
            name=name,
            group=name,
            config=settings_of(run),
            dir=run,
            mode=mode,
            reinit="create_new",  # a run of the caller's own stays as it is
            settings=wandb.Settings(silent=True, console="off"),  # the display is ours
        )

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        values: dict[str, Any] = {**scalars(reward, epsilon, more)}
        if "film" in more:
            values["film"] = wandb.Video(str(more["film"]), format="gif")
        self._run.log(values, step=epoch)

    def close(self) -> None:
        self._run.finish()
