"""Trackio: a data base on this machine (TRACKIO_DIR says where), seen with `trackio show`."""

import os
from pathlib import Path
from typing import Any

import trackio

from abreast.integrations.loggers.scalars import scalars, settings_of


class TrackioLogger:
    """One run there for each time that a run of ours begins or goes on; they are a group."""

    def __init__(self, run: Path) -> None:
        name, project = run.resolve().name, os.environ.get("TRACKIO_PROJECT", "abreast")
        self._run = trackio.init(project=project, name=name, group=name, config=settings_of(run), embed=False)

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        values: dict[str, Any] = {**scalars(reward, epsilon, more)}
        if "film" in more:
            values["film"] = trackio.Video(more["film"], format="gif")
        self._run.log(values, step=epoch)

    def close(self) -> None:
        trackio.finish()  # that of the run itself would be called again at the end of the program
